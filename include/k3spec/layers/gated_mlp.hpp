#pragma once
/// \file
/// The gated MLPs of Kimi K3 and DeepSeek-V3, and their activations.
/// defines: SiTU, SwiGLU, GatedMLP, SiTUMLP, SwiGLUMLP

#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/layers/linear.hpp>
#include <k3spec/ops/gated_activation.hpp>

namespace K3SPEC_NAMESPACE {

/// Kimi K3's activation with the config's β and λ.
template <class Given>
struct SiTU {
  using Config = complete_activation_t<Given>;
  static constexpr auto formula() {
    if constexpr (Config::activation_situ_linear_beta.has_value()) {
      return situ_formula(Config::activation_situ_beta, *Config::activation_situ_linear_beta);
    } else {
      return situ_formula(Config::activation_situ_beta);
    }
  }
};

/// DeepSeek-V3's activation.
struct SwiGLU {
  static constexpr auto formula() { return swiglu_formula(); }
};

/// y = W_down · act(W_gate x, W_up x)
template <index_t Hidden, index_t Inner, class Activation>
struct GatedMLP {
  using Up = Linear<Hidden, Inner>;
  using Down = Linear<Inner, Hidden>;

  /// The layer's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    typename Up::template Weights<T> gate_proj, up_proj;
    typename Down::template Weights<T> down_proj;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Up::visit(w.gate_proj, at / "gate_proj", v);
    Up::visit(w.up_proj, at / "up_proj", v);
    Down::visit(w.down_proj, at / "down_proj", v);
  }

  /// What backward needs of forward, besides x; each [rows, Inner].
  template <class T>
  struct Saved {
    Rows<T, Inner> gate, up, product;

    template <Allocator A>
    static constexpr Saved allocate(A& a, index_t rows) {
      const auto take = [&] { return Rows<T, Inner>(a.template take<T>(rows * Inner), rows); };
      return {take(), take(), take()};
    }
    /// Rows [begin, begin + n) of everything.
    Saved rows(index_t begin, index_t n) const {
      return {gate.rows(begin, n), up.rows(begin, n), product.rows(begin, n)};
    }
  };

  // Each throws Error on other shapes, and on `saved` of other rows.

  /// x [rows, Hidden] -> y [rows, Hidden], overwritten or added to (before the one rounding).
  template <class T, Device D, class W, AnyView X, AnyView Y>
  static void forward(const D& device, const W& w, const X& x, const Y& y, const Saved<T>& saved,
                      Into into = Into::overwrite) {
    using Views = Operands<T, Hidden, X, Y>;
    static_assert(Views::wide, "GatedMLP: a view has another number of columns than the layer's hidden size");
    static_assert(Views::same, "GatedMLP: a view and the weights mix double with float or bfloat16");
    if constexpr (Views::fit) {
      require_shape("GatedMLP: x", x, x.extent(0), Hidden);
      require_shape("GatedMLP: y", y, x.extent(0), Hidden);
      require_rows("GatedMLP: saved", saved.gate, x.extent(0));
      Up::forward(device, w.gate_proj, x, saved.gate);
      Up::forward(device, w.up_proj, x, saved.up);
      evaluate(device, Activation::formula(), saved.product, saved.gate, saved.up);
      Down::forward(device, w.down_proj, saved.product, y, into);
    }
  }

  /// Scratch of backward; each [rows, Inner].
  template <class T>
  struct Scratch {
    using S = accumulate_t<T>;
    Rows<S, Inner> d_product, d_gate, d_up;

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t rows) {
      const auto take = [&] { return Rows<S, Inner>(a.template take<S>(rows * Inner), rows); };
      return {take(), take(), take()};
    }
  };

  template <class T>
  static constexpr std::size_t scratch_bytes(index_t rows) {
    return plan_bytes([&](ArenaPlan& a) { Scratch<T>::allocate(a, rows); });
  }

  /// Parameter gradients accumulate.
  template <class T, Device D, Allocator A, AnyView X, AnyView DY>
  static void backward(const Workspace<D, A>& on, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                       const X& x, const Saved<T>& saved, const DY& d_y, const Destination<accumulate_t<T>>& d_x) {
    using Views = Operands<T, Hidden, X, DY>;
    static_assert(Views::wide, "GatedMLP: a view has another number of columns than the layer's hidden size");
    static_assert(Views::same, "GatedMLP: a view and the weights mix double with float or bfloat16");
    if constexpr (Views::fit) {
      require_shape("GatedMLP: x", x, x.extent(0), Hidden);
      require_rows("GatedMLP: saved", saved.gate, x.extent(0));
      require_shape("GatedMLP: d_y", d_y, x.extent(0), Hidden);
      d_x.check("GatedMLP: d_x", x.extent(0), Hidden);
      Scope scope(on.scratch);
      const auto s = Scratch<T>::allocate(on.scratch, x.extent(0));
      Down::backward(on.device, w.down_proj, d_w.down_proj, saved.product, d_y, s.d_product);
      differentiate(on.device, Activation::formula(), s.d_product, gradients(overwrite(s.d_gate), overwrite(s.d_up)),
                    on.scratch, saved.gate, saved.up);
      Up::backward(on.device, w.gate_proj, d_w.gate_proj, x, s.d_gate, d_x);
      Up::backward(on.device, w.up_proj, d_w.up_proj, x, s.d_up, d_x.more());
    }
  }
};

template <index_t Hidden, index_t Inner, class Config>
using SiTUMLP = GatedMLP<Hidden, Inner, SiTU<Config>>;

template <index_t Hidden, index_t Inner>
using SwiGLUMLP = GatedMLP<Hidden, Inner, SwiGLU>;

}  // namespace K3SPEC_NAMESPACE
