#pragma once
/// \file
/// Mixture of experts in a latent space:
/// ```text
/// y = W_up_r( RMS( Σ_e w_e E_e(W_down_r x) ) ) + shared(x),   E(z) = W_2 situ(W_1 z, W_3 z)
/// ```
/// Scores, the correction that is added to them, and the sum over experts are never rounded to the storage type:
/// corrections of trained models differ by less than bfloat16 can tell apart.
/// defines: LatentMoe

#include <algorithm>
#include <array>
#include <type_traits>

#include <k3spec/backend/cpu/batch_parts.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/ops/grouped_gemm.hpp>
#include <k3spec/ops/route.hpp>
#include <k3spec/target/arena_slice.hpp>
#include <k3spec/target/dense_mlp.hpp>

namespace K3SPEC_NAMESPACE {

/// The mixture of experts of a layer of the target, forward only.
template <class Config>
struct LatentMoe {
  static constexpr index_t hidden = Config::hidden_size, latent = Config::routed_expert_hidden_size;
  static constexpr index_t inner = Config::moe_intermediate_size, experts = Config::num_experts;
  static constexpr index_t chosen = Config::num_experts_per_token;
  static constexpr bool has_norm = Config::latent_moe_use_norm, has_shared = Config::num_shared_experts > 0;
  static_assert(latent > 0 && inner > 0, "latent MoE: both widths of an expert must be positive");

  using Router = Linear<hidden, experts>;
  using Up = Linear<latent, inner>;
  using Down = Linear<inner, latent>;
  using Norm = std::conditional_t<has_norm, KimiRMSNorm<latent>, Absent>;
  using SharedMLP = DenseMLP<Config, has_shared ? inner * Config::num_shared_experts : 1>;
  using Shared = std::conditional_t<has_shared, SharedMLP, Absent>;

  /// w1 is the gate, w3 up, w2 down.
  template <class T>
  struct Expert {
    typename Up::template Weights<T> w1, w3;
    typename Down::template Weights<T> w2;
  };

  /// The layer's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    typename Router::template Weights<T> gate;
    View<full_precision_t<T>, experts> e_score_correction_bias;
    typename Linear<hidden, latent>::template Weights<T> routed_expert_down_proj;
    typename Linear<latent, hidden>::template Weights<T> routed_expert_up_proj;
    typename Norm::template Weights<T> routed_expert_norm;
    std::array<Expert<T>, static_cast<std::size_t>(experts)> experts_;
    typename Shared::template Weights<T> shared_experts;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Router::visit(w.gate, at / "gate", v);
    v(at / "gate" / "e_score_correction_bias", w.e_score_correction_bias, Init::zeros);
    Linear<hidden, latent>::visit(w.routed_expert_down_proj, at / "routed_expert_down_proj", v);
    Linear<latent, hidden>::visit(w.routed_expert_up_proj, at / "routed_expert_up_proj", v);
    Norm::visit(w.routed_expert_norm, at / "routed_expert_norm", v);
    for (index_t e = 0; e < experts; ++e) {
      auto& expert = w.experts_[static_cast<std::size_t>(e)];
      Up::visit(expert.w1, at / "experts" / e / "w1", v);
      Up::visit(expert.w3, at / "experts" / e / "w3", v);
      Down::visit(expert.w2, at / "experts" / e / "w2", v);
    }
    Shared::visit(w.shared_experts, at / "shared_experts", v);
  }

  /// Stands for shared experts that a config does not have.
  template <class T>
  struct NothingPrepacked {
    template <class W>
    NothingPrepacked(const place_t<T>&, const W&) {}
    static std::size_t bytes() { return 0; }
  };

  /// The weights, prepacked. Keeps views of the small ones.
  template <class T>
  struct Prepacked {
    using SharedMLPOrNone =
        std::conditional_t<has_shared, typename SharedMLP::template Prepacked<T>, NothingPrepacked<T>>;
    PrepackedLinear<T> router, down, up;
    PrepackedGroups<T> experts_in, experts_out;  ///< gate beside up, and down
    SharedMLPOrNone shared;
    using D = place_t<T>;
    using Host = value_t<T>;
    Held<D, scalar_t<T>, dyn> correction;
    Held<D, Host, dyn> norm;

    /// Threads take experts.
    template <class Tensor>
    Prepacked(const D& device, const Weights<Tensor>& w)
        : router{device, {w.gate.weight.matrix()}},
          down{device, {w.routed_expert_down_proj.weight.matrix()}},
          up{device, {w.routed_expert_up_proj.weight.matrix()}},
          experts_in(device, experts, 2 * inner, latent),
          experts_out(device, experts, latent, inner),
          shared(device, w.shared_experts),
          correction(device, w.e_score_correction_bias) {
      if constexpr (has_norm) norm = Held<D, Host, dyn>(device, w.routed_expert_norm.weight);
      if constexpr (detail::has_own_bits<T, Tensor>) {
        const bool all = std::all_of(w.experts_.begin(), w.experts_.end(), [](const auto& e) {
          return detail::stay_mxfp4({e.w1.weight.matrix(), e.w3.weight.matrix(), e.w2.weight.matrix()});
        });
        if (all) experts_in.reserve_mxfp4(), experts_out.reserve_mxfp4();
      }
      run_each(device, experts, [&](const D& own, index_t e) {
        const auto& expert = w.experts_[static_cast<std::size_t>(e)];
        detail::set_stacked(experts_in, own, e, {expert.w1.weight.matrix(), expert.w3.weight.matrix()});
        detail::set_stacked(experts_out, own, e, {expert.w2.weight.matrix()});
      });
    }

    /// What they take.
    std::size_t bytes() const {
      return static_cast<std::size_t>(router.bytes() + down.bytes() + up.bytes()) + expert_bytes() + shared.bytes() +
             correction.bytes() + norm.bytes();
    }
    /// Of these, all experts.
    std::size_t expert_bytes() const { return static_cast<std::size_t>(experts_in.bytes() + experts_out.bytes()); }
  };

  /// Working memory of a forward.
  template <class T>
  struct Scratch {
    using S = accumulate_t<T>;
    Matrix<S> scores, weights;
    Matrix<placed_as_t<index_t, T>> ids;
    ExpertRows<placed_as_t<index_t, T>> sorted;
    Matrix<T> latent_in;       ///< [rows, latent]
    Matrix<T> gathered;        ///< [rows · chosen, latent], sorted by expert, and so the next three
    Matrix<S> gate_up;         ///< [.., 2 · inner]
    Matrix<T> product;         ///< [.., inner]
    Matrix<S> results;         ///< [.., latent]
    Matrix<T> routed, normed;  ///< [rows, latent]

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t rows) {
      const index_t sorted_rows = rows * chosen;
      Scratch s;
      detail::take_matrix(a, s.scores, rows, experts);
      detail::take_matrix(a, s.weights, rows, chosen);
      detail::take_matrix(a, s.ids, rows, chosen);
      s.sorted = ExpertRows<placed_as_t<index_t, T>>::allocate(a, rows, experts, chosen);
      detail::take_matrix(a, s.latent_in, rows, latent);
      detail::take_matrix(a, s.gathered, sorted_rows, latent);
      detail::take_matrix(a, s.gate_up, sorted_rows, 2 * inner);
      detail::take_matrix(a, s.product, sorted_rows, inner);
      detail::take_matrix(a, s.results, sorted_rows, latent);
      detail::take_matrix(a, s.routed, rows, latent);
      detail::take_matrix(a, s.normed, rows, latent);
      return s;
    }
  };

  /// Bytes of scratch that forward takes.
  template <class T>
  static constexpr std::size_t scratch_bytes(index_t rows) {
    return plan_bytes([&](ArenaPlan& a) {
      Scratch<T>::allocate(a, rows);
      if constexpr (has_shared) SharedMLP::template Scratch<T>::allocate(a, rows);
    });
  }

  /// x, y [rows, hidden]
  /// \throws Error on other shapes
  template <class T, Device D, AnyView X, AnyView Y>
  static void forward(const D& device, const Prepacked<T>& w, const X& x, const Y& y, Into into, ArenaSlice& arena) {
    require_shape("LatentMoe: x", x, x.extent(0), hidden);
    require_shape("LatentMoe: y", y, x.extent(0), hidden);
    Scope scope(arena);
    const auto s = Scratch<T>::allocate(arena, x.extent(0));
    choose<T>(device, w, x, s);
    w.down.forward(device, x, s.latent_in);
    gather_expert_rows(device, s.sorted, s.latent_in, s.gathered);
    run_experts<T>(device, w, s);
    combine_experts(device, s.sorted, s.results, s.weights, s.routed);
    if constexpr (has_norm) {
      rms_norm_forward<T>(device, w.norm.view(), Config::rms_norm_eps, s.routed, s.normed);
      w.up.forward(device, s.normed, y, into);
    } else {
      w.up.forward(device, s.routed, y, into);
    }
    if constexpr (has_shared) SharedMLP::forward(device, w.shared, x, y, Into::accumulate, arena);
  }

 private:
  template <class T, Device D, AnyView X>
  static void choose(const D& device, const Prepacked<T>& w, const X& x, const Scratch<T>& s) {
    w.router.forward(device, x, s.scores);
    evaluate(device, sigmoid(expr::arg<0>), s.scores, s.scores);
    route<Config>(device, s.scores, w.correction.view(), s.ids, s.weights);
    sort_by_expert(device, s.ids, s.sorted);
  }

  /// Each expert on its own rows.
  template <class T, Device D>
  static void run_experts(const D& device, const Prepacked<T>& w, const Scratch<T>& s) {
    using Parts = GroupedMLPParts<T, PrepackedGroups<T>>;
    grouped_mlp(device, s.sorted.begin, SiTU<Config>::formula(), s.gathered,
                Parts{w.experts_in, w.experts_out, s.gate_up, s.product}, s.results);
  }
};

}  // namespace K3SPEC_NAMESPACE
