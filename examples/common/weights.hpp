#pragma once
/// \file
/// How programs keep the target's weights.
/// defines: add_weights_option, weights_text

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <k3spec/core/unread.hpp>
#include <k3spec/target/forward.hpp>

#include "arguments.hpp"
#include "memory.hpp"

namespace k3spec {

template <>
inline constexpr std::array<std::string_view, 2> names_of<KeepWeights>{"native", "float"};

namespace examples {

inline CLI::Option* add_weights_option(Arguments& arguments, KeepWeights& keep) {
  return arguments.named(
      "--weights", keep,
      "How the target's weights are kept: as narrow as they are stored, or all as floats; the results are "
      "the same");
}

/// "target's weights native, 2.5 MB in memory"
inline std::string weights_text(KeepWeights keep, const TargetBytes& bytes) {
  return fmt::format("target's weights {}, {} in memory", name_of(keep), size_text(bytes.all));
}

}  // namespace examples

}  // namespace k3spec
