#pragma once
/// \file
/// y[r] = table[ids[r]]. ids [rows], table [vocabulary, n], y [rows, n].
/// Backward: d_table[ids[r]] += d_y[r], rows in ascending order; the padding id's row gets none.
/// Saved: nothing but ids.
/// defines: embedding_forward, embedding_backward

#include <optional>

#include <k3spec/backend/cpu/embedding.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// ids [rows], table [vocabulary, n] -> y [rows, n].
/// \throws Error on a y of another shape, and for an id outside the table: at once where ids are the host's memory,
///         else when the device is waited for
template <class T, Device D, AnyView Y>
void embedding_forward(const D& device, Vector<const placed_as_t<index_t, T>> ids, Matrix<const T> table, const Y& y) {
  require_shape("embedding: y", y, ids.extent(0), table.extent(1));
  require_token_ids(device, ids, table.extent(0));
  gather_rows_kernel(device, ids, table, y);
}

/// ids [rows], d_y [rows, n] -> added to d_table [vocabulary, n].
/// \throws Error on a d_y of another shape, and for an id outside the table where ids are the host's memory
template <class S, Device D, AnyView DY>
void embedding_backward(const D& device, Vector<const placed_as_t<index_t, S>> ids, std::optional<index_t> pad_token_id,
                        const DY& d_y, Matrix<S> d_table) {
  require_shape("embedding: d_y", d_y, ids.extent(0), d_table.extent(1));
  require_token_ids(device, ids, d_table.extent(0));
  scatter_add_rows_kernel(device, ids, pad_token_id, d_y, d_table);
}

}  // namespace K3SPEC_NAMESPACE
