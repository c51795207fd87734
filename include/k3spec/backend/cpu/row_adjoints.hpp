#pragma once
/// \file
/// The adjoints of rows on the CPU (ops/row_adjoints.hpp). One number a row: no thread is woken for them.
/// defines: row_adjoints_kernel

#include <cstdint>

#include <k3spec/backend/row_adjoint.hpp>
#include <k3spec/core/device.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// d_rows[r] = rule(alphas[r]) where row r counts, else 0
template <class S>
void row_adjoints_kernel(const Cpu&, const RowAdjoint& rule, const Vector<const std::uint8_t>& counts,
                         const Vector<const S>& alphas, const Vector<S>& d_rows) {
  for (index_t r = 0; r < d_rows.extent(0); ++r) d_rows(r) = counts(r) != 0 ? rule(alphas(r)) : S(0);
}

}  // namespace K3SPEC_NAMESPACE
