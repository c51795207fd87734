#pragma once
/// \file
/// A call with right arguments, and with each of their extents wrong in turn: what it refuses, and by which name.
/// defines: refusals::Arguments, refusals::Blame, refusals::refuses

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/arena.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/view.hpp>

namespace k3spec::refusals {

/// Who may be blamed for a wrong extent: the argument itself, or any, where the others are measured by it.
enum class Blame { own, any };

/// Hands out the arguments of one call, all right but one. Each has memory of its own of exactly its size, so that a
/// sanitizer sees what is read or written behind it.
class Arguments {
 public:
  static constexpr index_t all_right = -1;
  /// \param wrong  which of the changes is made
  explicit Arguments(index_t wrong = all_right) : wrong_(wrong) {}

  /// What is changed: one less, one more, none.
  index_t extent(const std::string& name, index_t n, Blame blame = Blame::own) {
    names_.insert(name);
    for (const index_t changed : {n - 1, n + 1, index_t{0}}) {
      if (changed == n || (changed == 0 && n == 1) || !turn(name, n, changed, blame)) continue;
      return changed;
    }
    return n;
  }
  /// Where more, or fewer, are right.
  index_t least(const std::string& name, index_t n) {
    names_.insert(name);
    if (turn(name, n, n - 1, Blame::own)) return n - 1;
    return n > 1 && turn(name, n, 0, Blame::own) ? 0 : n;
  }
  index_t most(const std::string& name, index_t n) {
    names_.insert(name);
    return turn(name, n, n + 1, Blame::own) ? n + 1 : n;
  }
  /// The same of what may be left out: none is right.
  index_t optional_extent(const std::string& name, index_t n) {
    names_.insert(name);
    if (turn(name, n, n - 1, Blame::own)) return n - 1;
    return turn(name, n, n + 1, Blame::own) ? n + 1 : n;
  }
  /// An index that is to be below `count`.
  index_t index(const std::string& name, index_t i, index_t count) {
    names_.insert(name);
    if (turn(name, i, -1, Blame::own)) return -1;
    return turn(name, i, count, Blame::own) ? count : i;
  }

  template <class T>
  Matrix<T> matrix(const std::string& name, index_t rows, index_t columns, Blame blame = Blame::own) {
    const index_t r = extent(name, rows, blame), c = extent(name, columns, blame);
    return of<T>(r, c);
  }
  /// Of extents that were asked for.
  template <class T>
  Matrix<T> of(index_t rows, index_t columns) {
    return Matrix<T>(memory<T>(rows * columns), rows, columns);
  }
  template <class T>
  Matrix<T> optional_matrix(const std::string& name, index_t rows, index_t columns) {
    const index_t r = optional_extent(name, rows), c = extent(name, columns);
    return of<T>(r, c);
  }
  template <class T, index_t C>
  Rows<T, C> rows(const std::string& name, index_t n, Blame blame = Blame::own) {
    const index_t r = extent(name, n, blame);
    return Rows<T, C>(memory<T>(r * C), r);
  }
  template <class T>
  Vector<T> vector(const std::string& name, index_t n, T value = T{}) {
    const index_t r = extent(name, n);
    return Vector<T>(memory<T>(r, value), r);
  }
  template <class T>
  Vector<T> optional_vector(const std::string& name, index_t n, T value = T{}) {
    const index_t r = optional_extent(name, n);
    return Vector<T>(memory<T>(r, value), r);
  }
  /// Indices of `count` things: of another number, -1 or `count` among them, last. Tokens are named by their row.
  Vector<index_t> ids(const std::string& name, std::vector<index_t> values, index_t count, Blame blame = Blame::own) {
    return tokens(name, std::move(values), count, blame, name);
  }
  Vector<index_t> tokens(const std::string& name, std::vector<index_t> values, index_t count, Blame blame = Blame::own,
                         const std::string& one = "token id at row") {
    const auto n = extent(name, static_cast<index_t>(values.size()), blame);
    values.resize(static_cast<std::size_t>(n));
    if (!values.empty()) {
      if (turn(one, values.back(), -1, Blame::own)) values.back() = -1;
      if (turn(one, values.back(), count, Blame::own)) values.back() = count;
    }
    index_t* p = memory<index_t>(n);
    std::copy(values.begin(), values.end(), p);
    return Vector<index_t>(p, n);
  }
  /// What take(arena, n) makes of an arena, for another n.
  template <class F>
  auto planned(const std::string& name, index_t n, F&& take, Blame blame = Blame::own) {
    const index_t changed = extent(name, n, blame);
    return planned_right([&](auto& arena) { return take(arena, changed); });
  }
  template <class F>
  auto planned_right(F&& take) {
    auto arena = std::make_shared<Arena>(plan_bytes([&](ArenaPlan& a) { take(a); }));
    memory_.push_back(arena);
    return take(*arena);
  }
  /// Room for whatever a call takes.
  Arena& scratch() {
    auto arena = std::make_shared<Arena>(std::size_t{1} << 20);
    memory_.push_back(arena);
    return *arena;
  }

  /// Of exactly n elements.
  template <class T>
  T* memory(index_t n, std::remove_const_t<T> value = {}) {
    using U = std::remove_const_t<T>;
    const auto elements = static_cast<std::size_t>(std::max<index_t>(n, 0));
    std::shared_ptr<U[]> p(new U[elements]);
    std::fill_n(p.get(), elements, value);
    memory_.push_back(std::shared_ptr<void>(p, p.get()));
    return p.get();
  }

  index_t changes() const { return changes_; }
  const std::string& changed() const { return changed_; }
  /// Whether an error of this subject says what is wrong.
  bool may_blame(const std::string& subject) const {
    const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    // As a word: "row" is not named by "rows".
    const auto in_subject = [&](const std::string& name) {
      for (auto at = subject.find(name); at != std::string::npos; at = subject.find(name, at + 1)) {
        const auto end = at + name.size();
        if ((at == 0 || !is_part(subject[at - 1])) && (end == subject.size() || !is_part(subject[end]))) return true;
      }
      return false;
    };
    return in_subject(name_) || (blame_ == Blame::any && std::any_of(names_.begin(), names_.end(), in_subject));
  }

 private:
  bool turn(const std::string& name, index_t from, index_t to, Blame blame) {
    if (changes_++ != wrong_) return false;
    changed_ = name + ": " + std::to_string(to) + " for " + std::to_string(from);
    name_ = name, blame_ = blame;
    return true;
  }

  index_t wrong_, changes_ = 0;
  std::string name_, changed_;
  Blame blame_ = Blame::own;
  std::set<std::string> names_;
  std::vector<std::shared_ptr<void>> memory_;
};

/// \param covers  the functions that `call` calls with the arguments that it asks for, as "room/header.hpp function":
///                complete.cpp finds them in this folder's text
template <class F>
void refuses(const std::vector<std::string>& covers, F&& call) {
  CAPTURE(covers.front());
  Arguments right;
  REQUIRE_NOTHROW(call(right));
  REQUIRE(right.changes() > 0);
  for (index_t i = 0; i < right.changes(); ++i) {
    Arguments wrong(i);
    try {
      call(wrong);
      FAIL_CHECK(wrong.changed() << " is taken");
    } catch (const Error& e) {
      if (!wrong.may_blame(e.subject())) FAIL_CHECK(wrong.changed() << " is refused as " << std::string(e.what()));
    }
  }
}

}  // namespace k3spec::refusals
