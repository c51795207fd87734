#pragma once
// The source that both units are compiled from, each with a function of its own.

#include <tests/instruction_sets/unit.hpp>
#include <k3spec/backend/cpu/cpu_check.hpp>

namespace {
SeenByUnit seen() {
  // Through a pointer, so that the function that the linker chose is called.
  std::vector<k3spec::CpuFeature> (*volatile needed)() = &k3spec::needed_cpu_features;
  SeenByUnit seen{std::string(k3spec::instruction_set()), {}, reinterpret_cast<const void*>(+needed)};
  for (const k3spec::CpuFeature& feature : needed()) seen.features.emplace_back(feature.name);
  return seen;
}
}  // namespace
