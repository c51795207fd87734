#pragma once
/// \file
/// Where a draft's targets come from. A teacher gives, for any rows, the target's logits over the draft vocabulary;
/// nothing as wide as the full vocabulary is kept.
///
/// Every teacher's rows are the draft's, as everything of TttBatch that is shifted: row t is what the target says at
/// position t + 1. What the target itself gives out stands one row further on: shift_states_left brings it there.
/// defines: LogitsTeacher, HiddenTeacher, shift_states_left

#include <string>

#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/backend/cpu/shift_states.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/ops/gather_columns.hpp>

namespace K3SPEC_NAMESPACE {

/// x [R, n], R = sequences · length rows: each sequence's rows move left by one, its last row stays as it is, which no
/// loss mask lets through.
/// \throws Error when the rows are no whole sequences
template <Device D, AnyView X>
void shift_states_left(const D& device, const X& x, index_t length) {
  if (length <= 0 || x.extent(0) % length != 0) {
    throw Error("shift_states_left: length", std::to_string(length), "a divisor of " + std::to_string(x.extent(0)));
  }
  shift_states_kernel(device, x, length);
}

/// Stored logits [R, V] of the target, where T is.
template <class T>
struct LogitsTeacher {
  using Index = placed_as_t<index_t, T>;
  Matrix<const T> logits;
  Vector<const Index> selected;  // [draft vocabulary] target ids, ascending

  /// Refuses to teach other rows or tokens than it has.
  /// \throws Error unless it has so many rows, and selects so many columns, each one that the logits have
  void check(index_t rows, index_t draft_vocabulary) const {
    require_rows("teacher: logits", logits, rows);
    require_count("teacher: selected", selected.extent(0), draft_vocabulary);
    if constexpr (!is_placed<Index>) require_ids("teacher: selected", selected, logits.extent(1));
  }

  /// out [rows, draft vocabulary]: logits of rows [first, first + rows), selected columns
  /// \throws Error on rows that there are not, and on another number of columns than are selected
  template <Device D, class S>
  void selected_logits(const D& device, index_t first, const Matrix<S>& out) const {
    require_part("teacher: rows", first, out.extent(0), logits.extent(0));
    require_count("teacher: out: columns", out.extent(1), selected.extent(0));
    if constexpr (!is_placed<Index>) require_ids("teacher: selected", selected, logits.extent(1));
    gather_columns(device, selected, logits.rows(first, out.extent(0)), out);
  }
};

/// The target's post-norm last hidden states [R, H] and the rows of its head that the draft vocabulary selects
/// [draft vocabulary, H].
template <class T>
struct HiddenTeacher {
  Matrix<const T> last_hidden, selected_head;

  /// Refuses to teach other rows or tokens than it has.
  /// \throws Error unless it has so many rows, and a head of so many tokens that reads them
  void check(index_t rows, index_t draft_vocabulary) const {
    require_rows("teacher: last_hidden", last_hidden, rows);
    require_shape("teacher: selected_head", selected_head, draft_vocabulary, last_hidden.extent(1));
  }

  /// out [rows, draft vocabulary]: logits of rows [first, first + rows)
  /// \throws Error on rows that there are not, and on another number of columns than the head has tokens
  template <Device D, class S>
  void selected_logits(const D& device, index_t first, const Matrix<S>& out) const {
    require_part("teacher: rows", first, out.extent(0), last_hidden.extent(0));
    require_count("teacher: out: columns", out.extent(1), selected_head.extent(0));
    require_count("teacher: selected_head: columns", selected_head.extent(1), last_hidden.extent(1));
    gemm<Op::plain, Op::transposed>(device, last_hidden.rows(first, out.extent(0)), selected_head, out);
  }
};

}  // namespace K3SPEC_NAMESPACE
