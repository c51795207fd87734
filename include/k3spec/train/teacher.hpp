#pragma once
/// \file
/// Where a draft's targets come from. A teacher gives, for any rows, the target's logits over the draft vocabulary;
/// nothing as wide as the full vocabulary is kept.
/// defines: LogitsTeacher, HiddenTeacher

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/cpu/gemm.hpp>

namespace K3SPEC_NAMESPACE {

/// Stored logits [R, V] of the target, rows aligned with the draft's (shifted left by one already).
template <class T>
struct LogitsTeacher {
  Matrix<const T> logits;
  Vector<const index_t> selected;  // [draft vocabulary] target ids, ascending

  /// out [rows, draft vocabulary]: logits of rows [first, first + rows), selected columns
  template <class S>
  void selected_logits(const Cpu& cpu, index_t first, const Matrix<S>& out) const {
    cpu::for_pieces(cpu, out.extent(0), out.extent(1), false, [&](index_t begin, index_t end, index_t, index_t) {
      for (index_t r = begin; r < end; ++r) {
        for (index_t j = 0; j < out.extent(1); ++j) out(r, j) = static_cast<S>(logits(first + r, selected(j)));
      }
    });
  }
};

/// The target's post-norm last hidden states [R, H] and the rows of its head that the draft vocabulary selects
/// [draft vocabulary, H]. Row (sequence, t) teaches from position t + 1; a sequence's last row from its own, which no
/// loss mask lets through.
template <class T>
struct HiddenTeacher {
  Matrix<const T> last_hidden, selected_head;
  index_t length;

  template <class S>
  void selected_logits(const Cpu& cpu, index_t first, const Matrix<S>& out) const {
    // Runs of rows within one sequence are one product each; the last row of a sequence is its own.
    for (index_t r = first; r < first + out.extent(0);) {
      const index_t to_end = length - 1 - r % length, left = first + out.extent(0) - r;
      const index_t n = to_end == 0 ? 1 : std::min(to_end, left);
      gemm(cpu, last_hidden.rows(to_end == 0 ? r : r + 1, n), Op::plain, selected_head, Op::transposed,
           out.rows(r - first, n));
      r += n;
    }
  }
};

}  // namespace K3SPEC_NAMESPACE
