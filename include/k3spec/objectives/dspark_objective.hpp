#pragma once
/// \file
/// The DSpark training objective (objectives/block_objective.hpp). The loss of a slot is
/// ```text
/// ce_alpha · cross-entropy + l1_alpha · |p - q|₁ + confidence_alpha · BCE(confidence logit, acceptance)
/// ```
/// with q the draft's distribution, Markov correction and all, p the target's, acceptance = 1 - |p - q|₁ / 2 as a
/// constant. p is the draft's own head on the target's last state, and nothing flows back through it.
/// defines: DSparkBatch, DSparkOptions, DSparkObjective

#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>

#include <k3spec/batches/chunk_rows.hpp>
#include <k3spec/comm/summable.hpp>
#include <k3spec/losses/dspark_loss.hpp>
#include <k3spec/losses/soft_cross_entropy.hpp>
#include <k3spec/objectives/block_metrics.hpp>
#include <k3spec/objectives/block_objective.hpp>
#include <k3spec/objectives/dspark_chunk.hpp>
#include <k3spec/objectives/dspark_heads.hpp>
#include <k3spec/ops/copy.hpp>

namespace K3SPEC_NAMESPACE {

/// What DSpark's objective reads.
template <class T, index_t TargetWidth, index_t Hidden>
struct DSparkBatch : BlockBatch<T, TargetWidth> {
  Rows<const T, Hidden> target_last_hidden;  // [R] after the target's final norm
};

/// What DSpark's objective weighs, by the names that TrainSettings has it under.
struct DSparkOptions {
  double gamma = 4.0;  ///< see BlockRule
  double ce_alpha = 0.1, l1_alpha = 0.9, confidence_alpha = 1.0;
};

/// The loss of a DSpark draft on a batch of blocks, and its gradient.
template <class Draft, Element T, index_t ChunkRows = chunk_rows(Draft::vocabulary), Device D = Cpu>
class DSparkObjective : public BlockObjective<DSparkObjective<Draft, T, ChunkRows, D>, Draft, T, ChunkRows, D> {
  using Base = BlockObjective<DSparkObjective, Draft, T, ChunkRows, D>;
  friend Base;

 public:
  using typename Base::E, typename Base::S, typename Base::Weights, typename Base::GradientWeights;
  using typename Base::Totals;
  using Batch = DSparkBatch<E, Draft::target_width, Draft::hidden>;
  using Sums = DSparkSums<Draft::block_size>;

  /// Memory for batches of one size.
  /// \param sequences, length, blocks  of every batch
  /// \throws Error when the config's mask token is none, and on a gamma that is not > 0
  DSparkObjective(index_t sequences, index_t length, index_t blocks, const DSparkOptions& options,
                  const D& device = D{})
      : Base({sequences, length, blocks, Draft::block_size},
             {Slot::anchor_plus_k_plus_1, check_mask_token<typename Draft::config>(), options.gamma}, device),
        options_(options),
        buffers_(take_heads(this->arena_, this->span_)),
        outputs_(take_outputs(this->out_, this->span_)) {}

  // ---- Each throws Error on a batch or a gradient of other shapes, and on an id out of range

  /// Losses and diagnostics only.
  Sums evaluate_only(const D& device, const Weights& w, const Batch& batch) {
    return this->run(Call{device, w, nullptr, batch}, std::nullopt, {});
  }

  /// Losses, diagnostics, and gradients added to d_w, those of Σ weight · loss / (totals.weight + 1e-6).
  /// \param totals           counts summed over all batches of the step; none: this batch's
  /// \param d_target_hidden  of batch.target_hidden [R, target_width]
  Sums forward_backward(const D& device, const Weights& w, const GradientWeights& d_w, const Batch& batch,
                        const std::optional<Totals>& totals = std::nullopt,
                        const Destination<S>& d_target_hidden = {}) {
    return this->run(Call{device, w, &d_w, batch}, totals, d_target_hidden);
  }
  /// The same where each rank has one batch of the step: their totals are summed here. The gradients in d_w are this
  /// rank's part: summed over all ranks they are the step's.
  template <Communicator C>
  Sums forward_backward(const D& device, const Weights& w, const GradientWeights& d_w, const Batch& batch, C& comm,
                        const Destination<S>& d_target_hidden = {}) {
    Totals totals = this->count(batch);
    sum(comm, totals);
    return forward_backward(device, w, d_w, batch, totals, d_target_hidden);
  }

  /// After any call, [sequences · blocks · block_size, ·]: the Markov head's latents and the confidence logits.
  const Rows<E, Draft::Markov::rank>& latents() const requires(Draft::has_markov) {
    return buffers_.heads.markov.latent;
  }
  const Rows<S, 1>& confidence() const requires(Draft::has_confidence) { return buffers_.heads.logits; }

 private:
  using typename Base::Chunk, typename Base::Number;
  using Markov = typename Draft::Markov;
  using Heads = DSparkHeads<Draft, E>;
  using Own = DSparkChunk<Draft, E>;
  using Outputs = DSparkOutputs<Number, D>;
  static constexpr bool trains_embeddings = Draft::config::train_embeddings;

  /// What a call is given.
  struct Call {
    const D& device;
    const Weights& w;
    const GradientWeights* d_w;
    const Batch& batch;
  };
  struct Buffers {
    Heads heads;
    Rows<S, Draft::hidden> d_noise;  // where embeddings are trained
  };

  // ---- What the base asks for

  static void check_batch(const BlockSpan& span, const Batch& batch) {
    const index_t found = batch.target_last_hidden.extent(0);
    if (found == span.context_rows()) return;
    throw Error("batch: target_last_hidden", std::to_string(found), std::to_string(span.context_rows()) + " rows");
  }
  static auto embedding(const Call& call) { return call.w.embed_tokens.matrix(); }
  template <class M>
  static constexpr Outputs take_outputs(M& m, const BlockSpan& span) {
    return Outputs::allocate(m, span.noise_rows());
  }
  template <Allocator A>
  static constexpr Buffers take_heads(A& a, const BlockSpan& span) {
    Buffers b{Heads::allocate(a, span.noise_rows(), span.block_size), {}};
    if constexpr (trains_embeddings) take_rows(a, span.noise_rows(), b.d_noise);
    return b;
  }
  template <Allocator A>
  static constexpr Own take_chunk(A& a, index_t rows) {
    return Own::allocate(a, rows);
  }
  static constexpr std::size_t heads_scratch_bytes(const BlockSpan& span) {
    return Heads::scratch_bytes(span.noise_rows(), span.block_size);
  }

  /// The two heads over all slots. What slots without supervision keep begins at 0.
  void begin_heads(const Call& call) {
    buffers_.heads.forward(call.device, call.w, this->lists_.previous_ids.device, this->acts_.out);
    zero(call.device, outputs_.distance.device);
    zero(call.device, outputs_.confidence.device);
  }

  /// Losses of some supervised slots over the vocabulary and, where gradients are wanted, those of their states and
  /// latents.
  void walk(const Call& call, index_t first, index_t n) {
    const Chunk c = this->chunk(first, n);
    const Own own = take_chunk(this->arena_, this->chunk_rows_of(this->span_)).rows(n);
    target_probabilities(call, c, own);
    gather_rows(call.device, c.slots, this->acts_.out, c.x);
    Draft::Head::forward(call.device, call.w.lm_head, c.x, c.logits);
    if constexpr (Draft::has_markov) {
      gather_rows(call.device, c.slots, buffers_.heads.markov.latent, own.latent);
      Markov::add_logits(call.device, call.w.markov_head, own.latent, c.logits);
    }
    this->compute_cross_entropy(call.device, c);
    evaluate_rows(call.device, distance_formula(), own.distance, c.logits, own.p, c.largest);
    scatter_rows(call.device, c.slots, this->column(own.distance), this->column(outputs_.distance.device));
    if (call.d_w != nullptr) send_back(call, c, own);
  }

  /// The target's distribution at the same slots -> p; x is overwritten.
  void target_probabilities(const Call& call, const Chunk& c, const Own& own) const {
    gather_rows(call.device, c.teacher_rows, call.batch.target_last_hidden, c.x);
    Draft::Head::forward(call.device, call.w.lm_head, c.x, own.p);
    evaluate(call.device, softmax_formula(), own.p, own.p);
  }

  /// From logits to d_out and the latents' gradients.
  void send_back(const Call& call, const Chunk& c, const Own& own) {
    this->take_d_losses(call.device, c);
    differentiate_rows(call.device, dspark_row_formula(options_.ce_alpha, options_.l1_alpha), c.d_losses,
                       gradients(overwrite(c.d_logits), no_gradient, no_gradient), this->arena_, c.logits, own.p,
                       c.largest);
    subtract_label_backward(call.device, c.labels, options_.ce_alpha, Vector<const S>(c.d_losses), c.d_logits);
    if constexpr (trains_embeddings) Draft::Head::backward_weight(call.device, call.d_w->lm_head, c.x, c.d_logits);
    Draft::Head::backward_input(call.device, call.w.lm_head, c.d_logits, c.d_x);
    scatter_rows(call.device, c.slots, c.d_x, this->d_out_);
    if constexpr (Draft::has_markov) {
      Markov::template add_logits_backward<E>(call.device, call.w.markov_head, call.d_w->markov_head, own.latent,
                                              c.d_logits, own.d_latent);
      scatter_rows(call.device, c.slots, own.d_latent, buffers_.heads.d_latent);
    }
  }

  /// Acceptance, and the confidence head's loss.
  void finish_heads(const Call& call) {
    evaluate(call.device, acceptance_formula(), outputs_.acceptance.device, outputs_.distance.device);
    if constexpr (Draft::has_confidence) {
      evaluate(call.device, expr::arg<0>, this->column(outputs_.logits.device), buffers_.heads.logits);
      evaluate(call.device, confidence_formula(), this->column(outputs_.confidence.device), buffers_.heads.logits,
               this->column(outputs_.acceptance.device));
    }
  }

  Destination<S> heads_backward(const Call& call) {
    if constexpr (Draft::has_confidence) {
      differentiate(call.device, options_.confidence_alpha * confidence_formula(),
                    this->column(this->lists_.d_losses.device),
                    gradients(overwrite(buffers_.heads.d_logits), no_gradient), this->arena_, buffers_.heads.logits,
                    this->column(outputs_.acceptance.device));
    }
    buffers_.heads.backward(Workspace(call.device, this->arena_), call.w, *call.d_w, this->lists_.previous_ids.device,
                            this->acts_.out, this->d_out_);
    if constexpr (trains_embeddings) return {buffers_.d_noise.matrix(), Into::overwrite};
    return {};
  }
  void embedding_backward(const Call& call) {
    if constexpr (trains_embeddings) {
      k3spec::embedding_backward<S>(call.device, this->lists_.noise_ids.device, Draft::config::pad_token_id,
                                    buffers_.d_noise, call.d_w->embed_tokens);
    }
  }

  /// Adds up blocks in ascending order, each up to its first slot without supervision.
  Sums add_up() const {
    Sums sums{};
    std::array<DSparkSlot, static_cast<std::size_t>(Draft::block_size)> slots;
    index_t i = 0;
    for (index_t block = 0; block < this->span_.sequences * this->span_.blocks; ++block) {
      std::size_t n = 0;
      for (; n < slots.size(); ++n) {
        const index_t r = block * Draft::block_size + static_cast<index_t>(n);
        if (this->targets_.supervised(r) == 0) break;
        slots[n] = slot(r, i++);
      }
      sums.add_block(std::span(slots).first(n));
    }
    return sums;
  }

  /// Slot r, the i-th of those with supervision.
  DSparkSlot slot(index_t r, index_t i) const {
    const auto ce = static_cast<double>(this->cross_entropy_.host(i));
    const auto l1 = static_cast<double>(outputs_.distance.host(r)),
               bce = static_cast<double>(outputs_.confidence.host(r));
    const double loss = options_.ce_alpha * ce + options_.l1_alpha * l1 + options_.confidence_alpha * bce;
    DSparkSlot s{this->targets_.weights(r), loss, ce, l1, bce, static_cast<double>(outputs_.acceptance.host(r)), {}};
    if constexpr (Draft::has_confidence) s.predicted = sigmoid(static_cast<double>(outputs_.logits.host(r)));
    return s;
  }

  DSparkOptions options_;
  Buffers buffers_;
  Outputs outputs_;
};

}  // namespace K3SPEC_NAMESPACE
