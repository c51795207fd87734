#pragma once
/// \file
/// A whole model's weights made ready for decoding.
/// defines: prepack_weights

#include <type_traits>
#include <vector>

#include <k3spec/backend/cpu/gemm_prepacked.hpp>
#include <k3spec/core/parameters.hpp>

namespace K3SPEC_NAMESPACE {

/// Copies the matrices of linear layers into the order in which products with few rows read them. Vectors and tables
/// are viewed: `weights` must outlive the result.
template <class Layer, Element T>
typename Layer::template Weights<Prepacked<T>> prepack_weights(
    const typename Layer::template Weights<const T>& weights) {
  std::vector<Matrix<const T>> tensors;
  auto from = weights;
  Layer::visit(from, Path{}, [&](const Path&, auto& view, auto) { tensors.push_back(as_matrix(view)); });
  typename Layer::template Weights<Prepacked<T>> prepacked{};
  auto next = tensors.begin();
  Layer::visit(prepacked, Path{}, [&](const Path&, auto& to, auto) {
    using To = std::remove_cvref_t<decltype(to)>;
    if constexpr (AnyView<To>) {
      to = To(next->data());
    } else {
      to = To(*next);
    }
    ++next;
  });
  return prepacked;
}

}  // namespace K3SPEC_NAMESPACE
