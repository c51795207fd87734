#pragma once
/// \file
/// y[r] = table[ids[r]]. ids [rows], table [vocabulary, n], y [rows, n].
/// Backward: d_table[ids[r]] += d_y[r], rows in ascending order; the padding id's row gets none.
/// Saved: nothing but ids.
/// defines: embedding_forward, embedding_backward

#include <algorithm>
#include <optional>
#include <string>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
inline void require_token_ids(Vector<const index_t> ids, index_t vocabulary) {
  for (index_t r = 0; r < ids.extent(0); ++r) {
    if (ids(r) >= 0 && ids(r) < vocabulary) continue;
    throw Error("token id at row " + std::to_string(r), std::to_string(ids(r)),
                "0 to " + std::to_string(vocabulary - 1));
  }
}
}  // namespace detail

/// ids [rows], table [vocabulary, n] -> y [rows, n].
/// \throws Error for an id outside the table, or a y of another shape
template <class T, AnyView Y>
void embedding_forward(const Cpu& cpu, Vector<const index_t> ids, Matrix<const T> table, const Y& y) {
  const index_t rows = ids.extent(0), n = table.extent(1);
  require_shape("embedding: y", y, rows, n);
  detail::require_token_ids(ids, table.extent(0));
  cpu::for_pieces(cpu, rows, n, false, [&](index_t begin, index_t end, index_t, index_t) {
    for (index_t r = begin; r < end; ++r) std::copy_n(table.row(ids(r)), n, y.row(r));
  });
}

/// ids [rows], d_y [rows, n] -> added to d_table [vocabulary, n].
/// \throws Error for an id outside the table, or a d_y of another shape
template <class S, AnyView DY>
void embedding_backward(const Cpu& cpu, Vector<const index_t> ids, std::optional<index_t> pad_token_id, const DY& d_y,
                        Matrix<S> d_table) {
  constexpr index_t block = 256;
  const index_t n = d_table.extent(1);
  require_shape("embedding: d_y", d_y, ids.extent(0), n);
  detail::require_token_ids(ids, d_table.extent(0));
  parallel_for(cpu, (n + block - 1) / block, [&](index_t i) {
    const index_t begin = i * block, end = std::min(n, begin + block);
    for (index_t r = 0; r < ids.extent(0); ++r) {
      if (ids(r) == pad_token_id) continue;
      const auto* from = d_y.row(r);
      S* to = d_table.row(ids(r));
      for (index_t j = begin; j < end; ++j) to[j] += static_cast<S>(from[j]);
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
