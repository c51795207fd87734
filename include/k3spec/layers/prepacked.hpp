#pragma once
/// \file
/// A whole model's weights prepacked for decoding.
/// defines: PrepackedModel, prepack_weights, visit_prepacked_bytes

#include <type_traits>
#include <vector>

#include <k3spec/backend/placed_weights.hpp>
#include <k3spec/core/held.hpp>
#include <k3spec/core/parameters.hpp>

namespace K3SPEC_NAMESPACE {

/// The weights of a model as a device reads them for products with few rows: matrices of linear layers in that order,
/// vectors and tables as they are. On the host those are viewed, and `weights` must outlive this; elsewhere copied.
template <class Layer, Element T, Device D = Cpu>
class PrepackedModel {
 public:
  using E = element_t<D, T>;
  using Weights = typename Layer::template Weights<Prepacked<E>>;

  /// Prepacks the weights of a layer or a whole model.
  /// \param weights  the host's
  PrepackedModel(const D& device, const typename Layer::template Weights<const T>& weights) {
    std::vector<Matrix<const T>> tensors;
    auto from = weights;
    Layer::visit(from, Path{}, [&](const Path&, auto& view, auto) { tensors.push_back(as_matrix(view)); });
    auto next = tensors.begin();
    Layer::visit(weights_, Path{}, [&](const Path&, auto& to, auto) {
      using To = std::remove_cvref_t<decltype(to)>;
      if constexpr (AnyView<To>) {
        to = To(held_.emplace_back(device, *next).view().data());
      } else {
        to = To(device, *next);
      }
      ++next;
    });
  }

  const Weights& weights() const { return weights_; }
  /// Of a model on the host: what it views lives elsewhere.
  Weights take() && requires std::same_as<D, Cpu> { return std::move(weights_); }

 private:
  Weights weights_{};
  std::vector<Held<D, T, dyn, dyn>> held_;
};

/// The same on the host: `weights` must outlive the result.
template <class Layer, Element T>
typename Layer::template Weights<Prepacked<T>> prepack_weights(
    const typename Layer::template Weights<const T>& weights) {
  return PrepackedModel<Layer, T>(place_t<T>{}, weights).take();
}

/// Calls f(path, bytes) for each tensor, in visiting order, with what prepack_weights makes of it or views.
template <class Layer, Element T, class F>
void visit_prepacked_bytes(const typename Layer::template Weights<const T>& weights, F&& f) {
  std::vector<char> is_matrix;
  typename Layer::template Weights<Prepacked<T>> kinds;
  Layer::visit(kinds, Path{},
               [&](const Path&, auto& to, auto) { is_matrix.push_back(!AnyView<std::remove_cvref_t<decltype(to)>>); });
  auto next = is_matrix.begin();
  Layer::visit(weights, Path{}, [&](const Path& path, auto& view, auto) {
    const index_t as_is = view.size() * static_cast<index_t>(sizeof(view.data()[0]));
    f(path.str(), *next++ != 0 ? PrepackedWeights<T>::bytes(as_matrix(view)) : as_is);
  });
}

}  // namespace K3SPEC_NAMESPACE
