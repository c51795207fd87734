#pragma once
/// \file
/// Products of groups of rows with weights of their own, on every device: the problem of ops/grouped_gemm.hpp.
/// defines: GroupedProduct

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

static_assert(std::is_trivially_copyable_v<GroupedProduct<bfloat16, bfloat16, float>>);

}  // namespace K3SPEC_NAMESPACE
