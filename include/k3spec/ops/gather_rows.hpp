#pragma once
/// \file
/// Rows of a matrix by their indices, and back to where they stood.
/// defines: gather_rows, scatter_rows

#include <algorithm>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// to[i] = from[rows[i]]
/// \throws Error on a `to` of another shape, or a row that `from` has not
template <AnyView X, AnyView Y>
void gather_rows(const Cpu& cpu, Vector<const index_t> rows, const X& from, const Y& to) {
  require_ids("gather_rows: rows", rows, from.extent(0));
  require_shape("gather_rows: to", to, rows.extent(0), from.row_size());
  cpu::for_pieces(cpu, rows.extent(0), from.row_size(), false, [&](index_t begin, index_t end, index_t, index_t) {
    for (index_t i = begin; i < end; ++i) std::copy_n(from.row(rows(i)), from.row_size(), to.row(i));
  });
}

/// to[rows[i]] = from[i]; the rows differ from one another.
/// \throws Error on a `from` of another shape, or a row that `to` has not
template <AnyView X, AnyView Y>
void scatter_rows(const Cpu& cpu, Vector<const index_t> rows, const X& from, const Y& to) {
  require_ids("scatter_rows: rows", rows, to.extent(0));
  require_shape("scatter_rows: from", from, rows.extent(0), to.row_size());
  cpu::for_pieces(cpu, rows.extent(0), from.row_size(), false, [&](index_t begin, index_t end, index_t, index_t) {
    for (index_t i = begin; i < end; ++i) std::copy_n(from.row(i), from.row_size(), to.row(rows(i)));
  });
}

}  // namespace K3SPEC_NAMESPACE
