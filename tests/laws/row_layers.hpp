#pragma once
// The layers that treat each row by itself, as laws see them, on any device.
#include <tests/laws/laws.hpp>
#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/ops/embedding.hpp>

namespace k3spec::laws {

template <index_t In, index_t Out>
struct LinearLaw : Defaults {
  using Layer = Linear<In, Out>;
  static constexpr bool products = true;
  static constexpr std::array inputs{Input{In}};
  static constexpr index_t output = Out;
  static void forward(const auto& c) { Layer::forward(c.device, c.w, c.x[0], c.y); }
  static void backward(const auto& c, const auto& b) { Layer::backward(c.device, c.w, b.d_w, c.x[0], b.d_y, b.d_x[0]); }
};

template <index_t N>
struct RMSNormLaw : Defaults {
  using Layer = KimiRMSNorm<N>;
  static constexpr std::array inputs{Input{N}};
  static constexpr index_t output = N;
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape shape) {
    return Layer::template scratch_bytes<T>(shape.rows());
  }
  static void forward(const auto& c) { Layer::forward(c.device, c.w, 1e-5, c.x[0], c.y); }
  static void backward(const auto& c, const auto& b) {
    Layer::backward(Workspace(c.device, b.scratch), c.w, b.d_w, 1e-5, c.x[0], b.d_y, b.d_x[0]);
  }
};

/// The norm where it adds to its input's gradient.
template <index_t N>
struct AddingNormLaw : RMSNormLaw<N> {
  static constexpr std::array inputs{Input{N, Gradient::accumulated}};
  static void backward(const auto& c, const auto& b) {
    KimiRMSNorm<N>::backward(Workspace(c.device, b.scratch), c.w, b.d_w, 1e-5, c.x[0], b.d_y,
                             {b.d_x[0], Into::accumulate});
  }
};

template <class MLP, index_t Hidden>
struct MLPLaw : Defaults {
  using Layer = MLP;
  static constexpr bool products = true;
  static constexpr std::array inputs{Input{Hidden}};
  static constexpr index_t output = Hidden;
  template <class T>
  struct Saved : Layer::template Saved<T> {
    template <Allocator A>
    static constexpr Saved allocate(A& a, Shape shape) {
      return {Layer::template Saved<T>::allocate(a, shape.rows())};
    }
  };
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape shape) {
    return Layer::template scratch_bytes<T>(shape.rows());
  }
  template <class T>
  static void forward(const Call<MLPLaw, T>& c) {
    Layer::template forward<T>(c.device, c.w, c.x[0], c.y, c.saved);
  }
  template <class T>
  static void backward(const Call<MLPLaw, T>& c, const Back<MLPLaw, T>& b) {
    Layer::template backward<T>(Workspace(c.device, b.scratch), c.w, b.d_w, c.x[0], c.saved, b.d_y, b.d_x[0]);
  }
};

struct Bounded : configs::KimiK3 {};
struct Unbounded : configs::KimiK3 {
  static constexpr std::optional<double> activation_situ_linear_beta = std::nullopt;
};

template <index_t N>
struct Table {
  template <class T>
  struct Weights {
    View<T, 13, N> table;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "table", w.table, Init::normal);
  }
};

template <index_t N>
struct EmbeddingLaw : Defaults {
  using Layer = Table<N>;
  static constexpr std::array<Input, 0> inputs{};
  static constexpr index_t output = N, vocabulary = 13;
  template <class T>
  static void forward(const Call<EmbeddingLaw, T>& c) {
    embedding_forward<T>(c.device, c.ids, c.w.table, c.y);
  }
  template <class T>
  static void backward(const Call<EmbeddingLaw, T>& c, const Back<EmbeddingLaw, T>& b) {
    embedding_backward<accumulate_t<T>>(c.device, c.ids, std::nullopt, b.d_y, b.d_w.table);
  }
};

/// The attention's output gate: input 0 is what is gated, input 1 the gate.
template <index_t N>
struct OutputGateLaw : Defaults {
  using Layer = NoParameters;
  static constexpr std::array inputs{Input{N}, Input{N}};
  static constexpr index_t output = N;
  static void forward(const auto& c) { evaluate(c.device, output_gate_formula(), c.y, c.x[0], c.x[1]); }
  static void backward(const auto& c, const auto& b) {
    differentiate(c.device, output_gate_formula(), b.d_y, gradients(overwrite(b.d_x[0]), overwrite(b.d_x[1])),
                  b.scratch, c.x[0], c.x[1]);
  }
};

}  // namespace k3spec::laws
