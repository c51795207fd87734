#pragma once
/// \file
/// What the kinds of block draft differ in when they draft: where embedding and head are, which slot predicts the first
/// token, and how a slot's logits become final once the token before it is known.
/// defines: BlockHeads

#include <cmath>
#include <utility>

#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/target/frozen_linear.hpp>

namespace k3spec {

/// Blocks of n slots, the first `first_slot` of which predict nothing; slot first_slot + k predicts the token k + 1
/// after the anchor. Hidden states below are those of the slots that predict.
template <class Draft, Element T>
class BlockHeads;

/// Embedding and head are the target's, where they lie.
template <class Draft, Element T>
  requires(Draft::kind == DraftKind::dflash)
class BlockHeads<Draft, T> {
 public:
  static_assert(Draft::hidden == Draft::config::target_hidden_size,
                "BlockHeads: a DFlash draft's hidden_size must be the target's, whose embedding and head it uses");
  /// Slot 0 holds the anchor itself.
  static constexpr index_t first_slot = 1;
  static constexpr bool has_confidence = false;
  using Weights = typename Draft::template Weights<Packed<T>>;

  template <class Target>
  BlockHeads(const Target& target, const Weights&) : embedding_(target.embedding()), head_(&target.head()) {}

  const Matrix<const T>& embedding() const { return embedding_; }

  struct Block {
    template <Allocator A>
    static constexpr Block allocate(A&, index_t) {
      return {};
    }
  };

  /// hidden_states [n, H] -> logits [n, V]
  void begin(const Cpu& cpu, const Weights&, const Rows<const T, Draft::hidden>& hidden_states,
             const Matrix<accumulate_t<T>>& logits, const Block&) const {
    head_->forward(cpu, hidden_states, logits);
  }

  /// Logits [1, V] of the token k + 1 after the anchor, given the one before it. \returns whether to draft it
  bool finish(const Cpu&, const Weights&, const Rows<const T, Draft::hidden>&, index_t, Vector<const index_t>, double,
              double&, const Matrix<accumulate_t<T>>&, const Block&) const {
    return true;
  }

 private:
  Matrix<const T> embedding_;
  const FrozenLinear<T>* head_;
};

/// Embedding and head are the draft's own; each slot's logits are corrected by the token before it.
template <class Draft, Element T>
  requires(Draft::kind == DraftKind::dspark)
class BlockHeads<Draft, T> {
  using S = accumulate_t<T>;
  using Markov = typename Draft::Markov;
  using Confidence = typename Draft::Confidence;

  template <class Layer, class A, bool Has>
  static constexpr auto saved(A& a, index_t rows) {
    if constexpr (Has) {
      return Layer::template Saved<T>::allocate(a, rows);
    } else {
      return Layer{};
    }
  }

 public:
  static constexpr index_t first_slot = 0;
  static constexpr bool has_confidence = Draft::has_confidence, has_markov = Draft::has_markov;
  using Weights = typename Draft::template Weights<Packed<T>>;

  template <class Target>
  BlockHeads(const Target&, const Weights& w) : embedding_(w.embed_tokens) {}

  const Matrix<const T>& embedding() const { return embedding_; }

  struct Block {
    decltype(saved<Markov, ArenaPlan, has_markov>(std::declval<ArenaPlan&>(), 0)) markov;
    decltype(saved<Confidence, ArenaPlan, has_confidence>(std::declval<ArenaPlan&>(), 0)) confidence;
    Rows<S, 1> acceptance;  // the confidence head's logit

    template <Allocator A>
    static constexpr Block allocate(A& a, index_t n) {
      Block b{saved<Markov, A, has_markov>(a, n), saved<Confidence, A, has_confidence>(a, 1), {}};
      if constexpr (has_confidence) take_rows(a, 1, b.acceptance);
      return b;
    }
  };

  /// hidden_states [n, H] -> logits [n, V], not yet corrected
  void begin(const Cpu& cpu, const Weights& w, const Rows<const T, Draft::hidden>& hidden_states,
             const Matrix<S>& logits, const Block& block) const {
    Draft::Head::forward(cpu, w.lm_head, hidden_states, logits);
    if constexpr (has_markov) Markov::template begin<T>(cpu, hidden_states, hidden_states.extent(0), block.markov);
  }

  /// Corrects logits [1, V] of the token k + 1 after the anchor by `previous` [1], the one before it.
  /// \param reach  the chance that all tokens before it stay, 1 for the first; becomes that of it with them
  /// \returns whether to draft it: is that chance at least min_confidence?
  bool finish(const Cpu& cpu, const Weights& w, const Rows<const T, Draft::hidden>& hidden_states, index_t k,
              Vector<const index_t> previous, double min_confidence, double& reach, const Matrix<S>& logits,
              const Block& block) const {
    const index_t n = hidden_states.extent(0);
    if constexpr (has_markov) Markov::template step<T>(cpu, w.markov_head, previous, n, k, block.markov);
    if constexpr (has_confidence) {
      // The head learns the chance that a token stays given that those before it do.
      if (min_confidence > 0) reach *= acceptance(cpu, w, hidden_states.rows(k, 1), n, k, block);
      if (reach < min_confidence) return false;
    }
    if constexpr (has_markov) Markov::add_logits(cpu, w.markov_head, block.markov.step(n, k).latent, logits);
    return true;
  }

 private:
  static double acceptance(const Cpu& cpu, const Weights& w, const Rows<const T, Draft::hidden>& hidden_state,
                           index_t n, index_t k, const Block& block) {
    if constexpr (has_markov) {
      Confidence::template forward<T>(cpu, w.confidence_head, hidden_state, block.markov.step(n, k).previous(),
                                      block.acceptance, block.confidence);
    } else {
      Confidence::template forward<T>(cpu, w.confidence_head, hidden_state, hidden_state, block.acceptance,
                                      block.confidence);
    }
    return 1 / (1 + std::exp(-static_cast<double>(block.acceptance(0, 0))));
  }

  Matrix<const T> embedding_;
};

}  // namespace k3spec
