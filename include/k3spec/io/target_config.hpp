#pragma once
/// \file
/// A target's config.json, written.
/// defines: io::target_config_json

#include <algorithm>
#include <vector>

#include <k3spec/config/check.hpp>
#include <k3spec/config/fields.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/io/field_comparison.hpp>

namespace K3SPEC_NAMESPACE::io {

namespace detail {

/// The one-based layers that are none of full_attn_layers.
template <class Config>
std::vector<index_t> kda_layers() {
  const auto& full = Config::full_attn_layers;
  std::vector<index_t> layers;
  for (index_t i = 1; i <= Config::num_hidden_layers; ++i) {
    if (std::find(std::begin(full), std::end(full), i) == std::end(full)) layers.push_back(i);
  }
  return layers;
}

}  // namespace detail

/// config.json of a target, flat. check_target_config<Config> of it finds nothing.
/// \param dtype  how its parameters are stored, but for those that are never rounded: F64, F32 or BF16
template <class Config>
json target_config_json(DType dtype) {
  [[maybe_unused]] constexpr CheckedTarget<Config> checked{};
  json root;
  visit_target_fields<Config>(
      [&](const char* name, const auto& value) { detail::set_field(root, name, detail::field_value(value)); });
  detail::set_field(root, "linear_attn_config.kda_layers", detail::kda_layers<Config>());
  root["architectures"] = {"KimiK3ForCausalLM"};
  root["model_type"] = "kimi_linear";
  root["hidden_act"] = "situ";
  root["tie_word_embeddings"] = false;
  root["dtype"] = dtype == DType::F64 ? "float64" : dtype == DType::F32 ? "float32" : "bfloat16";
  return root;
}

}  // namespace K3SPEC_NAMESPACE::io
