#pragma once
/// \file
/// What host and device tell each other of the rows of an EAGLE-3 batch: before a step which tokens there are, what
/// they see and which predictions count, after it what each prediction came to.
/// defines: TttInputs, TttOutputs, TttRows

#include <algorithm>
#include <cstdint>

#include <k3spec/backend/rope_problem.hpp>
#include <k3spec/backend/visibility.hpp>
#include <k3spec/batches/ttt_batch.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/objectives/ttt_chains.hpp>

namespace K3SPEC_NAMESPACE {

/// [R] each, of a batch.
template <Device D>
struct TttInputs {
  Mirrored<D, index_t> ids, position_ids, document_starts;
  Mirrored<D, std::uint8_t> attention_mask;
  PerStep<Mirrored<D, std::uint8_t>> counts;  ///< per step: a prediction, and supervised

  template <class M>
  static constexpr TttInputs allocate(M& m, index_t rows, index_t steps) {
    TttInputs in{};
    in.ids = m.template take<index_t>(rows), in.position_ids = m.template take<index_t>(rows);
    in.document_starts = m.template take<index_t>(rows), in.attention_mask = m.template take<std::uint8_t>(rows);
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k)
      in.counts[k] = m.template take<std::uint8_t>(rows);
    return in;
  }
};

/// [R] each; of predictions that do not count, anything. \tparam S  of losses
template <class S, Device D>
struct TttOutputs {
  PerStep<Mirrored<D, S>> losses, alphas;
  PerStep<Mirrored<D, index_t>> drafted;  ///< the draft's choices
  Mirrored<D, index_t> teacher_top;       ///< the teacher's

  template <class M>
  static constexpr TttOutputs allocate(M& m, index_t rows, index_t steps) {
    TttOutputs out{};
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k) {
      out.losses[k] = m.template take<S>(rows), out.alphas[k] = m.template take<S>(rows);
      out.drafted[k] = m.template take<index_t>(rows);
    }
    out.teacher_top = m.template take<index_t>(rows);
    return out;
  }
};

/// The rows of one batch at a time.
template <class S, Device D>
class TttRows {
 public:
  TttRows(index_t rows, index_t steps, const D& device)
      : rows_(rows),
        steps_(steps),
        in_(device, plan<TttInputs<D>>(rows, steps)),
        out_(device, plan<TttOutputs<S, D>>(rows, steps)),
        own_((1 + steps) * rows),
        inputs_(TttInputs<D>::allocate(in_, rows, steps)),
        outputs_(TttOutputs<S, D>::allocate(out_, rows, steps)) {}

  /// Bytes of one side, and of what the host keeps to itself.
  static constexpr std::size_t bytes(index_t rows, index_t steps) {
    return plan<TttInputs<D>>(rows, steps) + plan<TttOutputs<S, D>>(rows, steps) +
           aligned(static_cast<std::size_t>((1 + steps) * rows));
  }

  const TttInputs<D>& inputs() const { return inputs_; }
  const TttOutputs<S, D>& outputs() const { return outputs_; }
  index_t rows() const { return rows_; }
  index_t steps() const { return steps_; }

  /// Takes over what a batch says of its rows.
  /// \param rotary  whether positions are looked at
  /// \returns how many predictions are supervised, per step
  template <class Batch>
  PerStep<index_t> fill(const Batch& batch, bool rotary) {
    length_ = batch.length, packed_ = batch.documents.packed();
    const auto copy = [](const auto& from, const auto& to) {
      std::copy_n(from.data(), from.extent(0), to.host.data());
    };
    copy(batch.input_ids, inputs_.ids), copy(batch.attention_mask, inputs_.attention_mask);
    copy(batch.documents.start, inputs_.document_starts), copy(batch.position_ids, inputs_.position_ids);
    positions_given_ = batch.position_ids.extent(0) > 0 || (rotary && packed_);
    if (batch.position_ids.extent(0) == 0 && positions_given_) {
      for (index_t r = 0; r < rows_; ++r) inputs_.position_ids.host(r) = r % length_ - batch.documents.start(r);
    }
    const auto counts = mark_supervised(batch, steps_, supervised());
    for (index_t k = 0; k < steps_; ++k) {
      const auto& to = inputs_.counts[static_cast<std::size_t>(k)].host;
      // Else no prediction, or one of another document.
      for (index_t r = 0; r < rows_; ++r) to(r) = k < predicted_steps(batch, r) ? supervised()(r + k) : 0;
    }
    return counts;
  }
  /// To the device; what is asked of it from now on finds it.
  void upload(const D& device) { in_.upload(device); }
  /// From the device; done on return, as is all that was asked of it before.
  void download(const D& device) { out_.download(device); }

  CausalVisibility visibility() const {
    if (packed_) return {nullptr, length_, bare(inputs_.document_starts.device.data())};
    return {bare(inputs_.attention_mask.device.data()), length_};
  }
  RotaryPositions positions() const {
    return {positions_given_ ? bare(inputs_.position_ids.device.data()) : nullptr, length_};
  }

  /// Σ over the predictions of a step that count, rows in ascending order.
  double alpha_sum(index_t k) const {
    const auto& alphas = outputs_.alphas[static_cast<std::size_t>(k)].host;
    return sum(k, [&](index_t r) { return alphas(r); });
  }
  double loss_sum(index_t k, const TttLoss& loss) const {
    const auto n = static_cast<std::size_t>(k);
    if (loss.lk != LkLoss::alpha) return sum(k, [&](index_t r) { return outputs_.losses[n].host(r); });
    return sum(k, [&](index_t r) { return TttLoss::of_acceptance(outputs_.alphas[n].host(r)); });
  }

  /// Adds up losses and counters, rows and steps in ascending order.
  template <class Batch>
  void add_up(const Batch& batch, const TttLoss& loss, TttMetrics& sums) {
    PerStep<Vector<std::uint8_t>> right{};
    for (index_t k = 0; k < steps_; ++k) {
      const auto& marked = right[static_cast<std::size_t>(k)] = mark_right(k);
      for (index_t r = 0; r < rows_; ++r) sums[k].correct += marked(r);
      sums[k].loss = loss_sum(k, loss);
    }
    for (index_t r = 0; r < rows_; ++r) count_chains(batch, steps_, r, right, sums);
  }

 private:
  template <class Lists>
  static constexpr std::size_t plan(index_t rows, index_t steps) {
    MirrorPlan<D> m;
    Lists::allocate(m, rows, steps);
    return m.bytes();
  }
  bool counts(index_t k, index_t r) const { return inputs_.counts[static_cast<std::size_t>(k)].host(r) != 0; }
  Vector<std::uint8_t> supervised() { return Vector<std::uint8_t>(own_.data(), rows_); }

  template <class F>
  double sum(index_t k, F&& value) const {
    double all = 0;
    for (index_t r = 0; r < rows_; ++r) all += counts(k, r) ? static_cast<double>(value(r)) : 0.0;
    return all;
  }
  /// [R] whether step k's prediction counts and is the teacher's choice.
  Vector<std::uint8_t> mark_right(index_t k) {
    const Vector<std::uint8_t> right(own_.data() + (1 + k) * rows_, rows_);
    const auto& drafted = outputs_.drafted[static_cast<std::size_t>(k)].host;
    for (index_t r = 0; r < rows_; ++r)
      right(r) = counts(k, r) && drafted(r) == outputs_.teacher_top.host(r + k) ? 1 : 0;
    return right;
  }

  index_t rows_, steps_, length_ = 1;
  bool packed_ = false, positions_given_ = false;
  Mirror<D> in_, out_;
  Buffer<std::uint8_t> own_;  // supervised rows, then each step's right ones
  TttInputs<D> inputs_;
  TttOutputs<S, D> outputs_;
};

}  // namespace K3SPEC_NAMESPACE
