#pragma once
/// \file
/// Whole documents in windows of one length, by best fit decreasing: the longest document first, each into the fullest
/// window that still has room for it. A document longer than a window is cut into pieces of a window's length and a
/// rest; one of no tokens is left out.
/// defines: PackedWindows

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// Which pieces of documents each window has.
class PackedWindows {
 public:
  /// Tokens one behind the other.
  struct Piece {
    index_t begin, length;
  };
  /// What became of the documents.
  struct Counts {
    index_t whole = 0, cut = 0, empty = 0;  ///< documents: in one window; in several; left out
    index_t tokens = 0, padding = 0;        ///< of all windows
  };

  /// Packs them.
  /// \param ends    of documents that lie one behind the other, ascending
  /// \param length  tokens of a window
  /// \throws Error on windows of no token
  PackedWindows(std::span<const index_t> ends, index_t length) : length_(length) {
    if (length < 1) throw Error("packed windows: length", std::to_string(length), "at least 1");
    std::vector<Piece> pieces = cut(ends);
    std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.length > b.length; });
    place(pieces);
  }

  index_t windows() const { return static_cast<index_t>(first_.size()) - 1; }
  const Counts& counts() const { return counts_; }

  /// The pieces of a window, in their order there. What they leave of it is padding.
  /// \throws Error when there is no such window
  std::span<const Piece> pieces(index_t window) const {
    if (window < 0 || window >= windows()) {
      throw Error("packed windows: window", std::to_string(window), "0 to " + std::to_string(windows() - 1));
    }
    const auto w = static_cast<std::size_t>(window);
    return std::span(pieces_).subspan(first_[w], first_[w + 1] - first_[w]);
  }

 private:
  std::vector<Piece> cut(std::span<const index_t> ends) {
    std::vector<Piece> pieces;
    index_t begin = 0;
    for (const index_t end : ends) {
      const index_t tokens = end - begin;
      ++(tokens == 0 ? counts_.empty : tokens <= length_ ? counts_.whole : counts_.cut);
      counts_.tokens += tokens;
      for (; begin < end; begin += pieces.back().length) pieces.push_back({begin, std::min(length_, end - begin)});
    }
    return pieces;
  }

  void place(const std::vector<Piece>& pieces) {
    std::vector<std::size_t> window_of;
    std::set<std::pair<index_t, std::size_t>> room;  // of windows that are not full
    std::vector<std::size_t> sizes;
    for (const Piece& piece : pieces) {
      const auto best = room.lower_bound({piece.length, 0});
      const std::size_t window = best == room.end() ? sizes.size() : best->second;
      const index_t left = (best == room.end() ? length_ : best->first) - piece.length;
      if (best == room.end()) sizes.push_back(0);
      if (best != room.end()) room.erase(best);
      if (left > 0) room.emplace(left, window);
      ++sizes[window], window_of.push_back(window);
    }
    for (const auto& [left, window] : room) counts_.padding += left;
    for (const std::size_t size : sizes) first_.push_back(first_.back() + size);
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    pieces_.resize(pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces_[next[window_of[i]]++] = pieces[i];
  }

  index_t length_;
  Counts counts_;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> first_{0};  // of each window, and one behind
};

}  // namespace K3SPEC_NAMESPACE
