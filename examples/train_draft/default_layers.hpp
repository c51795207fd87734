#pragma once
/// \file
/// The layers that a draft reads when nobody names any.
/// defines: default_layers

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

}  // namespace k3spec::examples
