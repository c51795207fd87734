#pragma once
/// \file
/// What an EAGLE-3 draft makes of the target's states, once per batch: h = W_fc [x₁ ‖ x₂ ‖ …], each xᵢ normed before in
/// EAGLE-3.1 (fc_norm). R rows, H hidden, A = num_aux_hidden_states · target_hidden_size.
/// defines: AuxProjection

#include <k3spec/config/complete.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/layers/linear.hpp>

namespace K3SPEC_NAMESPACE {

/// W below is the draft's weights, of which `fc` and `fc_norm` are read.
template <class Given>
struct AuxProjection {
  using Config = complete_eagle3_t<Given>;
  static constexpr index_t count = Config::num_aux_hidden_states, size = Config::target_hidden_size;
  static constexpr index_t width = count * size, hidden = Config::hidden_size;
  static constexpr double eps = Config::rms_norm_eps;
  using Fc = Linear<width, hidden>;
  using Norm = KimiRMSNorm<size>;

  /// aux [R, A] -> h [R, H]; normed [R, A] only with fc_norm
  /// \throws Error on other numbers of rows
  template <class T, Device D, class W>
  static void forward(const D& device, const W& w, const Rows<const T, width>& aux, const Rows<T, width>& normed,
                      const Rows<T, hidden>& h) {
    require_rows("AuxProjection: h", h, aux.extent(0));
    if constexpr (Config::fc_norm) require_rows("AuxProjection: normed", normed, aux.extent(0));
    if constexpr (Config::fc_norm) {
      for (index_t i = 0; i < count; ++i) {
        Norm::forward(device, w.fc_norm[static_cast<std::size_t>(i)], eps, part(aux, i), part(normed, i));
      }
      Fc::forward(device, w.fc, normed, h);
    } else {
      Fc::forward(device, w.fc, aux, h);
    }
  }

  /// d_h [R, H] -> parameter gradients, which accumulate, and d_aux [R, A].
  /// \throws Error on other numbers of rows
  template <class T, Device D, class W, class DW>
  static void backward(const Workspace<D>& on, const W& w, const DW& d_w, const Rows<const T, width>& aux,
                       const Rows<T, width>& normed, const Rows<accumulate_t<T>, hidden>& d_h,
                       const Destination<accumulate_t<T>>& d_aux) {
    using S = accumulate_t<T>;
    require_rows("AuxProjection: d_h", d_h, aux.extent(0));
    d_aux.check("AuxProjection: d_aux", aux.extent(0), width);
    if constexpr (Config::fc_norm) require_rows("AuxProjection: normed", normed, aux.extent(0));
    if constexpr (Config::fc_norm) {
      Scope scope(on.scratch);
      Rows<S, width> d_normed;
      take_rows(on.scratch, aux.extent(0), d_normed);
      Fc::template backward<T>(on.device, w.fc, d_w.fc, normed, d_h, d_normed);
      for (index_t i = 0; i < count; ++i) {
        const auto n = static_cast<std::size_t>(i);
        const auto of_part = d_aux.is_wanted() ? Destination<S>{part(d_aux.to, i), d_aux.into} : d_aux;
        Norm::template backward<T>(on, w.fc_norm[n], d_w.fc_norm[n], eps, part(aux, i), part(d_normed, i), of_part);
      }
    } else {
      Fc::template backward<T>(on.device, w.fc, d_w.fc, aux, d_h, d_aux);
    }
  }

  /// Bytes of scratch that backward takes.
  template <class T>
  static constexpr std::size_t scratch_bytes(index_t rows) {
    return plan_bytes([&](ArenaPlan& a) {
      if constexpr (Config::fc_norm) a.take<accumulate_t<T>>(rows * width);
      if constexpr (Config::fc_norm) a.borrow(Norm::template scratch_bytes<T>(rows));
    });
  }

 private:
  static auto part(const auto& m, index_t i) { return m.columns(i * size, size); }
};

}  // namespace K3SPEC_NAMESPACE
