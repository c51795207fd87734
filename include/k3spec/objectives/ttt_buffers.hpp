#pragma once
/// \file
/// The memory that the EAGLE-3 objective needs beside the draft's activations.
/// defines: TttBuffers, TttChunk

#include <array>
#include <cstdint>

#include <k3spec/core/arena.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>

namespace K3SPEC_NAMESPACE {

/// What the objective keeps of all rows of a batch.
template <class Draft, Element T>
struct TttBuffers {
  using S = accumulate_t<T>;
  std::array<Rows<S, Draft::hidden>, Draft::max_steps> d_out;
  std::array<Vector<S>, Draft::max_steps> losses, alphas;    // per row; 0 where nothing is supervised
  std::array<Vector<std::uint8_t>, Draft::max_steps> right;  // argmax agrees and supervised
  Vector<index_t> position_ids;                              // of packed documents, with RoPE
  Vector<std::uint8_t> supervised;                           // loss mask and teacher's choice in the draft vocabulary

  template <Allocator A>
  static constexpr TttBuffers allocate(A& a, index_t rows, index_t steps) {
    TttBuffers b{};
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k) {
      take_rows(a, rows, b.d_out[k]), take_rows(a, rows, b.losses[k]), take_rows(a, rows, b.alphas[k]);
      take_rows(a, rows, b.right[k]);
    }
    take_rows(a, rows, b.supervised);
    if constexpr (Draft::Attention::has_rope) take_rows(a, rows, b.position_ids);
    return b;
  }
};

/// Its working memory of one chunk of the vocabulary's walk.
template <class Draft, Element T>
struct TttChunk {
  using S = accumulate_t<T>;
  Rows<S, Draft::draft_vocabulary> p, logits, d_logits;
  Rows<T, Draft::hidden> x;
  Vector<S> d_loss;
  Vector<index_t> top_p, top_q;

  template <Allocator A>
  static constexpr TttChunk allocate(A& a, index_t n) {
    TttChunk c;
    take_rows(a, n, c.p), take_rows(a, n, c.logits), take_rows(a, n, c.d_logits), take_rows(a, n, c.x);
    take_rows(a, n, c.d_loss), take_rows(a, n, c.top_p), take_rows(a, n, c.top_q);
    return c;
  }
};

}  // namespace K3SPEC_NAMESPACE
