#pragma once
/// \file
/// Weights and inputs that another program makes alike, in any language, with no file between them: a value is a hash
/// of its tensor's name and of its place. bench/pytorch/hashing.py is the same in Python.
/// defines: bench::hash_name, bench::hash, bench::fill, bench::fill_ids, bench::fill_parameters

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include <k3spec/core/parameters.hpp>

namespace k3spec::bench {

/// Places repeat after so many, so that a tensor of a billion values is made fast.
inline constexpr index_t hash_period = index_t{1} << 22;

/// FNV-1a.
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return h;
}

/// The output of SplitMix64 at place i. (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014)
constexpr std::uint64_t hash(std::uint64_t name, index_t i) {
  std::uint64_t z = name + (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

/// What a tensor's values are spread around, and how far.
struct Spread {
  double centre, width;
};

/// to[i] = centre + width · u, u uniform in [-1, 1) and a multiple of 2^-23.
inline void fill(std::string_view name, Spread spread, float* to, index_t size) {
  const std::uint64_t h = hash_name(name);
  for (index_t i = 0; i < std::min(size, hash_period); ++i) {
    const double u = static_cast<double>(hash(h, i) >> 40) * 0x1p-23 - 1;
    to[i] = static_cast<float>(spread.centre + spread.width * u);
  }
  for (index_t i = hash_period; i < size; i += hash_period) {
    std::copy_n(to, std::min(hash_period, size - i), to + i);
  }
}

/// to[i] in [0, below)
inline void fill_ids(std::string_view name, index_t below, index_t* to, index_t size) {
  const std::uint64_t h = hash_name(name);
  for (index_t i = 0; i < size; ++i) {
    to[i] = static_cast<index_t>((hash(h, i % hash_period) >> 33) % static_cast<std::uint64_t>(below));
  }
}

/// Matrices as wide as keeps the size of what they multiply, norms around 1, biases around 0.
template <class Model>
void fill_parameters(Parameters<Model, float>& parameters) {
  auto w = parameters.mutable_weights();
  Model::visit(w, Path{}, [](const Path& at, auto& view, auto init) {
    Spread spread{detail::init_of(init) == Init::ones ? 1.0 : 0.0, 0.1};
    if constexpr (std::remove_cvref_t<decltype(view)>::rank >= 2) {
      spread.width = std::sqrt(3.0 / static_cast<double>(view.row_size()));
    }
    fill(at.str(), spread, view.data(), view.size());
  });
}

}  // namespace k3spec::bench
