#pragma once
/// \file
/// A target's config.json, as published ones are, of a config.
/// defines: test::target_json

#include <algorithm>

#include <k3spec/io/config_json.hpp>

namespace k3spec::test {

template <class Config>
io::json target_json() {
  io::json root;
  visit_target_fields<Config>(
      [&](const char* name, const auto& value) { io::detail::set_field(root, name, io::detail::field_value(value)); });
  std::vector<index_t> kda;
  for (index_t i = 1; i <= Config::num_hidden_layers; ++i) {
    const auto& full = Config::full_attn_layers;
    if (std::find(full.begin(), full.end(), i) == full.end()) kda.push_back(i);
  }
  io::detail::set_field(root, "linear_attn_config.kda_layers", kda);
  root["architectures"] = io::json::array({"KimiK3ForCausalLM"});
  root["model_type"] = "kimi_linear";
  root["hidden_act"] = "situ";
  if (!Config::other_stop_token_ids.empty()) {
    std::vector<index_t> stops{Config::eos_token_id.value_or(0)};
    stops.insert(stops.end(), Config::other_stop_token_ids.begin(), Config::other_stop_token_ids.end());
    root["eos_token_id"] = stops;
  }
  if (Config::media_token_id) root["media_placeholder_token_id"] = *Config::media_token_id;
  return root;
}

}  // namespace k3spec::test
