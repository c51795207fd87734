#pragma once
/// \file
/// to[moves[i].to] = from[moves[i].from], as they are or with their columns spread over more of them:
/// to[moves[i].to, columns[j]] = from[moves[i].from, j]. The moves are on both sides (core/mirror.hpp) and have been
/// uploaded. A backend brings move_rows_kernel with its tag.
/// defines: move_rows, spread_rows

#include <type_traits>

#include <k3spec/backend/cpu/move_rows.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
/// \throws Error on moves of rows that are not there
template <AnyView X, AnyView Y>
void require_moves(const Vector<const RowMove>& moves, const X& from, const Y& to) {
  for (index_t i = 0; i < moves.extent(0); ++i) {
    require_index("move_rows: from: row", moves(i).from, from.extent(0));
    require_index("move_rows: to: row", moves(i).to, to.extent(0));
  }
}
}  // namespace detail

/// Copies rows. They go to places that differ from one another, and from and to do not overlap.
/// \param count  the first so many moves
/// \throws Error on a `to` of another width, and on moves of rows that are not there, or more than there are
template <Device D, AnyView X, AnyView Y>
void move_rows(const D& device, const Mirrored<D, RowMove>& moves, index_t count, const X& from, const Y& to) {
  require_part("move_rows: moves", 0, count, moves.host.extent(0));
  require_shape("move_rows: to", to, to.extent(0), from.row_size());
  detail::require_moves(moves.host.rows(0, count), from, to);
  using T = std::remove_const_t<typename X::element_type>;
  move_rows_kernel(device, RowMoves<T>{moves.device.rows(0, count), {}, Matrix<const T>(from.matrix()), to.matrix()});
}

/// The same with columns spread.
/// \param columns  [columns of from], which differ from one another and which `to` has
/// \throws Error as move_rows does, and on columns of another number
template <Device D, AnyView X, AnyView Y>
void spread_rows(const D& device, const Mirrored<D, RowMove>& moves, index_t count,
                 const Vector<const element_t<D, index_t>>& columns, const X& from, const Y& to) {
  require_part("spread_rows: moves", 0, count, moves.host.extent(0));
  require_count("spread_rows: columns", columns.extent(0), from.row_size());
  detail::require_moves(moves.host.rows(0, count), from, to);
  using T = std::remove_const_t<typename X::element_type>;
  move_rows_kernel(device,
                   RowMoves<T>{moves.device.rows(0, count), columns, Matrix<const T>(from.matrix()), to.matrix()});
}

}  // namespace K3SPEC_NAMESPACE
