#pragma once
/// \file
/// The tokens that end a text. A model may have several: one ends a turn, another a document.
/// defines: stop_token_ids

#include <optional>
#include <vector>

#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// eos_token_id and, where the config has them, other_stop_token_ids.
template <class Config>
std::vector<index_t> stop_token_ids() {
  std::vector<index_t> ids;
  if constexpr (Config::eos_token_id.has_value()) ids.push_back(*Config::eos_token_id);
  if constexpr (requires { Config::other_stop_token_ids; }) {
    ids.insert(ids.end(), Config::other_stop_token_ids.begin(), Config::other_stop_token_ids.end());
  }
  return ids;
}

}  // namespace K3SPEC_NAMESPACE
