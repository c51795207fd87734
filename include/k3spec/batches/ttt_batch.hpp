#pragma once
/// \file
/// What the EAGLE-3 objective reads.
/// defines: TttBatch, largest_position, check_ttt_batch, max_ttt_steps, PerStep, require_steps, predicted_steps, supervise_rows

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include <k3spec/batches/documents.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// R = sequences · length rows. Everything but aux, attention_mask, documents and position_ids is shifted left by one
/// already (SPEC: target batch): row t holds the token, mask and teacher of position t + 1.
template <class T, index_t AuxWidth>
struct TttBatch {
  index_t length;
  Vector<const index_t> input_ids;
  Vector<const std::uint8_t> attention_mask, loss_mask;  // 0 or 1; attention_mask is not looked at when packed
  Rows<const T, AuxWidth> aux;
  /// The target's argmax over its full vocabulary.
  Vector<const index_t> teacher_top;
  /// [V] 1 where the draft can say the token.
  Vector<const std::uint8_t> t2d;
  Documents documents = {};
  /// [R] rotary phase of step 0; empty: places in the document, else in the row. Without RoPE nothing reads them.
  Vector<const index_t> position_ids = {};
};

/// Up to here positions are exact in the float32 that rotary angles are made of.
inline constexpr index_t largest_position = index_t{1} << 24;

namespace detail {

/// \param t  place of row r in its sequence, > 0
/// \throws Error unless row r goes on with the document of the row before it, or begins one where that has ended
inline void check_document_row(const Documents& documents, index_t r, index_t t) {
  const index_t start = documents.start(r), left = documents.remaining(r);
  const index_t start_before = documents.start(r - 1), left_before = documents.remaining(r - 1);
  if (left_before == 0 ? start == t : start == start_before && left == left_before - 1) return;
  const auto say = [](index_t a, index_t b) {
    return "start " + std::to_string(a) + ", " + std::to_string(b) + " left";
  };
  throw Error("batch: documents at row " + std::to_string(r), say(start, left),
              left_before == 0 ? "start " + std::to_string(t) : say(start_before, left_before - 1));
}

/// \throws Error naming what does not have `rows` rows
template <class Batch>
void check_ttt_extents(const Batch& batch, index_t rows, index_t vocabulary) {
  const auto want = [](const char* what, index_t n, index_t wanted, const char* unit) {
    if (n != wanted) throw Error(std::string("batch: ") + what, std::to_string(n), std::to_string(wanted) + unit);
  };
  if (batch.length <= 0 || rows % batch.length != 0) {
    throw Error("batch: length", std::to_string(batch.length), "a divisor of " + std::to_string(rows));
  }
  const bool packed = batch.documents.packed() || batch.documents.start.extent(0) > 0;
  want("input_ids", batch.input_ids.extent(0), rows, " rows");
  want("attention_mask", batch.attention_mask.extent(0), rows, " rows");
  want("loss_mask", batch.loss_mask.extent(0), rows, " rows"), want("aux", batch.aux.extent(0), rows, " rows");
  want("teacher_top", batch.teacher_top.extent(0), rows, " rows");
  want("t2d", batch.t2d.extent(0), vocabulary, " tokens");
  want("document starts", batch.documents.start.extent(0), packed ? rows : 0, " rows");
  want("doc_remaining", batch.documents.remaining.extent(0), packed ? rows : 0, " rows");
  if (batch.position_ids.extent(0) != 0) want("position_ids", batch.position_ids.extent(0), rows, " rows");
}

}  // namespace detail

/// Refuses a batch that does not fit its rows.
/// \throws Error naming what does not have `rows` rows, is out of range, or is no row of documents
template <class Batch>
void check_ttt_batch(const Batch& batch, index_t rows, index_t vocabulary) {
  detail::check_ttt_extents(batch, rows, vocabulary);
  const auto in_range = [](const char* what, index_t row, index_t n, index_t first, index_t last) {
    if (n >= first && n <= last) return;
    throw Error(std::string("batch: ") + what + " at row " + std::to_string(row), std::to_string(n),
                std::to_string(first) + " to " + std::to_string(last));
  };
  for (index_t r = 0; r < rows; ++r) {
    const index_t t = r % batch.length;
    in_range("teacher_top", r, batch.teacher_top(r), 0, vocabulary - 1);
    if (batch.position_ids.extent(0) != 0) {
      in_range("position_ids", r, batch.position_ids(r), -largest_position, largest_position);
    }
    if (!batch.documents.packed()) continue;
    in_range("document start", r, batch.documents.start(r), 0, t);
    in_range("doc_remaining", r, batch.documents.remaining(r), 0, batch.length - 1 - t);
    if (t > 0) detail::check_document_row(batch.documents, r, t);
  }
}

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
PerStep<index_t> supervise_rows(const Batch& batch, index_t steps, Vector<std::uint8_t> supervised) {
  PerStep<index_t> counts{};
  const index_t rows = supervised.extent(0);
  require_rows("supervise_rows: loss_mask", batch.loss_mask, rows);
  require_rows("supervise_rows: teacher_top", batch.teacher_top, rows);
  require_ids("supervise_rows: teacher_top", batch.teacher_top, batch.t2d.extent(0));
  if (batch.documents.packed()) require_rows("supervise_rows: doc_remaining", batch.documents.remaining, rows);
  if (batch.length < 1 || rows % batch.length != 0) {
    throw Error("supervise_rows: length", std::to_string(batch.length), "a divisor of " + std::to_string(rows));
  }
  require_steps("supervise_rows: steps", steps);
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

}  // namespace K3SPEC_NAMESPACE
