#pragma once
/// \file
/// The working memory of DSpark's objective for some rows of the vocabulary.
/// defines: DSparkChunk

#include <k3spec/core/arena.hpp>
#include <k3spec/drafts/dspark_draft.hpp>

namespace K3SPEC_NAMESPACE {

/// What exists of one chunk of supervised slots at a time.
template <class Draft, Element T>
struct DSparkChunk {
  using S = accumulate_t<T>;
  static constexpr index_t rank = Draft::Markov::rank;
  Rows<T, Draft::hidden> x;
  Rows<T, rank> latent;
  Rows<S, Draft::hidden> d_x;
  Rows<S, rank> d_latent;
  Rows<S, Draft::vocabulary> p, logits, d_logits;
  Vector<S> largest, cross_entropy, distance, d_losses;
  Vector<index_t> labels, teacher_rows;

  template <Allocator A>
  static constexpr DSparkChunk allocate(A& a, index_t n) {
    DSparkChunk c{};
    take_rows(a, n, c.x), take_rows(a, n, c.d_x);
    if constexpr (rank > 0) take_rows(a, n, c.latent), take_rows(a, n, c.d_latent);
    take_rows(a, n, c.p), take_rows(a, n, c.logits), take_rows(a, n, c.d_logits), take_rows(a, n, c.largest);
    take_rows(a, n, c.cross_entropy), take_rows(a, n, c.distance), take_rows(a, n, c.d_losses);
    take_rows(a, n, c.labels), take_rows(a, n, c.teacher_rows);
    return c;
  }
  DSparkChunk rows(index_t n) const {
    const auto part = [n](const auto& v) { return v.data() == nullptr ? v : v.rows(0, n); };
    return {part(x),        part(latent),   part(d_x),         part(d_latent),      part(p),
            part(logits),   part(d_logits), part(largest),     part(cross_entropy), part(distance),
            part(d_losses), part(labels),   part(teacher_rows)};
  }
};

}  // namespace K3SPEC_NAMESPACE
