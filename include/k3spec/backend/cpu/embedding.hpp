#pragma once
/// \file
/// Rows of a table by their ids, back into them, and sums into them, on the CPU (ops/embedding.hpp,
/// ops/gather_rows.hpp, ops/route.hpp).
/// defines: require_token_ids, gather_rows_kernel, scatter_rows_kernel, scatter_add_rows_kernel

#include <algorithm>
#include <optional>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// Refuses ids of no row.
/// \throws Error for an id outside the table
inline void require_token_ids(const Cpu&, const Vector<const index_t>& ids, index_t vocabulary) {
  require_tokens(ids, vocabulary);
}

/// y[r] = table[ids[r]]
template <class T, AnyView Y>
void gather_rows_kernel(const Cpu& device, const Vector<const index_t>& ids, const Matrix<const T>& table, const Y& y) {
  const index_t n = table.extent(1);
  cpu::for_pieces(device, ids.extent(0), n, false, [&](index_t begin, index_t end, index_t, index_t) {
    for (index_t r = begin; r < end; ++r) std::copy_n(table.row(ids(r)), n, y.row(r));
  });
}

/// y[ids[r]] = x[r]; the ids differ from one another.
template <class T, AnyView Y>
void scatter_rows_kernel(const Cpu& device, const Vector<const index_t>& ids, const Matrix<const T>& x, const Y& y) {
  const index_t n = x.extent(1);
  cpu::for_pieces(device, ids.extent(0), n, false, [&](index_t begin, index_t end, index_t, index_t) {
    for (index_t r = begin; r < end; ++r) std::copy_n(x.row(r), n, y.row(ids(r)));
  });
}

/// d_table[ids[r]] += d_y[r], rows in ascending order, those of `left_out` aside.
template <class S, AnyView DY>
void scatter_add_rows_kernel(const Cpu& device, const Vector<const index_t>& ids, std::optional<index_t> left_out,
                             const DY& d_y, const Matrix<S>& d_table) {
  constexpr index_t block = 256;
  const index_t n = d_table.extent(1);
  parallel_for(device, ceil_div(n, block), [&](index_t i) {
    const index_t begin = i * block, end = std::min(n, begin + block);
    for (index_t r = 0; r < ids.extent(0); ++r) {
      if (ids(r) == left_out) continue;
      const auto* from = d_y.row(r);
      S* to = d_table.row(ids(r));
      for (index_t j = begin; j < end; ++j) to[j] += static_cast<S>(from[j]);
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
