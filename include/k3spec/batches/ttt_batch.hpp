#pragma once
/// \file
/// What the EAGLE-3 objective reads.
/// defines: TttBatch, largest_position, check_ttt_batch

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include <k3spec/batches/documents.hpp>
#include <k3spec/batches/supervised_rows.hpp>
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

}  // namespace K3SPEC_NAMESPACE
