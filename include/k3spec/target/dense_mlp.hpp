#pragma once
/// \file
/// The target's gated MLP: GatedMLP's formula, gate and up projected together.
/// defines: DenseMLP

#include <k3spec/core/require_shape.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/target/arena_slice.hpp>
#include <k3spec/target/prepacked_linear.hpp>

namespace K3SPEC_NAMESPACE {

/// The MLP of layers without experts, forward only.
template <class Config, index_t Inner>
struct DenseMLP {
  static constexpr index_t hidden = Config::hidden_size, inner = Inner;
  using Layer = SiTUMLP<hidden, inner, Config>;

  template <class T>
  using Weights = typename Layer::template Weights<T>;

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Layer::visit(w, at, v);
  }

  /// The weights as decoding reads them.
  template <class T>
  struct Prepacked {
    PrepackedLinear<T> in, out;

    template <class Tensor>
    Prepacked(const place_t<T>& device, const Weights<Tensor>& w)
        : in{device, {w.gate_proj.weight.matrix(), w.up_proj.weight.matrix()}},
          out{device, {w.down_proj.weight.matrix()}} {}

    /// What they take.
    std::size_t bytes() const { return static_cast<std::size_t>(in.bytes() + out.bytes()); }
  };

  /// Working memory of a forward.
  template <class T>
  struct Scratch {
    using S = accumulate_t<T>;
    Matrix<S> in;       ///< [rows, 2 · inner], gate beside up
    Matrix<T> product;  ///< [rows, inner]

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t rows) {
      Scratch s;
      detail::take_matrix(a, s.in, rows, 2 * inner);
      detail::take_matrix(a, s.product, rows, inner);
      return s;
    }
  };

  /// x, y [rows, hidden]
  /// \throws Error on other shapes
  template <class T, Device D, AnyView X, AnyView Y>
  static void forward(const D& device, const Prepacked<T>& w, const X& x, const Y& y, Into into, ArenaSlice& arena) {
    require_shape("DenseMLP: x", x, x.extent(0), hidden);
    require_shape("DenseMLP: y", y, x.extent(0), hidden);
    Scope scope(arena);
    const auto s = Scratch<T>::allocate(arena, x.extent(0));
    w.in.forward(device, x, s.in);
    evaluate(device, SiTU<Config>::formula(), s.product, s.in.columns(0, inner), s.in.columns(inner, inner));
    w.out.forward(device, s.product, y, into);
  }
};

}  // namespace K3SPEC_NAMESPACE
