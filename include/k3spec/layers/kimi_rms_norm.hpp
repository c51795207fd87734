#pragma once
/// \file
/// Root-mean-square norm as a layer.
/// defines: KimiRMSNorm

#include <k3spec/core/operand.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/ops/rms_norm.hpp>

namespace K3SPEC_NAMESPACE {

/// Root-mean-square norm over N features with a learned scale; see ops/rms_norm.hpp.
template <index_t N>
struct KimiRMSNorm {
  static_assert(N > 0, "KimiRMSNorm: the width must be positive");

  /// The layer's tensor, named as in a checkpoint.
  template <class T>
  struct Weights {
    View<stored_t<T>, N> weight;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "weight", w.weight, Init::ones);
  }

  // Each throws Error on other shapes.

  /// x, y [rows, N]
  template <class T, Device D, AnyView X, AnyView Y>
  static void forward(const D& device, const Weights<const T>& w, double eps, const X& x, const Y& y) {
    using Views = Operands<T, N, X, Y>;
    static_assert(Views::wide, "KimiRMSNorm: a view has another number of columns than the norm");
    static_assert(Views::same, "KimiRMSNorm: a view and the weights mix double with float or bfloat16");
    if constexpr (Views::fit) {
      require_shape("KimiRMSNorm: x", x, x.extent(0), N);
      require_shape("KimiRMSNorm: y", y, x.extent(0), N);
      rms_norm_forward<T>(device, w.weight, eps, x, y);
    }
  }

  template <class T, Device D, AnyView X, AnyView Y>
  static void forward(const D& device, const Weights<Prepacked<T>>& w, double eps, const X& x, const Y& y) {
    using Views = Operands<T, N, X, Y>;
    static_assert(Views::wide, "KimiRMSNorm: a view has another number of columns than the norm");
    static_assert(Views::same, "KimiRMSNorm: a view and the weights mix double with float or bfloat16");
    if constexpr (Views::fit) {
      require_shape("KimiRMSNorm: x", x, x.extent(0), N);
      require_shape("KimiRMSNorm: y", y, x.extent(0), N);
      rms_norm_forward<T>(device, w.weight, eps, x, y);
    }
  }

  /// d_w accumulates. Saved from the forward pass: x.
  template <class T, Device D, Allocator A, AnyView X, AnyView DY>
  static void backward(const Workspace<D, A>& on, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                       double eps, const X& x, const DY& d_y, const Destination<accumulate_t<T>>& d_x) {
    using Views = Operands<T, N, X, DY>;
    static_assert(Views::wide, "KimiRMSNorm: a view has another number of columns than the norm");
    static_assert(Views::same, "KimiRMSNorm: a view and the weights mix double with float or bfloat16");
    if constexpr (Views::fit) {
      require_shape("KimiRMSNorm: x", x, x.extent(0), N);
      rms_norm_backward<T>(on, w.weight, d_w.weight, eps, x, d_y, d_x);
    }
  }

  /// Bytes of scratch that backward takes.
  template <class T>
  static constexpr std::size_t scratch_bytes(index_t rows) {
    return rms_norm_scratch<T>(rows);
  }
};

}  // namespace K3SPEC_NAMESPACE
