#pragma once
/// \file
/// A linear layer with a bias.
/// defines: BiasedLinear

#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/layers/linear.hpp>

namespace K3SPEC_NAMESPACE {

/// y = x Wᵀ + b
template <index_t In, index_t Out>
struct BiasedLinear {
  using Product = Linear<In, Out>;
  static constexpr index_t in_features = In, out_features = Out;

  /// The layer's tensors, named as in a checkpoint.
  template <class T>
  struct Weights : Product::template Weights<T> {
    View<stored_t<T>, Out> bias;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Product::visit(w, at, v);
    v(at / "bias", w.bias, Init::zeros);
  }

  // Each throws Error on other shapes.

  /// x [rows, In] -> y [rows, Out]. The product is added to the bias: one rounding.
  template <Device D, class W, AnyView X, AnyView Y>
  static void forward(const D& device, const W& w, const X& x, const Y& y) {
    using T = typename decltype(w.bias)::value_type;
    using Inputs = Operands<T, In, X>;
    using Outputs = Operands<T, Out, Y>;
    static_assert(Inputs::wide && Outputs::wide,
                  "BiasedLinear: a view has other columns than the layer's inputs or outputs");
    static_assert(Inputs::same && Outputs::same,
                  "BiasedLinear: a view and the weights mix double with float or bfloat16");
    if constexpr (Inputs::fit && Outputs::fit) {
      require_shape("BiasedLinear: x", x, x.extent(0), In);
      require_shape("BiasedLinear: y", y, x.extent(0), Out);
      evaluate(device, expr::column<0>, y, w.bias);
      Product::forward(device, w, x, y, Into::accumulate);
    }
  }

  /// d_x [rows, In] (= or +=) d_y W
  template <class T, Device D, AnyView DY>
  static void backward_input(const D& device, const Weights<const T>& w, const DY& d_y,
                             const Destination<accumulate_t<T>>& d_x) {
    Product::template backward_input<T>(device, w, d_y, d_x);
  }

  /// d_W += d_yᵀ x, d_b += Σ_rows d_y. No scratch is taken.
  template <class S, Device D, Allocator A, AnyView X, AnyView DY>
  static void backward_weight(const Workspace<D, A>& on, const Weights<S>& d_w, const X& x, const DY& d_y) {
    Product::backward_weight(on.device, d_w, x, d_y);
    differentiate(on.device, expr::column<0>, d_y, gradients(accumulate(d_w.bias)), on.scratch, d_w.bias);
  }
};

}  // namespace K3SPEC_NAMESPACE
