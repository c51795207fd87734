#pragma once
/// \file
/// Which sequences a block draft drafts for, and how far each has come.
/// defines: DraftedBlocks

#include <algorithm>
#include <span>
#include <vector>

#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// The blocks of a draft, one of each sequence that asks for tokens, and what is drafted of them.
class DraftedBlocks {
 public:
  /// Of a sequence.
  struct Block {
    index_t anchor = 0;  ///< its newest token
    // Of the last call of draft: tokens asked for and drafted, the place among the blocks, the block's first row.
    index_t count = 0, drafted = 0, block = 0, row = 0;
    double reach = 1;  ///< the chance that all that is drafted stays, as far as the draft says
    bool goes_on = false;
  };

  /// No blocks yet.
  /// \param chain  the most tokens of a block
  DraftedBlocks(index_t sequences, index_t chain)
      : blocks_(at(sequences)), active_(blocks_.size()), tokens_(at(sequences * chain)) {}

  /// Begins blocks of counts[b] tokens of sequence b, of each that wants any.
  /// \param first_slot  slots of a block that predict nothing
  void begin(std::span<const index_t> counts, index_t first_slot) {
    size_ = rows_ = most_ = 0;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      blocks_[b] = {.anchor = blocks_[b].anchor, .count = counts[b], .goes_on = counts[b] > 0};
      if (counts[b] == 0) continue;
      blocks_[b].block = size_, blocks_[b].row = rows_;
      active_[at(size_++)] = static_cast<index_t>(b);
      rows_ += counts[b] + first_slot, most_ = std::max(most_, counts[b]);
    }
  }

  index_t size() const { return size_; }
  /// Slots of all blocks.
  index_t rows() const { return rows_; }
  /// Tokens of the longest one.
  index_t most() const { return most_; }
  /// The sequence of a block.
  index_t sequence(index_t block) const { return active_[at(block)]; }
  Block& operator[](index_t block) { return blocks_[at(sequence(block))]; }
  const Block& operator[](index_t block) const { return blocks_[at(sequence(block))]; }
  Block& of_sequence(index_t sequence) { return blocks_[at(sequence)]; }

  /// The token before token k of a block; of a block that has ended, the anchor.
  index_t before(index_t block, index_t k) const {
    const Block& b = (*this)[block];
    return k == 0 || !b.goes_on ? b.anchor : tokens_[at(block * most_ + k - 1)];
  }
  /// Takes token k of those blocks that go on. \param chosen  of each of them; -1: none
  void keep(index_t k, std::span<const index_t> chosen) {
    auto token = chosen.begin();
    for (index_t i = 0; i < size_; ++i) {
      Block& b = (*this)[i];
      if (!b.goes_on) continue;
      if (*token >= 0) tokens_[at(i * most_ + k)] = *token, b.drafted = k + 1;
      b.goes_on = *token++ >= 0 && b.drafted < b.count;
    }
  }
  bool any_goes_on() const {
    for (index_t i = 0; i < size_; ++i) {
      if ((*this)[i].goes_on) return true;
    }
    return false;
  }

  /// Where a sequence's tokens begin among [blocks · most], and they.
  index_t first(index_t sequence) const { return blocks_[at(sequence)].block * most_; }
  std::span<const index_t> tokens(index_t sequence) const {
    return {tokens_.data() + first(sequence), at(blocks_[at(sequence)].drafted)};
  }

 private:
  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

  std::vector<Block> blocks_;    // of each sequence
  std::vector<index_t> active_;  // the sequence of each block
  std::vector<index_t> tokens_;  // [blocks · most] drafted
  index_t size_ = 0, rows_ = 0, most_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
