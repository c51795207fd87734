#pragma once
/// \file
/// The working memory of a block objective for some rows of the vocabulary.
/// defines: BlockChunk

#include <k3spec/core/arena.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// What exists of one chunk of supervised slots at a time, n of them. \tparam T  of activations, where they are
template <class Draft, Element T>
struct BlockChunk {
  using S = accumulate_t<T>;
  using Ids = Vector<const placed_as_t<index_t, T>>;
  Ids slots, labels, teacher_rows;  ///< of BlockLists
  Vector<S> cross_entropy;          ///< where it is kept for the host
  Rows<T, Draft::hidden> x;
  Rows<S, Draft::hidden> d_x;
  Rows<S, Draft::vocabulary> logits, d_logits;
  Vector<S> largest, d_losses;

  /// The working memory for n slots.
  template <Allocator A>
  static constexpr BlockChunk allocate(A& a, index_t n) {
    BlockChunk c{};
    take_rows(a, n, c.x), take_rows(a, n, c.d_x), take_rows(a, n, c.logits), take_rows(a, n, c.d_logits);
    take_rows(a, n, c.largest), take_rows(a, n, c.d_losses);
    return c;
  }
  /// That of the first n slots.
  BlockChunk rows(index_t n) const {
    BlockChunk c = *this;
    c.x = x.rows(0, n), c.d_x = d_x.rows(0, n), c.logits = logits.rows(0, n), c.d_logits = d_logits.rows(0, n);
    c.largest = largest.rows(0, n), c.d_losses = d_losses.rows(0, n);
    return c;
  }
};

}  // namespace K3SPEC_NAMESPACE
