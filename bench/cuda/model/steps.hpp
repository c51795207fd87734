#pragma once
/// \file
/// A training step of each draft on a device that counts: forward, backward and AdamW, of one sequence.
/// defines: bench::Step, bench::count_eagle3, bench::count_dflash, bench::count_dspark

#include <algorithm>
#include <cstdint>
#include <vector>

#include <k3spec/batches/anchors.hpp>
#include <k3spec/objectives/dflash_objective.hpp>
#include <k3spec/objectives/dspark_objective.hpp>
#include <k3spec/objectives/ttt_objective.hpp>
#include <k3spec/optimiser/adamw.hpp>

#include "counted_ops.hpp"

namespace k3spec::bench {

inline constexpr index_t unrolled = 5;        ///< TTT steps
inline constexpr index_t most_anchors = 512;  ///< in a sequence, and at most every eighth position
/// Rows of logits at a time: a card has the memory, and each chunk costs its launches. A GiB of float32.
constexpr index_t card_chunk(index_t vocabulary) { return (index_t{1} << 28) / vocabulary; }

/// What was counted.
struct Step {
  Ledger ledger;
  double held;     ///< bytes at most: parameters, gradients, moments, the target's states, activations
  double planned;  ///< of these, what the objective said before that it needs
  index_t tokens;
};

/// \param forward_backward  (weights, gradients)
template <class Draft, class T, class F>
void count_step(const Counted& device, F&& forward_backward) {
  Parameters<Draft, T, Counted> parameters(device);
  Gradients<Draft, T, Counted> gradients(device);
  AdamW<Draft, T, Counted> optimizer(device, AdamWOptions{}, parameters);
  device.ledger->begin_step();
  evaluate(device, expr::as_expression(0.0), gradients.flat());
  forward_backward(parameters.weights(), gradients.weights());
  optimizer.step(device, 1e-3, parameters, gradients);
}

/// The target's states, on the device already.
template <class T>
struct States {
  CountedBuffer<T> memory;
  index_t width;
  States(const Counted& device, index_t rows, index_t columns) : memory(device, rows * columns), width(columns) {}
  Matrix<const Placed<T, Counted>> view() const {
    return Matrix<const Placed<T, Counted>>(memory.data(), memory.size() / width, width);
  }
};
template <class T>
Vector<const T> as_view(const std::vector<T>& v) {
  return Vector<const T>(v.data(), std::ssize(v));
}

template <class Config, class T>
Step count_eagle3(const Card& card, index_t length, Gradients32 gradients) {
  using Draft = Eagle3Draft<Config>;
  using E = Placed<T, Counted>;
  using Objective = TttObjective<Draft, T, card_chunk(Draft::draft_vocabulary), Counted>;
  Step step{Ledger(card), 0, 0, length};
  const Counted device{&step.ledger, gradients};
  const States<T> aux(device, length, Draft::aux_width), last(device, length, Draft::hidden),
      head(device, Draft::draft_vocabulary, Draft::hidden);
  const std::vector<index_t> ids(static_cast<std::size_t>(length), 1), top(ids.size(), 1);
  std::vector<std::uint8_t> ones(ids.size(), 1), supervised(ids.size(), 1),
      t2d(static_cast<std::size_t>(Draft::vocabulary), 0);
  supervised.back() = 0;
  std::fill_n(t2d.begin(), Draft::draft_vocabulary, std::uint8_t{1});
  const TttBatch<E, Draft::aux_width> batch{.length = length,
                                            .input_ids = as_view(ids),
                                            .attention_mask = as_view(ones),
                                            .loss_mask = as_view(supervised),
                                            .aux = aux.view().template columns<0, Draft::aux_width>(),
                                            .teacher_top = as_view(top),
                                            .t2d = as_view(t2d)};
  const HiddenTeacher<E> teacher{last.view(), head.view()};
  Objective objective(length, unrolled, {}, device);
  count_step<Draft, T>(
      device, [&](const auto& w, const auto& d_w) { objective.forward_backward(device, w, d_w, batch, teacher); });
  step.held = step.ledger.most_held(), step.planned = static_cast<double>(Objective::bytes(length, unrolled));
  return step;
}

/// What drafts of blocks read.
template <class Draft, class T>
struct Blocks {
  index_t length, blocks;
  States<T> hidden;
  std::vector<index_t> ids, anchors;
  std::vector<std::uint8_t> ones, keep;

  Blocks(const Counted& device, index_t rows, Slot slot)
      : length(rows),
        blocks(std::min(most_anchors, rows / 8)),
        hidden(device, rows, Draft::target_width),
        ids(static_cast<std::size_t>(rows), 1),
        ones(ids.size(), 1),
        keep(static_cast<std::size_t>(blocks), 1) {
    const index_t positions = anchor_positions(slot, {1, length, blocks, Draft::block_size});
    for (index_t i = 0; i < blocks; ++i) anchors.push_back(i * positions / blocks);
  }
  BlockBatch<Placed<T, Counted>, Draft::target_width> batch() const {
    return {.length = length,
            .input_ids = as_view(ids),
            .loss_mask = as_view(ones),
            .target_hidden = hidden.view().template columns<0, Draft::target_width>(),
            .anchors = as_view(anchors),
            .keep = as_view(keep)};
  }
  template <class Objective>
  std::size_t planned() const {
    return Objective::bytes({1, length, blocks, Draft::block_size});
  }
};

template <class Config, class T>
Step count_dflash(const Card& card, index_t length, Gradients32 gradients) {
  using Draft = DFlashDraft<Config>;
  using Objective = DFlashObjective<Draft, T, card_chunk(Draft::vocabulary), Counted>;
  Step step{Ledger(card), 0, 0, length};
  const Counted device{&step.ledger, gradients};
  const Blocks<Draft, T> of(device, length, Slot::anchor_plus_k);
  const States<T> embedding(device, Draft::vocabulary, Draft::hidden), head(device, Draft::vocabulary, Draft::hidden);
  Objective objective(1, length, of.blocks, 4.0, device);
  count_step<Draft, T>(device, [&](const auto& w, const auto& d_w) {
    objective.forward_backward(device, w, d_w, DFlashTarget<Placed<T, Counted>>{embedding.view(), head.view()},
                               of.batch());
  });
  step.held = step.ledger.most_held(), step.planned = static_cast<double>(of.template planned<Objective>());
  return step;
}

template <class Config, class T>
Step count_dspark(const Card& card, index_t length, Gradients32 gradients) {
  using Draft = DSparkDraft<Config>;
  using Objective = DSparkObjective<Draft, T, card_chunk(Draft::vocabulary), Counted>;
  Step step{Ledger(card), 0, 0, length};
  const Counted device{&step.ledger, gradients};
  const Blocks<Draft, T> of(device, length, Slot::anchor_plus_k_plus_1);
  const States<T> last(device, length, Draft::hidden);
  Objective objective(1, length, of.blocks, {}, device);
  const typename Objective::Batch batch{of.batch(), last.view().template columns<0, Draft::hidden>()};
  count_step<Draft, T>(device,
                       [&](const auto& w, const auto& d_w) { objective.forward_backward(device, w, d_w, batch); });
  step.held = step.ledger.most_held(), step.planned = static_cast<double>(of.template planned<Objective>());
  return step;
}

}  // namespace k3spec::bench
