#pragma once
/// \file
/// A linear layer without a bias, and what stands where there is no layer.
/// defines: Linear

#include <k3spec/backend/cpu/gemm_prepacked.hpp>
#include <k3spec/core/operand.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// y = x Wᵀ, no bias (torch.nn.Linear's layout: W is [Out, In]).
template <index_t In, index_t Out>
struct Linear {
  static_assert(In > 0 && Out > 0, "Linear: both widths must be positive");
  static constexpr index_t in_features = In, out_features = Out;

  /// The layer's tensor, named as in a checkpoint.
  template <class T>
  struct Weights {
    View<T, Out, In> weight;
  };

  /// The same, prepacked for the products that read it.
  template <class T>
  struct Weights<Prepacked<T>> {
    PrepackedWeights<T> weight;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "weight", w.weight, Init::normal);
  }

  // Each throws Error on other shapes.

  /// y [rows, Out] (= or +=) x [rows, In] Wᵀ. Accumulating adds before the one rounding to y's type.
  template <class T, Device D, AnyView X, AnyView Y>
  static void forward(const D& device, const Weights<const T>& w, const X& x, const Y& y, Into into = Into::overwrite) {
    using Inputs = Operands<T, In, X>;
    using Outputs = Operands<T, Out, Y>;
    static_assert(Inputs::wide && Outputs::wide, "Linear: a view has other columns than the layer's inputs or outputs");
    static_assert(Inputs::same && Outputs::same, "Linear: a view and the weights mix double with float or bfloat16");
    if constexpr (Inputs::fit && Outputs::fit) {
      check("Linear: x", x, "Linear: y", y);
      gemm<Op::plain, Op::transposed>(device, x, w.weight, y, into);
    }
  }

  /// The same bits from prepacked weights.
  template <class T, Device D, AnyView X, AnyView Y>
  static void forward(const D& device, const Weights<Prepacked<T>>& w, const X& x, const Y& y,
                      Into into = Into::overwrite) {
    using Inputs = Operands<T, In, X>;
    using Outputs = Operands<T, Out, Y>;
    static_assert(Inputs::wide && Outputs::wide, "Linear: a view has other columns than the layer's inputs or outputs");
    static_assert(Inputs::same && Outputs::same, "Linear: a view and the weights mix double with float or bfloat16");
    if constexpr (Inputs::fit && Outputs::fit) {
      check("Linear: x", x, "Linear: y", y);
      gemm(device, x.matrix(), w.weight, y.matrix(), into);
    }
  }

  /// d_x [rows, In] (= or +=) d_y W
  template <class T, Device D, AnyView DY>
  static void backward_input(const D& device, const Weights<const T>& w, const DY& d_y,
                             const Destination<accumulate_t<T>>& d_x) {
    using Outputs = Operands<T, Out, DY>;
    static_assert(Outputs::wide, "Linear: a view has other columns than the layer's inputs or outputs");
    static_assert(Outputs::same, "Linear: a view and the weights mix double with float or bfloat16");
    if constexpr (Outputs::fit) {
      if (!d_x.is_wanted()) return;
      check("Linear: d_x", d_x.to, "Linear: d_y", d_y);
      gemm<Op::plain, Op::plain>(device, d_y, w.weight, d_x.to, d_x.into);
    }
  }

  /// d_W += d_yᵀ x
  template <class S, Device D, AnyView X, AnyView DY>
  static void backward_weight(const D& device, const Weights<S>& d_w, const X& x, const DY& d_y) {
    using Inputs = Operands<S, In, X>;
    using Outputs = Operands<S, Out, DY>;
    static_assert(Inputs::wide && Outputs::wide, "Linear: a view has other columns than the layer's inputs or outputs");
    static_assert(Inputs::same && Outputs::same, "Linear: a view and the weights mix double with float or bfloat16");
    if constexpr (Inputs::fit && Outputs::fit) {
      check("Linear: x", x, "Linear: d_y", d_y);
      gemm<Op::transposed, Op::plain>(device, d_y, x, d_w.weight, Into::accumulate);
    }
  }

  /// Both of the above. Saved from the forward pass: x.
  template <class T, Device D, AnyView X, AnyView DY>
  static void backward(const D& device, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w, const X& x,
                       const DY& d_y, const Destination<accumulate_t<T>>& d_x) {
    if (d_x.is_wanted()) check("Linear: d_x", d_x.to, "Linear: d_y", d_y);
    backward_weight(device, d_w, x, d_y);
    backward_input(device, w, d_y, d_x);
  }

 private:
  template <AnyView X, AnyView Y>
  static void check(const char* input, const X& x, const char* output, const Y& y) {
    require_shape(input, x, x.extent(0), In);
    require_shape(output, y, x.extent(0), Out);
  }
};

/// Stands where a config leaves a layer out.
struct Absent {
  /// No tensors.
  template <class T>
  struct Weights {};
  template <class W, class V>
  static constexpr void visit(W&, const Path&, V&&) {}
};

}  // namespace K3SPEC_NAMESPACE
