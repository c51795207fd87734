#pragma once
/// \file
/// Which rows of an EAGLE-3 batch teach, and the list of what is marked: only supervised rows go through the
/// vocabulary. (A block draft's slots are marked in batches/block_batch.hpp.)
/// defines: max_ttt_steps, PerStep, require_steps, predicted_steps, mark_supervised, list_supervised

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// The longest unroll that results have room for.
inline constexpr index_t max_ttt_steps = 16;

/// One of each TTT step.
template <class X>
using PerStep = std::array<X, static_cast<std::size_t>(max_ttt_steps)>;

/// So many TTT steps as results have room for, or fewer. \throws Error on more
inline void require_steps(const char* argument, index_t steps) {
  if (steps >= 0 && steps <= max_ttt_steps) return;
  throw Error(argument, std::to_string(steps), "0 to " + std::to_string(max_ttt_steps));
}

/// How many steps can predict something at row r: step k predicts the token that row r + k stands for, which must be
/// of the same document, else of the same row.
template <class Batch>
index_t predicted_steps(const Batch& batch, index_t r) {
  return batch.documents.packed() ? batch.documents.remaining(r) : batch.length - r % batch.length;
}

/// Marks the rows [R] that teach: the loss mask says so, and the draft can say the teacher's choice.
/// \returns how many predictions they supervise, per step
/// \throws Error on a batch of another number of rows, and on too many steps
template <class Batch>
PerStep<index_t> mark_supervised(const Batch& batch, index_t steps, Vector<std::uint8_t> supervised) {
  PerStep<index_t> counts{};
  const index_t rows = supervised.extent(0);
  require_rows("mark_supervised: loss_mask", batch.loss_mask, rows);
  require_rows("mark_supervised: teacher_top", batch.teacher_top, rows);
  require_ids("mark_supervised: teacher_top", batch.teacher_top, batch.t2d.extent(0));
  if (batch.documents.packed()) require_rows("mark_supervised: doc_remaining", batch.documents.remaining, rows);
  if (batch.length < 1 || rows % batch.length != 0) {
    throw Error("mark_supervised: length", std::to_string(batch.length), "a divisor of " + std::to_string(rows));
  }
  require_steps("mark_supervised: steps", steps);
  for (index_t r = 0; r < rows; ++r) {
    supervised(r) = batch.loss_mask(r) != 0 && batch.t2d(batch.teacher_top(r)) != 0 ? 1 : 0;
  }
  for (index_t r = 0; r < rows; ++r) {
    const index_t predicted = std::min(steps, predicted_steps(batch, r));
    for (index_t k = 0; k < std::min(predicted, rows - r); ++k) {
      counts[static_cast<std::size_t>(k)] += supervised(r + k);
    }
  }
  return counts;
}

/// rows = the indices of all that are set, ascending.
/// \returns how many there are
/// \throws Error when rows has not as many as supervised
inline index_t list_supervised(Vector<const std::uint8_t> supervised, Vector<index_t> rows) {
  require_rows("list_supervised: rows", rows, supervised.extent(0));
  index_t n = 0;
  for (index_t r = 0; r < supervised.extent(0); ++r) {
    if (supervised(r) != 0) rows(n++) = r;
  }
  return n;
}

}  // namespace K3SPEC_NAMESPACE
