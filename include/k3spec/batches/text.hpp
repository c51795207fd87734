#pragma once
/// \file
/// Text as training data for models with a byte vocabulary: a token is a byte. Windows are plain pieces of the text,
/// without a token that begins or ends them. The whole text is held, so that a run learns from what it began with.
/// defines: ByteText

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include <k3spec/core/format.hpp>
#include <k3spec/core/rng.hpp>
#include <k3spec/core/view.hpp>
#include <k3spec/io/input_file.hpp>

namespace K3SPEC_NAMESPACE {

/// A text file, its bytes being the tokens.
class ByteText {
 public:
  /// Reads a file.
  /// \throws Error when the file cannot be read
  explicit ByteText(const std::filesystem::path& path) : path_(path.string()), text_(io::read_file(path)) {}

  const std::string& path() const { return path_; }
  std::span<const std::uint8_t> bytes() const {
    return {reinterpret_cast<const std::uint8_t*>(text_.data()), text_.size()};
  }
  index_t size() const { return static_cast<index_t>(text_.size()); }

  /// Throws Error unless there are `count` windows of `length` tokens, one behind the other.
  void check_windows(index_t count, index_t length) const {
    if (length < 1) throw Error(path_ + ": window length", fmt::format("{}", length), "at least 1");
    if (count <= windows(length)) return;
    const std::string one = fmt::format("a window of {} bytes", length);
    throw Error(path_, fmt::format("{} bytes", size()),
                count == 1 ? one : fmt::format("{} windows of {} bytes each, {} bytes", count, length, count * length));
  }

  /// Windows at random places: row r of ids [batch, length] starts where (seed, step · batch + r) says, so that a run
  /// can go on at any step with nothing remembered.
  template <class Id>
  void random_windows(std::uint64_t seed, index_t step, Matrix<Id> ids) const {
    check_windows(1, ids.extent(1));
    const Philox random(seed, streams::windows);
    const auto places = static_cast<std::uint64_t>(size() - ids.extent(1) + 1);
    for (index_t r = 0; r < ids.extent(0); ++r) {
      const auto index = static_cast<std::uint64_t>(step * ids.extent(0) + r);
      copy(static_cast<index_t>(random.below(index, places)), ids, r);
    }
  }

  /// Windows one behind the other: how many of `length` there are, and rows first, first + 1, … of them.
  index_t windows(index_t length) const { return length < 1 ? 0 : size() / length; }
  template <class Id>
  void consecutive_windows(index_t first, Matrix<Id> ids) const {
    const index_t length = ids.extent(1), last = first + ids.extent(0);
    if (first < 0 || last > windows(length)) {
      throw Error(path_ + ": windows", fmt::format("{} to {}", first, last),
                  fmt::format("within 0 to {}", windows(length)));
    }
    for (index_t r = 0; r < ids.extent(0); ++r) copy((first + r) * length, ids, r);
  }

 private:
  template <class Id>
  void copy(index_t begin, Matrix<Id> ids, index_t row) const {
    const auto text = bytes().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(ids.extent(1)));
    for (index_t i = 0; i < ids.extent(1); ++i) ids(row, i) = static_cast<Id>(text[static_cast<std::size_t>(i)]);
  }

  std::string path_;
  std::string text_;
};

}  // namespace K3SPEC_NAMESPACE
