#pragma once
/// \file
/// The layers that a draft reads when nobody names any.
/// defines: default_layers, require_three_layers

#include <string>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>

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

}  // namespace k3spec::examples
