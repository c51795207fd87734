#pragma once
/// \file
/// The layers that a draft reads when nobody names any.
/// defines: default_layers, require_three_layers, default_layers_of

#include <string>
#include <vector>

#include <k3spec/config/conventions.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>

#include "../common/draft_types.hpp"

namespace k3spec::examples {

/// What `defaults()` gives, or says there cannot be.
template <class F>
std::vector<index_t> default_layers(F&& defaults) {
  try {
    return defaults();
  } catch (const Error& e) {
    throw Error("--layers", "nothing, and " + e.subject() + " " + e.found(), e.wanted());
  }
}

/// Where three layers are the default ones: the draft must read as many.
inline void require_three_layers(const char* field, index_t count) {
  require(count == 3, field, std::to_string(count), "3, which alone has default ones, or the layer ids to be given");
}

/// Those of a draft's type, counted from 0.
/// \param all  layers of the target
template <class Config>
std::vector<index_t> default_layers_of(index_t all) {
  constexpr DraftKind kind = draft_kind_of<Config>();
  if constexpr (kind == DraftKind::eagle3) {
    require_three_layers("num_aux_hidden_states", Config::num_aux_hidden_states);
    return default_aux_layer_ids(all);
  } else if constexpr (kind == DraftKind::dflash) {
    return default_target_layer_ids(all, Config::num_target_layers);
  } else {
    require_three_layers("num_target_layers", Config::num_target_layers);
    // The embedding, the middle, and the state that the target's head reads.
    return {-1, all / 2 - 1, all - 1};
  }
}

}  // namespace k3spec::examples
