#pragma once
/// \file
/// The working memory of the EAGLE-3 objective for some rows of the vocabulary.
/// defines: TttChunk

#include <k3spec/core/arena.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>

namespace K3SPEC_NAMESPACE {

/// What exists of one chunk of teacher rows at a time. \tparam T  the activations' type, where they are
template <class Draft, Element T>
struct TttChunk {
  using S = accumulate_t<T>;
  Rows<S, Draft::draft_vocabulary> p, logits, d_logits;
  Rows<T, Draft::hidden> x;
  Vector<S> d_loss;

  template <Allocator A>
  static constexpr TttChunk allocate(A& a, index_t n) {
    TttChunk c;
    take_rows(a, n, c.p), take_rows(a, n, c.logits), take_rows(a, n, c.d_logits), take_rows(a, n, c.x);
    take_rows(a, n, c.d_loss);
    return c;
  }
};

}  // namespace K3SPEC_NAMESPACE
