#pragma once
/// \file
/// What a program was built for, and, instead of dying of an illegal instruction, a sentence where this is another
/// processor.
/// defines: instruction_set, CpuFeature, needed_cpu_features, require_cpu_features

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/core/error.hpp>

namespace K3SPEC_NAMESPACE {

/// The level that this unit is compiled for, as compilers and loaders name it: "x86-64", "x86-64-v2" to "x86-64-v4",
/// "aarch64"; with "and more" where the compiler may use further instructions, as with -march=native.
constexpr std::string_view instruction_set() {
#define K3SPEC_TEXT_OF(x) #x
#define K3SPEC_TEXT(...) K3SPEC_TEXT_OF(__VA_ARGS__)
  constexpr std::string_view level = K3SPEC_TEXT(K3SPEC_ISA_LEVEL), opened = K3SPEC_TEXT(K3SPEC_NAMESPACE);
#undef K3SPEC_TEXT
#undef K3SPEC_TEXT_OF
  constexpr bool more = !opened.ends_with(level);
  if (level == "x86_64_v4") return more ? "x86-64-v4 and more" : "x86-64-v4";
  if (level == "x86_64_v3") return more ? "x86-64-v3 and more" : "x86-64-v3";
  if (level == "x86_64_v2") return more ? "x86-64-v2 and more" : "x86-64-v2";
  if (level == "x86_64_v1") return more ? "x86-64 and more" : "x86-64";
#if defined(__aarch64__)
  return level == "arm_sve2" ? "aarch64 and SVE2" : level == "arm_sve" ? "aarch64 and SVE" : "aarch64";
#else
  return "no level that has a name here";
#endif
}

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
#if defined(__AVX512CD__)
  K3SPEC_NEEDS("avx512cd");
#endif
#if defined(__AVX512VBMI__)
  K3SPEC_NEEDS("avx512vbmi");
#endif
#if defined(__AVX512VBMI2__)
  K3SPEC_NEEDS("avx512vbmi2");
#endif
#if defined(__AVX512IFMA__)
  K3SPEC_NEEDS("avx512ifma");
#endif
#if defined(__AVX512VNNI__)
  K3SPEC_NEEDS("avx512vnni");
#endif
#if defined(__AVX512BITALG__)
  K3SPEC_NEEDS("avx512bitalg");
#endif
#if defined(__AVX512VPOPCNTDQ__)
  K3SPEC_NEEDS("avx512vpopcntdq");
#endif
#if defined(__AVX512BF16__)
  K3SPEC_NEEDS("avx512bf16");
#endif
#if defined(__GFNI__)
  K3SPEC_NEEDS("gfni");
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
