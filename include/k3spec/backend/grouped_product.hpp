#pragma once
/// \file
/// Products of groups of rows with weights of their own, on every device: the problem of ops/grouped_gemm.hpp.
/// defines: GroupedProduct, GroupedMLP

#include <type_traits>

#include <k3spec/backend/product.hpp>
#include <k3spec/core/dtype.hpp>

namespace K3SPEC_NAMESPACE {

/// c[r] = a[r] W_gᵀ for the rows [begin[g], begin[g + 1]) of group g.
template <class A, class T, class C>
struct GroupedProduct {
  Matrix<const A> a;     ///< [rows, K]
  const index_t* begin;  ///< [groups + 1]
  index_t groups;
  const T* weights;        ///< W_g [N, K] of every group, laid out as the device wants it
  index_t weights_stride;  ///< from one group's weights to the next one's
  Matrix<C> c;             ///< [rows, N]
};

/// Gated MLPs of groups of rows, each with weights of its own: [gate ‖ up] = in, product = f(gate, up), out of product.
template <class T, class W>
struct GroupedMLP {
  using S = accumulate_t<T>;
  GroupedProduct<T, W, S> in;   ///< [rows, K] -> [rows, 2 · inner]
  Matrix<T> product;            ///< [rows, inner]
  GroupedProduct<T, W, S> out;  ///< product -> [rows, N]

  constexpr Matrix<S> gate() const { return in.c.columns(0, product.extent(1)); }
  constexpr Matrix<S> up() const { return in.c.columns(product.extent(1), product.extent(1)); }
};

static_assert(std::is_trivially_copyable_v<GroupedProduct<bfloat16, bfloat16, float>>);
static_assert(std::is_trivially_copyable_v<GroupedMLP<bfloat16, bfloat16>>);

}  // namespace K3SPEC_NAMESPACE
