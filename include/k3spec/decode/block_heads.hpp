#pragma once
/// \file
/// What the kinds of block draft differ in when they draft: where embedding and head are, which slot predicts the first
/// token, and how a slot's logits become final once the token before it is known.
/// defines: BlockHeads

#include <string>
#include <utility>

#include <k3spec/core/require_shape.hpp>
#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/target/prepacked_linear.hpp>

namespace K3SPEC_NAMESPACE {

/// Blocks of slots, the first `first_slot` of which predict nothing; slot first_slot + k predicts the token k + 1 after
/// the anchor. Hidden states below are those of the slots that predict, [blocks · n, H], in (block, slot) order.
/// begin, then for k = 0, 1, …: step(k), confidence(k) where the head has one and it is asked for, correct(k). Each
/// throws Error on numbers of rows that do not fit the block.
template <class Draft, Element T, Device D = Cpu>
class BlockHeads;

namespace detail {
/// \throws Error unless blocks of n slots make up `rows`
inline void require_slots(index_t n, index_t rows) {
  if (n >= 1 && rows % n == 0) return;
  throw Error("BlockHeads: slots", std::to_string(n), "a divisor of " + std::to_string(rows));
}
}  // namespace detail

/// Embedding and head are the target's, where they lie.
template <class Draft, Element T, Device D>
  requires(Draft::kind == DraftKind::dflash)
class BlockHeads<Draft, T, D> {
  using E = element_t<D, T>;

 public:
  /// Slot 0 holds the anchor itself.
  static constexpr index_t first_slot = 1;
  static constexpr bool has_confidence = false;
  using Weights = typename Draft::template Weights<Prepacked<E>>;

  template <class Target>
  BlockHeads(const Target& target, const Weights&) : embedding_(target.embedding()), head_(&target.head()) {}

  const Matrix<const E>& embedding() const { return embedding_; }

  /// What a block's heads need beside its states: nothing.
  struct Block {
    template <Allocator A>
    static constexpr Block allocate(A&, index_t, index_t) {
      return {};
    }
  };

  /// hidden_states -> logits [blocks · n, V]
  void begin(const D& device, const Weights&, const Rows<const E, Draft::hidden>& hidden_states, index_t n,
             const Matrix<accumulate_t<E>>& logits, const Block&) const {
    require_shape("BlockHeads: logits", logits, hidden_states.extent(0), Draft::vocabulary);
    detail::require_slots(n, hidden_states.extent(0));
    head_->forward(device, hidden_states, logits);
  }
  void step(const D&, const Weights&, index_t n, index_t k, const Vector<const element_t<D, index_t>>&,
            const Block&) const {
    require_index("BlockHeads: slot", k, n);
  }
  void correct(const D&, const Weights&, index_t n, index_t k, const Matrix<accumulate_t<E>>& logits,
               const Block&) const {
    require_index("BlockHeads: slot", k, n);
    require_shape("BlockHeads: logits", logits, logits.extent(0), Draft::vocabulary);
  }

 private:
  Matrix<const E> embedding_;
  const PrepackedLinear<E>* head_;
};

/// Embedding and head are the draft's own; each slot's logits are corrected by the token before it.
template <class Draft, Element T, Device D>
  requires(Draft::kind == DraftKind::dspark)
class BlockHeads<Draft, T, D> {
  using E = element_t<D, T>;
  using S = accumulate_t<E>;
  using Markov = typename Draft::Markov;
  using Confidence = typename Draft::Confidence;

  template <class Layer, class A, bool Has>
  static constexpr auto saved(A& a, index_t rows) {
    if constexpr (Has) {
      return Layer::template Saved<E>::allocate(a, rows);
    } else {
      return Layer{};
    }
  }

 public:
  static constexpr index_t first_slot = 0;
  static constexpr bool has_confidence = Draft::has_confidence, has_markov = Draft::has_markov;
  using Weights = typename Draft::template Weights<Prepacked<E>>;

  template <class Target>
  BlockHeads(const Target&, const Weights& w) : embedding_(w.embed_tokens) {}

  const Matrix<const E>& embedding() const { return embedding_; }

  /// What a block's heads need beside its states.
  struct Block {
    decltype(saved<Markov, ArenaPlan, has_markov>(std::declval<ArenaPlan&>(), 0)) markov;
    decltype(saved<Confidence, ArenaPlan, has_confidence>(std::declval<ArenaPlan&>(), 0)) confidence;
    Rows<S, 1> acceptance;  // the confidence head's logits

    template <Allocator A>
    static constexpr Block allocate(A& a, index_t blocks, index_t n) {
      Block b{saved<Markov, A, has_markov>(a, blocks * n), saved<Confidence, A, has_confidence>(a, blocks), {}};
      if constexpr (has_confidence) take_rows(a, blocks, b.acceptance);
      return b;
    }
  };

  /// hidden_states -> logits [blocks · n, V], not yet corrected
  void begin(const D& device, const Weights& w, const Rows<const E, Draft::hidden>& hidden_states, index_t n,
             const Matrix<S>& logits, const Block& block) const {
    require_shape("BlockHeads: logits", logits, hidden_states.extent(0), Draft::vocabulary);
    check_slots(n, hidden_states.extent(0), block);
    Draft::Head::forward(device, w.lm_head, hidden_states, logits);
    if constexpr (has_markov) Markov::template begin<E>(device, hidden_states, n, block.markov);
  }

  /// previous [blocks]: the tokens before the k + 1st after the anchors
  void step(const D& device, const Weights& w, index_t n, index_t k,
            const Vector<const element_t<D, index_t>>& previous, const Block& block) const {
    require_index("BlockHeads: slot", k, n);
    if constexpr (has_markov) Markov::template step<E>(device, w.markov_head, previous, n, k, block.markov);
  }

  /// How sure the draft is of a block's tokens.
  /// \returns [blocks] logits of the chance that token k + 1 stays, given that those before it do
  Rows<S, 1> confidence(const D& device, const Weights& w, const Rows<const E, Draft::hidden>& hidden_states, index_t n,
                        index_t k, const Block& block) const requires(has_confidence) {
    check_slots(n, hidden_states.extent(0), block);
    require_index("BlockHeads: slot", k, n);
    const index_t blocks = hidden_states.extent(0) / n;
    require_part("BlockHeads: blocks", 0, blocks, block.acceptance.extent(0));
    const Rows<const E, Draft::hidden> now(hidden_states.row(k), Extents<dyn, Draft::hidden>(blocks),
                                           hidden_states.row_stride() * n);
    const auto out = block.acceptance.rows(0, blocks);
    if constexpr (has_markov) {
      Confidence::template forward<E>(device, w.confidence_head, now, block.markov.step(n, k).previous(), out,
                                      block.confidence);
    } else {
      Confidence::template forward<E>(device, w.confidence_head, now, now, out, block.confidence);
    }
    return out;
  }

  /// Corrects logits [blocks, V] of token k + 1 by the token before it.
  void correct(const D& device, const Weights& w, index_t n, index_t k, const Matrix<S>& logits,
               const Block& block) const {
    require_index("BlockHeads: slot", k, n);
    if constexpr (has_markov) Markov::add_logits(device, w.markov_head, block.markov.step(n, k).latent, logits);
  }

 private:
  /// Blocks of n slots make up `rows`, as many as the block was allocated for.
  static void check_slots(index_t n, index_t rows, const Block& block) {
    detail::require_slots(n, rows);
    if constexpr (has_markov) require_count("BlockHeads: hidden_states", rows, block.markov.joined.extent(0), " rows");
  }

  Matrix<const E> embedding_;
};

}  // namespace K3SPEC_NAMESPACE
