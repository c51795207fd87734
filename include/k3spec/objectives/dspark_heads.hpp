#pragma once
/// \file
/// DSpark's two small heads over all rows of a batch, as far as they are there: what they make, keep and send back. The
/// vocabulary's part of the Markov head (add_logits) goes chunk by chunk elsewhere.
/// defines: DSparkHeads

#include <type_traits>

#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/ops/copy.hpp>

namespace K3SPEC_NAMESPACE {

/// The heads of a DSpark draft in training. \tparam T  of activations, where they are
template <class Draft, Element T>
struct DSparkHeads {
  using S = accumulate_t<T>;
  using Ids = Vector<const placed_as_t<index_t, T>>;
  using Markov = typename Draft::Markov;
  using Confidence = typename Draft::Confidence;
  using Weights = typename Draft::template Weights<const T>;
  using GradientWeights = typename Draft::template Weights<S>;
  static constexpr index_t rank = Markov::rank;

  /// What a head keeps for backward.
  template <class Head>
  struct SavedOf {
    using type = typename Head::template Saved<T>;
  };
  /// Stands where there is no such head.
  struct Nothing {};
  template <bool There, class Head>
  using Saved = typename std::conditional_t<There, SavedOf<Head>, std::type_identity<Nothing>>::type;

  Saved<Draft::has_markov, Markov> markov;
  Saved<Draft::has_confidence, Confidence> confidence;
  Rows<S, rank> d_latent, d_previous;
  Rows<S, 1> logits, d_logits;  // of the confidence head
  index_t block_size = 0;

  template <Allocator A>
  static constexpr DSparkHeads allocate(A& a, index_t rows, index_t block_size) {
    DSparkHeads h{};
    h.block_size = block_size;
    if constexpr (Draft::has_markov) {
      h.markov = Markov::template Saved<T>::allocate(a, rows);
      take_rows(a, rows, h.d_latent), take_rows(a, rows, h.d_previous);
    }
    if constexpr (Draft::has_confidence) {
      h.confidence = Confidence::template Saved<T>::allocate(a, rows);
      take_rows(a, rows, h.logits), take_rows(a, rows, h.d_logits);
    }
    return h;
  }

  /// Bytes of scratch that backward takes.
  static constexpr std::size_t scratch_bytes(index_t rows, index_t block_size) {
    if constexpr (Draft::has_markov) return Markov::template scratch_bytes<T>(rows, block_size);
    return 0;
  }

  /// previous_ids [rows], out [rows, H] -> markov.latent, logits. Gradients that are added to begin at 0.
  /// \throws Error on other numbers of rows than were allocated
  template <Device D>
  void forward(const D& device, const Weights& w, const Ids& previous_ids,
               const Rows<const T, Draft::hidden>& out) const {
    check(previous_ids, out);
    Rows<T, rank> previous;
    if constexpr (Draft::has_markov) {
      Markov::template forward<T>(device, w.markov_head, previous_ids, out, block_size, markov);
      zero(device, d_latent);
      zero(device, d_previous);
      previous = markov.previous();
    }
    if constexpr (Draft::has_confidence) {
      Confidence::template forward<T>(device, w.confidence_head, out, previous, logits, confidence);
    }
  }

  /// d_latent and d_logits -> added to parameter gradients and to d_out [rows, H].
  /// \throws Error on other numbers of rows than were allocated
  template <Device D>
  void backward(const Workspace<D>& on, const Weights& w, const GradientWeights& d_w, const Ids& previous_ids,
                const Rows<const T, Draft::hidden>& out, const Rows<S, Draft::hidden>& d_out) const {
    check(previous_ids, out);
    require_rows("DSparkHeads: d_out", d_out, out.extent(0));
    if constexpr (Draft::has_confidence) {
      Confidence::template backward<T>(on, w.confidence_head, d_w.confidence_head, out, confidence, d_logits,
                                       {{d_out, Into::accumulate}, {d_previous, Into::accumulate}});
    }
    if constexpr (Draft::has_markov) {
      Markov::template backward<T>(on, w.markov_head, d_w.markov_head, {previous_ids, block_size}, markov,
                                   {d_latent.matrix(), d_previous.matrix(), {d_out, Into::accumulate}});
    }
  }

 private:
  void check(const Ids& previous_ids, const Rows<const T, Draft::hidden>& out) const {
    require_rows("DSparkHeads: previous_ids", previous_ids, out.extent(0));
    if constexpr (Draft::has_markov) require_rows("DSparkHeads: out", out, d_latent.extent(0));
    if constexpr (Draft::has_confidence) require_rows("DSparkHeads: out", out, logits.extent(0));
  }
};

}  // namespace K3SPEC_NAMESPACE
