#pragma once
/// \file
/// What the DFlash and the DSpark objective share: all blocks of a batch through the draft at once, a loss of each
/// supervised slot with the token it is to predict, weighted by slot, divided by the weights' sum.
///
/// Supervised slots go through the vocabulary in chunks, forward and backward: no logits of a whole batch ever exist.
/// Between its beginning and its end a step does not wait for the device.
/// defines: BlockObjective

#include <algorithm>
#include <optional>

#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/losses/cross_entropy.hpp>
#include <k3spec/objectives/block_chunk.hpp>
#include <k3spec/objectives/block_lists.hpp>
#include <k3spec/objectives/block_totals.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/ops/embedding.hpp>
#include <k3spec/ops/gather_rows.hpp>

namespace K3SPEC_NAMESPACE {

/// The base of an objective. What it is to bring is called through own(); what a call is given is a struct with
/// `device`, `w`, `d_w` (null where no gradients are wanted) and `batch`.
/// \tparam Own        the objective itself
/// \tparam ChunkRows  rows of logits that exist at a time; no bit depends on it
/// \tparam D          where weights, gradients and states are; the batch's lists are the host's
template <class Own, class Draft, Element T, index_t ChunkRows, Device D>
class BlockObjective {
 public:
  using E = element_t<D, T>;
  using S = accumulate_t<E>;
  using Backbone = typename Draft::Backbone;
  using Weights = typename Draft::template Weights<const E>;
  using GradientWeights = typename Draft::template Weights<S>;
  using Totals = BlockTotals;
  static constexpr index_t vocabulary = Draft::vocabulary;

  /// Bytes of all activations, gradients between layers, chunks and lists of slots.
  static constexpr std::size_t bytes(const BlockSpan& span) { return device_bytes(span) + list_bytes(span); }

  /// What a batch adds to its step's totals: to be summed over all batches, and ranks, before any forward_backward.
  /// \throws Error on a batch of other shapes, and on an id out of range
  template <class Batch>
  Totals count(const Batch& batch) {
    check_block_batch(span_, vocabulary, batch);
    Own::check_batch(span_, batch);
    targets_.fill(rule_, span_, batch);
    return {targets_.total_weight()};
  }

  /// The states that the head reads, after any call: [sequences · blocks · block_size, H].
  const Rows<E, Draft::hidden>& out() const { return acts_.out; }
  const BlockTargets& targets() const { return targets_; }
  const BlockSpan& span() const { return span_; }
  /// The most bytes that were in use at a time; bytes(span()) once forward_backward has run.
  std::size_t peak_bytes() const { return arena_.peak() + list_bytes(span_); }

 protected:
  using Number = value_t<S>;
  using Activations = typename Backbone::template Activations<E>;
  using Chunk = BlockChunk<Draft, E>;

  /// Memory for batches of one size.
  /// \throws Error on a rule that is none
  BlockObjective(const BlockSpan& span, const BlockRule& rule, const D& device)
      : span_(span),
        rule_(rule),
        arena_(device, device_bytes(span)),
        host_(target_bytes(span)),
        in_(device, input_bytes(span)),
        out_(device, output_bytes(span)) {
    rule_.check();
    plan(arena_, span_, &acts_, &noise_, &d_out_);
    targets_ = BlockTargets::allocate(host_, span_.noise_rows());
    lists_ = Lists::allocate(in_, span_);
    cross_entropy_ = out_.template take<Number>(span_.noise_rows());
  }

  /// A whole step: forward, the vocabulary, backward where call.d_w is given.
  template <class Call>
  auto run(const Call& call, const std::optional<Totals>& totals, const Destination<S>& d_target_hidden) {
    d_target_hidden.check("batch: d_target_hidden", span_.context_rows(), Draft::target_width);
    const Totals all = count(call.batch).of_step(totals);
    supervised_ = lists_.fill(call.batch, targets_, all.weight);
    in_.upload(call.device);
    embedding_forward<E>(call.device, lists_.noise_ids.device, Own::embedding(call), noise_);
    Backbone::template forward<E>(call.device, Draft::backbone(call.w), inputs(call), acts_);
    zero(call.device, d_out_);  // what rows without supervision keep
    own().begin_heads(call);
    for (index_t first = 0; first < supervised_; first += ChunkRows) {
      Scope scope(arena_);
      own().walk(call, first, std::min(ChunkRows, supervised_ - first));
    }
    own().finish_heads(call);
    if (call.d_w != nullptr) backward(call, d_target_hidden);
    out_.download(call.device);
    return own().add_up();
  }

  /// Memory for the slots [first, first + n) of the supervised ones. All of a chunk's even where it is smaller: the
  /// plan does not depend on the batch.
  Chunk chunk(index_t first, index_t n) {
    Chunk c = Chunk::allocate(arena_, chunk_rows_of(span_)).rows(n);
    c.slots = lists_.slots.device.rows(first, n), c.labels = lists_.labels.device.rows(first, n);
    c.teacher_rows = lists_.teacher_rows.device.rows(first, n);
    c.cross_entropy = cross_entropy_.device.rows(first, n);
    return c;
  }
  /// logits -> largest, cross_entropy
  void compute_cross_entropy(const D& device, const Chunk& c) const {
    evaluate_rows(device, row_max_formula(), c.largest, c.logits);
    evaluate_rows(device, log_mass_formula(), c.cross_entropy, c.logits, c.largest);
    subtract_label(device, c.logits, Vector<const S>(c.largest), c.labels, c.cross_entropy);
  }
  /// The slots' weights in the step's loss -> d_losses
  void take_d_losses(const D& device, const Chunk& c) const {
    gather_rows(device, c.slots, column(lists_.d_losses.device), column(c.d_losses));
  }

  BlockVisibility visibility() const { return lists_.template visibility<typename Draft::config>(); }
  static Rows<S, 1> column(const Vector<S>& v) { return Rows<S, 1>(v.data(), v.extent(0)); }
  static constexpr index_t chunk_rows_of(const BlockSpan& span) { return std::min(span.noise_rows(), ChunkRows); }

  BlockSpan span_;
  BlockRule rule_;
  arena_t<D> arena_;
  Arena host_;
  Mirror<D> in_, out_;
  Activations acts_{};
  Rows<E, Draft::hidden> noise_;
  Rows<S, Draft::hidden> d_out_;
  BlockTargets targets_{};
  BlockLists<Number, D> lists_{};
  Mirrored<D, Number> cross_entropy_;  // of supervised slots
  index_t supervised_ = 0;

 private:
  using Lists = BlockLists<Number, D>;

  Own& own() { return static_cast<Own&>(*this); }

  template <class Call>
  typename Backbone::template Inputs<E, BlockVisibility> inputs(const Call& call) const {
    return {call.batch.target_hidden, noise_, span_, visibility()};
  }

  template <class Call>
  void backward(const Call& call, const Destination<S>& d_target_hidden) {
    const Destination<S> d_noise = own().heads_backward(call);
    Backbone::template backward<E>(Workspace(call.device, arena_), Draft::backbone(call.w), Draft::backbone(*call.d_w),
                                   inputs(call), acts_, d_out_, {d_noise, d_target_hidden});
    own().embedding_backward(call);
  }

  template <Allocator A>
  static constexpr void plan(A& a, const BlockSpan& span, Activations* acts, Rows<E, Draft::hidden>* noise,
                             Rows<S, Draft::hidden>* d_out) {
    *acts = Activations::allocate(a, span.context_rows(), span.noise_rows());
    take_rows(a, span.noise_rows(), *noise), take_rows(a, span.noise_rows(), *d_out);
  }
  static constexpr std::size_t device_bytes(const BlockSpan& span) {
    ArenaPlan a;
    Activations acts{};
    Rows<E, Draft::hidden> noise;
    Rows<S, Draft::hidden> d_out;
    plan(a, span, &acts, &noise, &d_out);
    Own::take_heads(a, span);
    a.borrow(Backbone::template scratch_bytes<E>(span.context_rows(), span.noise_rows()));
    a.borrow(Own::heads_scratch_bytes(span));
    a.borrow(plan_bytes([&](ArenaPlan& c) {
      Chunk::allocate(c, chunk_rows_of(span));
      Own::take_chunk(c, chunk_rows_of(span));
    }));
    return a.peak();
  }
  static constexpr std::size_t target_bytes(const BlockSpan& span) {
    return plan_bytes([&](ArenaPlan& a) { BlockTargets::allocate(a, span.noise_rows()); });
  }
  static constexpr std::size_t input_bytes(const BlockSpan& span) {
    MirrorPlan<D> m;
    Lists::allocate(m, span);
    return m.bytes();
  }
  static constexpr std::size_t output_bytes(const BlockSpan& span) {
    MirrorPlan<D> m;
    m.template take<Number>(span.noise_rows());
    Own::take_outputs(m, span);
    return m.bytes();
  }
  static constexpr std::size_t list_bytes(const BlockSpan& span) {
    return target_bytes(span) + input_bytes(span) + output_bytes(span);
  }
};

}  // namespace K3SPEC_NAMESPACE
