#pragma once
/// \file
/// Ranks that are threads of one program. A sum is made by the thread that comes last, while the others wait: for
/// tests, and for programs whose ranks compute much between two sums.
/// ```cpp
/// inline double sum_of_two() {
///   ThreadGroup group(2);
///   double mine = 1, others = 2;
///   std::thread other([&others, comm = group.take(1)]() mutable { comm.sum(std::span(&others, 1)); });
///   group.take(0).sum(std::span(&mine, 1));
///   other.join();
///   return mine;  // 3, and so is others
/// }
/// ```
/// defines: ThreadRank, ThreadGroup

#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <k3spec/comm/communicator.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/memory.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

/// Where threads meet.
class MeetingPlace {
 public:
  explicit MeetingPlace(index_t ranks) : given_(static_cast<std::size_t>(ranks)) {}

  index_t ranks() const { return static_cast<index_t>(given_.size()); }

  /// Waits for all ranks; then each has in its numbers the sum of all, added in the order of ranks.
  /// \throws Error on every rank when one has left, or they did not bring equally many of one type
  template <class N>
  void sum(index_t rank, std::span<N> numbers) {
    std::unique_lock lock(mutex_);
    check_all_here();
    given_[static_cast<std::size_t>(rank)] = {numbers.data(), numbers.size(), type_name<N>};
    const std::uint64_t round = round_;
    if (++arrived_ == ranks()) {
      finish<N>();
    } else {
      changed_.wait(lock, [&] { return round_ != round || left_; });
      if (round_ == round) check_all_here();
    }
    // Still of this sum: the next one ends when this rank, too, has come to it.
    // Made anew: copies of one exception share memory between threads.
    if (unequal_) throw Error(unequal_->subject(), unequal_->found(), unequal_->wanted());
  }

  /// From now on no sum ends well but those that all have come to.
  void leave(index_t rank) {
    const std::scoped_lock lock(mutex_);
    if (!left_) left_ = rank;
    changed_.notify_all();
  }

 private:
  struct Given {
    void* data = nullptr;
    std::size_t count = 0;
    const char* type = nullptr;
    bool operator==(const Given& other) const { return count == other.count && type == other.type; }
    std::string text() const { return std::to_string(count) + " " + type; }
  };
  template <class N>
  static constexpr const char* type_name = std::is_same_v<N, float>    ? "floats"
                                           : std::is_same_v<N, double> ? "doubles"
                                                                       : "counts";

  void check_all_here() const {
    if (left_) throw Error("sum over ranks", "rank " + std::to_string(*left_) + " left", "all of them");
  }

  template <class N>
  void finish() {
    check_equal();
    if (!unequal_) add<N>();
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  }

  void check_equal() {
    unequal_.reset();
    for (std::size_t r = 1; r < given_.size() && !unequal_; ++r) {
      if (given_[r] == given_[0]) continue;
      unequal_.emplace("sum over ranks: rank " + std::to_string(r), given_[r].text(), given_[0].text() + ", as rank 0");
    }
  }

  template <class N>
  void add() const {
    const auto at = [](const Given& given, std::size_t i) -> N& { return static_cast<N*>(given.data)[i]; };
    for (std::size_t i = 0; i < given_[0].count; ++i) {
      N total = at(given_[0], i);
      for (std::size_t r = 1; r < given_.size(); ++r) total += at(given_[r], i);
      for (const Given& given : given_) at(given, i) = total;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Given> given_;
  index_t arrived_ = 0;
  std::uint64_t round_ = 0;       ///< sums made
  std::optional<index_t> left_;   ///< the first rank that did
  std::optional<Error> unequal_;  ///< of the last sum
};

}  // namespace detail

/// The communicator of one thread. A rank whose communicator is gone, as when its thread throws, has left.
class ThreadRank {
 public:
  ThreadRank(ThreadRank&&) noexcept = default;
  ThreadRank& operator=(ThreadRank&& other) noexcept {
    if (this == &other) return *this;
    leave();
    place_ = std::move(other.place_), rank_ = other.rank_;
    return *this;
  }
  ~ThreadRank() { leave(); }

  index_t rank() const { return rank_; }
  index_t size() const { return place_ == nullptr ? 0 : place_->ranks(); }

  // ---- Each throws Error on every rank when they did not bring equally many, or one has left

  void sum(std::span<double> numbers) { meet(numbers); }
  void sum(std::span<std::int64_t> counts) { meet(counts); }
  template <Device D, std::floating_point N>
    requires shares_memory<D>
  void sum(const D&, Vector<N> x) { meet(of(x)); }

  /// Wakes the ranks that wait for this one.
  void leave() {
    if (place_ != nullptr) place_->leave(rank_);
  }

 private:
  friend class ThreadGroup;
  ThreadRank(std::shared_ptr<detail::MeetingPlace> place, index_t rank) : place_(std::move(place)), rank_(rank) {}

  template <class N>
  static std::span<N> of(const Vector<N>& x) {
    return {x.data(), static_cast<std::size_t>(x.size())};
  }
  template <class N>
  void meet(std::span<N> numbers) {
    if (place_ == nullptr) throw Error("communicator", "one that was moved away", "a rank's");
    place_->sum(rank_, numbers);
  }

  std::shared_ptr<detail::MeetingPlace> place_;
  index_t rank_;
};
static_assert(Communicator<ThreadRank>);

/// Makes the communicators of some threads. Its own end is the leaving of all ranks that nobody took.
class ThreadGroup {
 public:
  /// A place for ranks 0 to size - 1.
  /// \throws Error on fewer than one rank
  explicit ThreadGroup(index_t size) {
    if (size < 1) throw Error("ThreadGroup: ranks", std::to_string(size), "at least 1");
    const auto place = std::make_shared<detail::MeetingPlace>(size);
    for (index_t r = 0; r < size; ++r) ranks_.emplace_back(ThreadRank(place, r));
  }

  index_t size() const { return static_cast<index_t>(ranks_.size()); }

  /// The communicator of a rank, for the thread that is to have it. Ranks may be taken by several threads at a time.
  /// \throws Error on a rank that there is not, or that was taken before
  ThreadRank take(index_t rank) {
    if (rank < 0 || rank >= size()) {
      throw Error("ThreadGroup: rank", std::to_string(rank), "0 to " + std::to_string(size() - 1));
    }
    auto& own = ranks_[static_cast<std::size_t>(rank)];
    if (!own) throw Error("ThreadGroup: rank " + std::to_string(rank), "taken before", "taken once");
    ThreadRank taken = std::move(*own);
    own.reset();
    return taken;
  }

 private:
  std::vector<std::optional<ThreadRank>> ranks_;
};

}  // namespace K3SPEC_NAMESPACE
