#pragma once
/// \file
/// The tensors of a target whose type does not exist yet, by the members that it will have: the names and sizes that
/// K3Target's visit gives (tests/emitted holds the two against each other).
/// defines: io::detail::walk_target_tensors

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <k3spec/io/config_members.hpp>

namespace K3SPEC_NAMESPACE::io::detail {

/// Members as numbers; what is none is 0.
struct TargetNumbers {
  const ConfigMembers& members;

  std::uint64_t operator()(std::string_view name) const {
    return static_cast<std::uint64_t>(members.number(name).value_or(0));
  }
  bool is_true(std::string_view name) const { return members.find(name) == true; }
};

template <class F>
void walk_mla(const TargetNumbers& n, const std::string& at, F&& f) {
  const std::uint64_t hidden = n("hidden_size"), heads = n("num_attention_heads"), q = n("q_lora_rank");
  const std::uint64_t nope = n("qk_nope_head_dim"), rope = n("qk_rope_head_dim"), latent = n("kv_lora_rank");
  const std::uint64_t values = heads * n("v_head_dim"), queries = heads * (nope + rope);
  if (q > 0) {
    f(at + "q_a_proj.weight", q * hidden);
    f(at + "q_a_layernorm.weight", q);
    f(at + "q_b_proj.weight", queries * q);
  } else {
    f(at + "q_proj.weight", queries * hidden);
  }
  f(at + "kv_a_proj_with_mqa.weight", (latent + rope) * hidden);
  f(at + "kv_a_layernorm.weight", latent);
  f(at + "kv_b_proj.weight", (heads * nope + values) * latent);
  if (n.is_true("mla_use_output_gate")) f(at + "g_proj.weight", values * hidden);
  f(at + "o_proj.weight", hidden * values);
}

template <class F>
void walk_kda(const TargetNumbers& n, const std::string& at, F&& f) {
  const std::uint64_t hidden = n("hidden_size"), heads = n("kda_num_heads"), dim = n("kda_head_dim");
  const std::uint64_t width = heads * dim;
  for (const char* of : {"q", "k", "v"}) {
    f(at + of + "_proj.weight", width * hidden);
    f(at + of + "_conv1d.weight", width * n("kda_conv_size"));
  }
  f(at + "f_a_proj.weight", dim * hidden);
  f(at + "f_b_proj.weight", width * dim);
  f(at + "b_proj.weight", heads * hidden);
  if (n.is_true("kda_use_full_rank_gate")) {
    f(at + "g_proj.weight", width * hidden);
  } else {
    f(at + "g_a_proj.weight", dim * hidden);
    f(at + "g_b_proj.weight", width * dim);
  }
  f(at + "o_proj.weight", hidden * width);
  f(at + "A_log", heads);
  f(at + "dt_bias", width);
  f(at + "o_norm.weight", dim);
}

template <class F>
void walk_mlp(const std::string& at, std::uint64_t hidden, std::uint64_t inner, F&& f) {
  for (const char* of : {"gate", "up", "down"}) f(at + of + "_proj.weight", hidden * inner);
}

template <class F>
void walk_moe(const TargetNumbers& n, const std::string& at, F&& f) {
  const std::uint64_t hidden = n("hidden_size"), latent = n("routed_expert_hidden_size");
  const std::uint64_t inner = n("moe_intermediate_size"), experts = n("num_experts"), shared = n("num_shared_experts");
  f(at + "gate.weight", experts * hidden);
  f(at + "gate.e_score_correction_bias", experts);
  f(at + "routed_expert_down_proj.weight", latent * hidden);
  f(at + "routed_expert_up_proj.weight", hidden * latent);
  if (n.is_true("latent_moe_use_norm")) f(at + "routed_expert_norm.weight", latent);
  for (std::uint64_t e = 0; e < experts; ++e) {
    const std::string expert = at + "experts." + std::to_string(e) + ".";
    for (const char* of : {"w1", "w2", "w3"}) f(expert + of + ".weight", latent * inner);
  }
  if (shared > 0) walk_mlp(at + "shared_experts.", hidden, inner * shared, f);
}

/// A layer, counted from 0.
template <class F>
void walk_layer(const TargetNumbers& n, std::uint64_t layer, F&& f) {
  const std::uint64_t hidden = n("hidden_size");
  const std::string at = "model.layers." + std::to_string(layer) + ".";
  if (n("attn_res_block_size") > 0) {
    for (const char* of : {"self_attention", "mlp"}) {
      f(at + of + "_res_norm.weight", hidden);
      f(at + of + "_res_proj.weight", hidden);
    }
  }
  f(at + "input_layernorm.weight", hidden);
  f(at + "post_attention_layernorm.weight", hidden);
  const json full = n.members.find("full_attn_layers");
  if (std::find(full.begin(), full.end(), json(layer + 1)) != full.end()) {
    walk_mla(n, at + "self_attn.", f);
  } else {
    walk_kda(n, at + "self_attn.", f);
  }
  if (layer >= n("first_k_dense_replace") && layer % std::max<std::uint64_t>(1, n("moe_layer_freq")) == 0) {
    walk_moe(n, at + "block_sparse_moe.", f);
  } else {
    walk_mlp(at + "mlp.", hidden, n("intermediate_size"), f);
  }
}

/// `f(name, numbers)` for each tensor of a target.
template <class F>
void walk_target_tensors(const ConfigMembers& members, F&& f) {
  const TargetNumbers n{members};
  const std::uint64_t hidden = n("hidden_size"), table = n("vocab_size") * hidden;
  f(std::string("model.embed_tokens.weight"), table);
  for (std::uint64_t layer = 0; layer < n("num_hidden_layers"); ++layer) walk_layer(n, layer, f);
  if (n("attn_res_block_size") > 0) {
    f(std::string("model.output_attn_res_norm.weight"), hidden);
    f(std::string("model.output_attn_res_proj.weight"), hidden);
  }
  f(std::string("model.norm.weight"), hidden);
  f(std::string("lm_head.weight"), table);
}

}  // namespace K3SPEC_NAMESPACE::io::detail
