#pragma once
/// \file
/// y[r] = x[r] W_gᵀ for the rows r of group g, [begin[g], begin[g + 1]), each with the bits of a product of its own.
/// x [rows, K], W_g [N, K], y [rows, N], begin [groups + 1].
/// defines: grouped_gemm

#include <k3spec/backend/cpu/gemm_grouped.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// x -> y, see above.
/// \param weights  W_g of every group, made ready for the device
/// \throws Error on shapes that do not fit the weights', and, where `begin` is the host's memory, on groups that do not
///         follow one another within x
template <Device D, AnyView X, class W, AnyView Y>
void grouped_gemm(const D& device, const Vector<const index_beside_t<X>>& begin, const X& x, const W& weights, const Y& y) {
  const index_t rows = x.extent(0);
  require_count("grouped_gemm: begin", begin.extent(0), weights.groups() + 1);
  require_shape("grouped_gemm: x", x, rows, weights.inputs());
  require_shape("grouped_gemm: y", y, rows, weights.outputs());
  require_groups(device, begin, rows);
  using T = std::remove_cvref_t<decltype(*weights.data())>;
  using Problem = GroupedProduct<typename X::value_type, T, typename Y::element_type>;
  grouped_gemm_kernel(
      device, Problem{x.matrix(), bare(begin.data()), weights.groups(), weights.data(), weights.stride(), y.matrix()});
}

}  // namespace K3SPEC_NAMESPACE
