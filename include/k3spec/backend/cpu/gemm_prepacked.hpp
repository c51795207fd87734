#pragma once
/// \file
/// Weights in the order in which the matrix product reads them.
/// defines: Mxfp4Rows, Bfloat16Rows, PrepackedWeights, gemm of prepacked weights

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/backend/cpu/weight_panels.hpp>
#include <k3spec/core/buffer.hpp>
#include <k3spec/core/unread.hpp>

namespace K3SPEC_NAMESPACE {

/// W [N,K] as MXFP4, with scales of which detail::are_normal_scales holds.
template <class Read>
struct Mxfp4Rows {
  index_t outputs, inputs;
  const std::uint8_t* scales;  ///< [N, K/32]
  /// (first, count, to [count, K/2]) reads rows; the lower half of a byte is the even column
  Read read_nibbles;
};
/// Of what its fields are.
template <class Read>
Mxfp4Rows(index_t, index_t, const std::uint8_t*, Read) -> Mxfp4Rows<Read>;

/// W [N,K] as bfloat16.
template <class Read>
struct Bfloat16Rows {
  index_t outputs, inputs;
  /// (first, count, to [count, K] of two bytes each) reads rows
  Read read;
};
/// Of what its fields are.
template <class Read>
Bfloat16Rows(index_t, index_t, Read) -> Bfloat16Rows<Read>;

/// The weights W [N,K] of y = x Wᵀ, copied once so that no product with them packs anything again, in the narrowest
/// format that has each of them exactly. N is rounded up to whole packets. Worth it for weights that do not change;
/// most of all when x has few rows.
template <Element T>
class PrepackedWeights {
  using S = accumulate_t<T>;
  using Panels = detail::PrepackedPanels<S>;

 public:
  PrepackedWeights() = default;

  /// Packs W.
  /// \param w  W [N,K]
  template <class U, index_t... E>
    requires(sizeof...(E) == 2 && std::same_as<std::remove_cv_t<U>, T>)
  explicit PrepackedWeights(const View<U, E...>& w)
      : PrepackedWeights(w, detail::weight_format(Matrix<const T>(w.matrix()))) {}

  PrepackedWeights(const Cpu&, const Matrix<const T>& w, KeepWeights keep = KeepWeights::native)
      : PrepackedWeights(w, keep == KeepWeights::full ? WeightFormat::full : detail::weight_format(w)) {}

  /// Packs W without a copy of its numbers; the device's threads read parts of it at a time.
  /// \param to  bytes() bytes of a weight in this format, which must outlive this; else it has memory of its own
  template <class Read>
    requires(std::same_as<S, float>)
  PrepackedWeights(const Cpu& cpu, const Mxfp4Rows<Read>& w, std::byte* to = nullptr)
      : panels_{WeightFormat::mxfp4, w.outputs, w.inputs}, elsewhere_(to) {
    if (to == nullptr) memory_ = Buffer<std::byte>(uninitialized, panels_.bytes());
    panels_.fill_mxfp4(cpu, w.scales, w.read_nibbles, to == nullptr ? memory_.data() : to);
  }
  /// The same of bfloat16. For weights that MXFP4 does not have: these would be kept wider than they need.
  template <class Read>
    requires(std::same_as<S, float>)
  PrepackedWeights(const Cpu& cpu, const Bfloat16Rows<Read>& w)
      : panels_{WeightFormat::bfloat16, w.outputs, w.inputs}, memory_(uninitialized, panels_.bytes()) {
    panels_.fill_bfloat16(cpu, w.read, memory_.data());
  }

  /// What an object for W [N,K] holds at most, if it is not to be kept full.
  static constexpr index_t bytes(index_t outputs, index_t inputs) {
    constexpr bool wide = std::same_as<T, S>;
    return Panels{wide ? WeightFormat::full : WeightFormat::bfloat16, outputs, inputs}.bytes();
  }

  /// What an object for W holds.
  static index_t bytes(const Matrix<const T>& w) {
    return Panels{detail::weight_format(w), w.extent(0), w.extent(1)}.bytes();
  }

  index_t outputs() const { return panels_.outputs; }
  index_t inputs() const { return panels_.inputs; }
  WeightFormat format() const { return panels_.format; }
  /// What it holds.
  index_t bytes() const { return panels_.bytes(); }
  const Panels& panels() const { return panels_; }
  /// See detail::PrepackedPanels.
  const std::byte* data() const { return elsewhere_ != nullptr ? elsewhere_ : memory_.data(); }

 private:
  /// Packs W in a format that has each of its numbers: another would change them.
  template <class U, index_t... E>
    requires(sizeof...(E) == 2 && std::same_as<std::remove_cv_t<U>, T>)
  PrepackedWeights(const View<U, E...>& w, WeightFormat format)
      : panels_{format, w.extent(0), w.extent(1)}, memory_(panels_.bytes()) {
    panels_.fill(w, memory_.data());
  }

  Panels panels_{WeightFormat::full, 0, 0};
  Buffer<std::byte> memory_;
  const std::byte* elsewhere_ = nullptr;
};

namespace detail {
/// B as PrepackedWeights keep it.
template <class T>
struct PrepackedB {
  using S = accumulate_t<T>;

  PrepackedPanels<S> layout;
  const std::byte* data;

  explicit PrepackedB(const PrepackedWeights<T>& w) : layout(w.panels()), data(w.data()) {}

  static constexpr bool joins = true;
  template <class>
  bool is_ready() const {
    return layout.format == WeightFormat::full;
  }

  /// How many tiles of rows may each turn the stored numbers into floats: more often costs more than to keep the
  /// floats, for MXFP4, and for bfloat16 where tiles are low, already the second time (bench/RESULTS.md).
  index_t passes() const { return packet_registers >= 32 && layout.format != WeightFormat::mxfp4 ? 2 : 1; }

  /// Whether it may still be in a cache from the product before.
  bool is_cached() const { return layout.bytes() < index_t{8} << 20; }

  PanelView<S> view(const Panels<S>& panels, index_t q, index_t k) const {
    return layout.view(data, panels.begin(q), panels.width(q), k);
  }

  /// Panel q of rows [k, k + kc) as numbers, in place if it is kept so.
  PanelView<S> pack(const Panels<S>& panels, index_t q, index_t k, index_t kc, S* to) const {
    const PanelView<S> kept = view(panels, q, k);
    if (is_ready<S>()) return kept;
    expand_panel(kc, kept, to);
    return {to, kept.stride};
  }

  void pack_block(const Panels<S>& panels, index_t q0, index_t q1, index_t k, index_t kc, S* to) const {
    for (index_t q = q0; q < q1; ++q) pack(panels, q, k, kc, to + panels.offset(q0, q, kc));
  }

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
                                                                      detail::PrepackedB<T>(w),
                                                                      c.data(),
                                                                      c.row_stride(),
                                                                      c.extent(0),
                                                                      c.extent(1),
                                                                      w.inputs(),
                                                                      into == Into::accumulate});
}

}  // namespace K3SPEC_NAMESPACE
