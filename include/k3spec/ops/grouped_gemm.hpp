#pragma once
/// \file
/// y[r] = x[r] W_gᵀ for the rows r of group g, [begin[g], begin[g + 1]), each with the bits of a product of its own.
/// x [rows, K], W_g [N, K], y [rows, N], begin [groups + 1].
/// defines: grouped_gemm, GroupedMLPParts, grouped_mlp

#include <k3spec/backend/cpu/gemm_grouped.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
/// \throws Error on shapes that do not fit the weights', and, where `begin` is the host's memory, on groups that do not
///         follow one another within x
template <Device D, AnyView X, class W, AnyView Y>
auto grouped_product(const D& device, const Vector<const index_beside_t<X>>& begin, const X& x, const W& weights,
                     const Y& y) {
  const index_t rows = x.extent(0);
  require_count("grouped_gemm: begin", begin.extent(0), weights.groups() + 1);
  require_shape("grouped_gemm: x", x, rows, weights.inputs());
  require_shape("grouped_gemm: y", y, rows, weights.outputs());
  require_groups(device, begin, rows);
  using T = std::remove_cvref_t<decltype(*weights.data())>;
  return GroupedProduct<typename X::value_type, T, typename Y::element_type>{
      x.matrix(), bare(begin.data()), weights.groups(), weights.data(), weights.stride(), y.matrix()};
}
}  // namespace detail

/// x -> y, see above.
/// \param weights  W_g of every group, prepacked
/// \throws Error on shapes that do not fit the weights', and, where `begin` is the host's memory, on groups that do not
///         follow one another within x; on the host also on rows of a group whose weights were not set
template <Device D, AnyView X, class W, AnyView Y>
void grouped_gemm(const D& device, const Vector<const index_beside_t<X>>& begin, const X& x, const W& weights,
                  const Y& y) {
  grouped_gemm_kernel(device, detail::grouped_product(device, begin, x, weights, y));
}

/// A gated MLP of each group: its weights, and room for what is between them.
template <class T, class W>
struct GroupedMLPParts {
  const W& in;                      ///< [2 · inner, K], gate before up
  const W& out;                     ///< [N, inner]
  Matrix<accumulate_t<T>> gate_up;  ///< [rows, 2 · inner]
  Matrix<T> product;                ///< [rows, inner]
};

/// y = f(gate, up) W_outᵀ with [gate ‖ up] = x W_inᵀ, of each group; operand 0 of the formula is gate, 1 is up.
/// \throws Error as grouped_gemm does
template <Device D, class F, class T, class W>
void grouped_mlp(const D& device, const Vector<const placed_as_t<index_t, T>>& begin, const F& formula,
                 const Matrix<T>& x, const GroupedMLPParts<T, W>& parts, const Matrix<accumulate_t<T>>& y) {
  const index_t inner = parts.out.inputs();
  require_shape("grouped_mlp: gate_up", parts.gate_up, x.extent(0), 2 * inner);
  require_shape("grouped_mlp: product", parts.product, x.extent(0), inner);
  using Weight = std::remove_cvref_t<decltype(*parts.in.data())>;
  grouped_mlp_kernel(
      device, formula,
      GroupedMLP<T, Weight>{detail::grouped_product(device, begin, x, parts.in, parts.gate_up), parts.product,
                            detail::grouped_product(device, begin, parts.product, parts.out, y)});
}

}  // namespace K3SPEC_NAMESPACE
