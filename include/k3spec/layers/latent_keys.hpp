#pragma once
/// \file
/// Keys and values of multi-head latent attention: [c, k_rope] = W_kva x, [k_nope, v] = W_kvb RMS(c). Rows without
/// queries, the context of a block draft, need no more of the layer.
/// defines: LatentKeys

#include <k3spec/backend/attention_problem.hpp>
#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/layers/linear.hpp>
#include <k3spec/ops/copy.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
/// Width of the attention's input: the config's attention_input_size if it has one, else its hidden size.
template <class Config>
constexpr index_t attention_input_size() {
  if constexpr (requires { Config::attention_input_size; }) {
    return Config::attention_input_size;
  } else {
    return Config::hidden_size;
  }
}
}  // namespace detail

/// W below is the attention's weights, of which kv_a_proj_with_mqa, kv_a_layernorm and kv_b_proj are read.
template <class Config>
struct LatentKeys {
  static constexpr index_t input = detail::attention_input_size<Config>();
  static constexpr index_t heads = Config::num_attention_heads;
  static constexpr index_t nope = Config::qk_nope_head_dim, rope = Config::qk_rope_head_dim;
  static constexpr index_t v_dim = Config::v_head_dim, kv_lora = Config::kv_lora_rank;
  using KvA = Linear<input, kv_lora + rope>;
  using KvNorm = KimiRMSNorm<kv_lora>;
  using KvB = Linear<kv_lora, heads*(nope + v_dim)>;

  /// Keys and values of some rows, as far as backward needs them.
  template <class T>
  struct Keys {
    Rows<T, kv_lora + rope> kv_a;      // [c ‖ k_rope]
    Rows<T, kv_lora> kv_latent;        // RMS(c)
    Rows<T, heads*(nope + v_dim)> kv;  // heads of [k_nope ‖ v]

    template <Allocator A>
    static constexpr Keys allocate(A& a, index_t rows) {
      Keys k;
      take_rows(a, rows, k.kv_a), take_rows(a, rows, k.kv_latent), take_rows(a, rows, k.kv);
      return k;
    }

    /// [rows, kv_lora] and [rows, rope] of kv_a.
    auto latent() const { return kv_a.template columns<0, kv_lora>(); }
    auto k_rope() const { return kv_a.template columns<kv_lora, rope>(); }
  };

  // Each throws Error on other shapes, and on keys of other rows than they were allocated for.

  /// x [rows, input] -> keys; all that rows without queries need
  template <class T, Device D, class W, AnyView X>
  static void project_keys(const D& device, const W& w, const X& x, const Keys<T>& k) {
    project_latents<T>(device, w, x, k);
    expand_latents(device, w, k.kv_latent, k.kv);
  }

  /// x [rows, input] -> keys.kv_a, kv_latent: what a cache holds of a row is kv_latent and k_rope
  template <class T, Device D, class W, AnyView X>
  static void project_latents(const D& device, const W& w, const X& x, const Keys<T>& k) {
    require_shape("MLA: x", x, k.kv_a.extent(0), input);
    require_rows("MLA: kv_latent", k.kv_latent, k.kv_a.extent(0));
    KvA::forward(device, w.kv_a_proj_with_mqa, x, k.kv_a);
    KvNorm::forward(device, w.kv_a_layernorm, Config::mla_norm_eps, k.latent(), k.kv_latent);
  }

  /// kv_latent [rows, kv_lora] -> kv [rows, heads·(nope+v)]
  template <Device D, class W, AnyView L, AnyView KV>
  static void expand_latents(const D& device, const W& w, const L& kv_latent, const KV& kv) {
    require_shape("MLA: kv_latent", kv_latent, kv_latent.extent(0), kv_lora);
    require_shape("MLA: kv", kv, kv_latent.extent(0), heads * (nope + v_dim));
    KvB::forward(device, w.kv_b_proj, kv_latent, kv);
  }

  /// The share of keys alone.
  /// \param d_keys  d_kv [rows, heads·(nope+v)] and d_k_rope [rows, rope]
  template <class T, Device D, class W, class DW, AnyView X>
  static void keys_backward(const Workspace<D>& on, const W& w, const DW& d_w, const X& x, const Keys<T>& k,
                            const AttentionKeys<const accumulate_t<T>>& d_keys,
                            const Destination<accumulate_t<T>>& d_x) {
    using S = accumulate_t<T>;
    const index_t rows = k.kv_a.extent(0);
    require_shape("MLA: x", x, rows, input);
    require_shape("MLA: d_kv", d_keys.kv, rows, heads * (nope + v_dim));
    require_shape("MLA: d_k_rope", d_keys.k_rope, rows, rope);
    d_x.check("MLA: d_x", rows, input);
    Scope scope(on.scratch);
    Rows<S, kv_lora> d_latent;
    Rows<S, kv_lora + rope> d_kv_a;
    take_rows(on.scratch, x.extent(0), d_latent), take_rows(on.scratch, x.extent(0), d_kv_a);
    KvB::template backward<T>(on.device, w.kv_b_proj, d_w.kv_b_proj, k.kv_latent, d_keys.kv, d_latent);
    KvNorm::template backward<T>(on, w.kv_a_layernorm, d_w.kv_a_layernorm, Config::mla_norm_eps, k.latent(), d_latent,
                                 d_kv_a.template columns<0, kv_lora>());
    copy(on.device, d_keys.k_rope, d_kv_a.template columns<kv_lora, rope>());
    KvA::template backward<T>(on.device, w.kv_a_proj_with_mqa, d_w.kv_a_proj_with_mqa, x, d_kv_a, d_x);
  }

  /// Bytes of scratch that keys_backward takes.
  template <class T>
  static constexpr std::size_t keys_scratch_bytes(index_t rows) {
    return plan_bytes([&](ArenaPlan& a) {
      a.take<accumulate_t<T>>(rows * kv_lora), a.take<accumulate_t<T>>(rows * (kv_lora + rope));
      a.borrow(KvNorm::template scratch_bytes<T>(rows));
    });
  }
};

}  // namespace K3SPEC_NAMESPACE
