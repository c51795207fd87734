#pragma once
/// \file
/// Says in a sentence, instead of dying of an illegal instruction, that a program was built for another processor.
/// defines: CpuFeature, needed_cpu_features, require_cpu_features

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/core/error.hpp>

namespace K3SPEC_NAMESPACE {

/// An instruction set extension that this program was compiled to use, and whether this processor has it.
struct CpuFeature {
  std::string_view name;
  bool present;
};

/// The extensions that the compiler was allowed to use (K3SPEC_MARCH). Empty on processors other than x86.
inline std::vector<CpuFeature> needed_cpu_features() {
  std::vector<CpuFeature> needed;
// The builtin takes literals only, hence a macro; these #ifs ask what the compiler may use, not what k3spec offers.
#define K3SPEC_NEEDS(feature) needed.push_back({feature, __builtin_cpu_supports(feature) != 0})
#if defined(__AVX2__)
  K3SPEC_NEEDS("avx2");
#endif
#if defined(__FMA__)
  K3SPEC_NEEDS("fma");
#endif
#if defined(__BMI2__)
  K3SPEC_NEEDS("bmi2");
#endif
#if defined(__AVX512F__)
  K3SPEC_NEEDS("avx512f");
#endif
#if defined(__AVX512BW__)
  K3SPEC_NEEDS("avx512bw");
#endif
#if defined(__AVX512DQ__)
  K3SPEC_NEEDS("avx512dq");
#endif
#if defined(__AVX512VL__)
  K3SPEC_NEEDS("avx512vl");
#endif
#undef K3SPEC_NEEDS
  return needed;
}

/// Refuses a processor that lacks what the program was compiled for.
/// \throws Error naming the features that are not present
inline void require_cpu_features(std::span<const CpuFeature> needed) {
  std::string missing, all;
  for (const auto& [name, present] : needed) {
    all.append(all.empty() ? "" : ", ").append(name);
    if (!present) missing.append(missing.empty() ? "no " : ", no ").append(name);
  }
  if (missing.empty()) return;
  throw Error("processor", missing, all + ", which this program was built for (K3SPEC_MARCH chooses)");
}

/// Call it first in main: the compiler may use the instructions anywhere after.
/// \throws Error when this processor cannot run this program
inline void require_cpu_features() { require_cpu_features(needed_cpu_features()); }

}  // namespace K3SPEC_NAMESPACE
