#pragma once
/// \file
/// What DSpark's objective needs beside what all block objectives do: working memory for some rows of the vocabulary,
/// and what the host gets to see of every slot.
/// defines: DSparkChunk, DSparkOutputs

#include <k3spec/core/mirror.hpp>
#include <k3spec/drafts/dspark_draft.hpp>

namespace K3SPEC_NAMESPACE {

/// What exists of one chunk of supervised slots at a time. \tparam T  of activations, where they are
template <class Draft, Element T>
struct DSparkChunk {
  using S = accumulate_t<T>;
  static constexpr index_t rank = Draft::Markov::rank;
  Rows<S, Draft::vocabulary> p;
  Vector<S> distance;
  Rows<T, rank> latent;  // with a Markov head
  Rows<S, rank> d_latent;

  template <Allocator A>
  static constexpr DSparkChunk allocate(A& a, index_t n) {
    DSparkChunk c{};
    take_rows(a, n, c.p), take_rows(a, n, c.distance);
    if constexpr (rank > 0) take_rows(a, n, c.latent), take_rows(a, n, c.d_latent);
    return c;
  }
  /// That of the first n slots.
  DSparkChunk rows(index_t n) const {
    const auto part = [n](const auto& v) { return v.data() == nullptr ? v : v.rows(0, n); };
    return {part(p), part(distance), part(latent), part(d_latent)};
  }
};

/// Of every slot: |p - q|₁, acceptance, the confidence head's loss and its logit. \tparam S  of losses
template <class S, Device D>
struct DSparkOutputs {
  Mirrored<D, S> distance, acceptance, confidence, logits;

  template <class M>
  static constexpr DSparkOutputs allocate(M& m, index_t rows) {
    DSparkOutputs out{};
    out.distance = m.template take<S>(rows), out.acceptance = m.template take<S>(rows);
    out.confidence = m.template take<S>(rows), out.logits = m.template take<S>(rows);
    return out;
  }
};

}  // namespace K3SPEC_NAMESPACE
