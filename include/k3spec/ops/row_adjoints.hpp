#pragma once
/// \file
/// What a loss that is a sum over rows sends back to the formula of each row. Between the two passes over a vocabulary
/// it is all that there is to do, and the host does not look at it.
/// defines: row_adjoints

#include <k3spec/backend/cpu/row_adjoints.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// counts [rows], 0 or 1, and alphas [rows] -> d_rows [rows]: rule(alpha) where the row counts, else 0. \tparam S  the
/// adjoints' type, where they are
/// \throws Error on other numbers of rows
template <Device D, class S>
void row_adjoints(const D& device, const RowAdjoint& rule, const Vector<const placed_as_t<std::uint8_t, S>>& counts,
                  const std::type_identity_t<Vector<const S>>& alphas, const Vector<S>& d_rows) {
  require_rows("row_adjoints: counts", counts, d_rows.extent(0));
  require_rows("row_adjoints: alphas", alphas, d_rows.extent(0));
  row_adjoints_kernel(device, rule, counts, alphas, d_rows);
}

}  // namespace K3SPEC_NAMESPACE
