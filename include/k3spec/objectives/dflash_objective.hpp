#pragma once
/// \file
/// The DFlash training objective (objectives/block_objective.hpp): the loss of a slot is its cross-entropy with the
/// true token. Embedding and head are the frozen target's own.
/// defines: DFlashTarget, DFlashObjective

#include <optional>

#include <k3spec/batches/chunk_rows.hpp>
#include <k3spec/comm/summable.hpp>
#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/objectives/block_metrics.hpp>
#include <k3spec/objectives/block_objective.hpp>
#include <k3spec/ops/argmax.hpp>

namespace K3SPEC_NAMESPACE {

/// What a DFlash draft reads of its target: [vocabulary, H] each.
template <class T>
struct DFlashTarget {
  Matrix<const T> embed_tokens, lm_head;
};

/// The loss of a DFlash draft on a batch of blocks, and its gradient.
template <class Draft, Element T, index_t ChunkRows = chunk_rows(Draft::vocabulary), Device D = Cpu>
class DFlashObjective : public BlockObjective<DFlashObjective<Draft, T, ChunkRows, D>, Draft, T, ChunkRows, D> {
  using Base = BlockObjective<DFlashObjective, Draft, T, ChunkRows, D>;
  friend Base;

 public:
  using typename Base::E, typename Base::S, typename Base::Weights, typename Base::GradientWeights;
  using typename Base::Totals;
  using Batch = BlockBatch<E, Draft::target_width>;
  using Target = DFlashTarget<E>;
  using Sums = DFlashSums<Draft::block_size>;

  /// Memory for batches of one size.
  /// \param sequences, length, blocks  of every batch
  /// \param gamma                      of the slots' weights; infinity: they weigh alike
  /// \throws Error when the config's mask token is none, and on a gamma that is not > 0
  DFlashObjective(index_t sequences, index_t length, index_t blocks, double gamma, const D& device = D{})
      : Base({sequences, length, blocks, Draft::block_size},
             {Slot::anchor_plus_k, check_mask_token<typename Draft::config>(), gamma}, device),
        drafted_(take_outputs(this->out_, this->span_)) {}

  // ---- Each throws Error on a batch, a target or a gradient of other shapes, and on an id out of range

  /// Loss and counters only.
  Sums evaluate_only(const D& device, const Weights& w, const Target& target, const Batch& batch) {
    return run(Call{device, w, nullptr, target, batch}, std::nullopt, {});
  }

  /// Loss, counters, and gradients added to d_w, those of Σ weight · loss / (totals.weight + 1e-6).
  /// \param totals           counts summed over all batches of the step; none: this batch's
  /// \param d_target_hidden  of batch.target_hidden [R, target_width]
  Sums forward_backward(const D& device, const Weights& w, const GradientWeights& d_w, const Target& target,
                        const Batch& batch, const std::optional<Totals>& totals = std::nullopt,
                        const Destination<S>& d_target_hidden = {}) {
    return run(Call{device, w, &d_w, target, batch}, totals, d_target_hidden);
  }
  /// The same where each rank has one batch of the step: their totals are summed here. The gradients in d_w are this
  /// rank's part: summed over all ranks they are the step's.
  template <Communicator C>
  Sums forward_backward(const D& device, const Weights& w, const GradientWeights& d_w, const Target& target,
                        const Batch& batch, C& comm, const Destination<S>& d_target_hidden = {}) {
    Totals totals = this->count(batch);
    sum(comm, totals);
    return forward_backward(device, w, d_w, target, batch, totals, d_target_hidden);
  }

 private:
  using typename Base::Chunk;
  /// What a call is given.
  struct Call {
    const D& device;
    const Weights& w;
    const GradientWeights* d_w;
    const Target& target;
    const Batch& batch;
  };

  Sums run(const Call& call, const std::optional<Totals>& totals, const Destination<S>& d_target_hidden) {
    require_shape("target: embed_tokens", call.target.embed_tokens, Draft::vocabulary, Draft::hidden);
    require_shape("target: lm_head", call.target.lm_head, Draft::vocabulary, Draft::hidden);
    return Base::run(call, totals, d_target_hidden);
  }

  // ---- What the base asks for

  static void check_batch(const BlockSpan&, const Batch&) {}
  static const Matrix<const E>& embedding(const Call& call) { return call.target.embed_tokens; }
  template <class M>
  static constexpr Mirrored<D, index_t> take_outputs(M& m, const BlockSpan& span) {
    return m.template take<index_t>(span.noise_rows());
  }
  static constexpr void take_heads(ArenaPlan&, const BlockSpan&) {}
  static constexpr void take_chunk(ArenaPlan&, index_t) {}
  static constexpr std::size_t heads_scratch_bytes(const BlockSpan&) { return 0; }
  void begin_heads(const Call&) {}
  void finish_heads(const Call&) {}
  Destination<S> heads_backward(const Call&) { return {}; }
  void embedding_backward(const Call&) {}

  /// Losses of some supervised slots, the draft's choices and, where gradients are wanted, d_out.
  void walk(const Call& call, index_t first, index_t n) {
    const Chunk c = this->chunk(first, n);
    gather_rows(call.device, c.slots, this->acts_.out, c.x);
    gemm<Op::plain, Op::transposed>(call.device, c.x, call.target.lm_head, c.logits);
    argmax(call.device, c.logits, drafted_.device.rows(first, n));
    this->compute_cross_entropy(call.device, c);
    if (call.d_w == nullptr) return;
    this->take_d_losses(call.device, c);
    differentiate_rows(call.device, log_mass_formula(), c.d_losses, gradients(overwrite(c.d_logits), no_gradient),
                       this->arena_, c.logits, c.largest);
    subtract_label_backward(call.device, c.labels, 1.0, Vector<const S>(c.d_losses), c.d_logits);
    gemm<Op::plain, Op::plain>(call.device, c.d_logits, call.target.lm_head, c.d_x);
    scatter_rows(call.device, c.slots, c.d_x, this->d_out_);
  }

  /// Slots in ascending order, and a block's leading correct ones: a slot without supervision neither ends nor
  /// lengthens them.
  Sums add_up() const {
    Sums sums;
    sums.loss.denominator = this->targets_.total_weight();
    index_t i = 0;
    for (index_t block = 0; block < this->span_.sequences * this->span_.blocks; ++block) {
      bool right = true;
      const index_t before = i;
      for (index_t k = 0; k < Draft::block_size; ++k) {
        const index_t r = block * Draft::block_size + k;
        if (this->targets_.supervised(r) == 0) continue;
        const bool hit = drafted_.host(i) == this->targets_.labels(r);
        // Slot 0, the anchor, is never supervised.
        if (right) sums.depth_acceptance[static_cast<std::size_t>(k - 1)] += {hit ? 1.0 : 0.0, 1};
        right = right && hit;
        sums.loss.numerator += this->targets_.weights(r) * static_cast<double>(this->cross_entropy_.host(i++));
        sums.correct += hit ? 1 : 0, sums.accept_len_sum += right ? 1 : 0;
      }
      sums.supervised += i - before;
      sums.accept_len_sum += i > before ? 1 : 0, sums.supervised_blocks += i > before ? 1 : 0;
    }
    return sums;
  }

  Mirrored<D, index_t> drafted_;  // of supervised slots
};

}  // namespace K3SPEC_NAMESPACE
