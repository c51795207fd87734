#pragma once
/// \file
/// Weights in the order in which the matrix product reads them.
/// defines: PrepackedWeights, gemm of prepacked weights

#include <concepts>
#include <string>

#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/core/buffer.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
/// Panels of W [N,K] (detail::Panels): panel after panel, each row-major [K, panel width]. N is rounded up to whole
/// packets.
template <class T>
struct PrepackedPanels {
  using S = accumulate_t<T>;

  static constexpr index_t size(index_t outputs, index_t inputs) {
    return ceil_div(outputs, Packet<S>::width) * Packet<S>::width * inputs;
  }

  /// \param w  W [N,K]  \param to  size(N, K) elements, all 0
  template <class W>
  static void fill(const W& w, T* to) {
    const Panels<S> panels(w.extent(0));
    for (index_t q = 0; q < panels.count; ++q) fill(w, panels.begin(q), panels.width(q), to);
  }

 private:
  template <class W>
  static void fill(const W& w, index_t begin, index_t width, T* memory) {
    T* to = memory + begin * w.extent(1);
    for (index_t j = 0; j < std::min(width, w.extent(0) - begin); ++j) {
      const T* row = w.row(begin + j);
      for (index_t k = 0; k < w.extent(1); ++k) to[k * width + j] = row[k];
    }
  }
};
}  // namespace detail

/// The weights W [N,K] of y = x Wᵀ, copied once so that no product with them packs anything again. N is rounded up to
/// whole packets. Worth it for weights that do not change; most of all when x has few rows.
template <Element T>
class PrepackedWeights {
 public:
  PrepackedWeights() = default;

  /// Packs W.
  /// \param w  W [N,K]
  template <class U, index_t... E>
    requires(sizeof...(E) == 2 && std::same_as<std::remove_cv_t<U>, T>)
  explicit PrepackedWeights(const View<U, E...>& w)
      : outputs_(w.extent(0)), inputs_(w.extent(1)), memory_(detail::PrepackedPanels<T>::size(outputs_, inputs_)) {
    detail::PrepackedPanels<T>::fill(w, memory_.data());
  }

  PrepackedWeights(const Cpu&, const Matrix<const T>& w) : PrepackedWeights(w) {}

  /// What an object for W [N,K] will hold.
  static constexpr index_t bytes(index_t outputs, index_t inputs) {
    return detail::PrepackedPanels<T>::size(outputs, inputs) * static_cast<index_t>(sizeof(T));
  }

  index_t outputs() const { return outputs_; }
  index_t inputs() const { return inputs_; }
  index_t bytes() const { return bytes(outputs_, inputs_); }
  /// See detail::PrepackedPanels.
  const T* data() const { return memory_.data(); }

 private:
  index_t outputs_ = 0, inputs_ = 0;
  Buffer<T> memory_;
};

namespace detail {
/// B as PrepackedWeights keep it.
template <class T>
struct PrepackedB {
  const T* data;
  index_t depth;

  template <class S>
  static constexpr bool ready = std::same_as<T, S>;

  template <class S>
  PanelView<S> pack(const Panels<S>& panels, index_t q, index_t k, index_t kc, S* to) const {
    const index_t width = panels.width(q);
    const T* from = data + panels.begin(q) * depth + k * width;
    if constexpr (ready<S>) {
      return {from, width};
    } else {
      pack_plain(from, width, kc, width, to, width);
      return {to, width};
    }
  }

  template <class S>
  void pack_block(const Panels<S>& panels, index_t q0, index_t q1, index_t k, index_t kc, S* to) const {
    for (index_t q = q0; q < q1; ++q) pack(panels, q, k, kc, to + panels.offset(q0, q, kc));
  }

  template <class S>
  PanelView<S> stream(const Panels<S>& panels, index_t q, index_t k, index_t kc, S* to) const {
    return pack(panels, q, k, kc, to);
  }
};
}  // namespace detail

/// C [M,N] (= or +=) A [M,K] · Wᵀ, the same bits as from the unpacked weights.
/// \throws Error when the shapes do not fit together
template <class TA, index_t... EA, class T, class TC, index_t... EC>
  requires(sizeof...(EA) == 2 && sizeof...(EC) == 2 && std::same_as<accumulate_t<TC>, accumulate_t<T>>)
void gemm(const Cpu& cpu, const View<TA, EA...>& a, const PrepackedWeights<T>& w, const View<TC, EC...>& c,
          Into into = Into::overwrite) {
  if (into == Into::nothing) return;
  detail::require_extent("gemm: rows of A", a.extent(0), c.extent(0));
  detail::require_extent("gemm: columns of A", a.extent(1), w.inputs());
  detail::require_extent("gemm: prepacked weights' outputs", w.outputs(), c.extent(1));
  using A = std::remove_cv_t<TA>;
  detail::multiply(cpu, detail::Product<A, detail::PrepackedB<T>, TC>{{a.data(), a.row_stride(), false},
                                                                      {w.data(), w.inputs()},
                                                                      c.data(),
                                                                      c.row_stride(),
                                                                      c.extent(0),
                                                                      c.extent(1),
                                                                      w.inputs(),
                                                                      into == Into::accumulate});
}

}  // namespace K3SPEC_NAMESPACE
