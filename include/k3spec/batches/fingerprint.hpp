#pragma once
/// \file
/// A number that stands for bytes: other bytes have another one. Of bytes that differ within one aligned word of eight
/// surely, else but for a chance of about 2^-64. It tells files that were mixed up, not files that were forged.
/// defines: Fingerprint, fingerprint

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/buffer.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/parameters.hpp>

namespace K3SPEC_NAMESPACE {

/// A number that stands for bytes.
struct Fingerprint {
  std::uint64_t bits = 0;

  /// 16 hexadecimal digits.
  std::string text() const { return fmt::format("{:016x}", bits); }
  bool operator==(const Fingerprint&) const = default;
};

namespace detail {

/// One to one in `h` and in `word`: what two of either have different, the result has too. A product carries nothing
/// down from the highest bits, where numbers have their signs: these are brought down before it, twice, so that no few
/// signs make up for one another.
constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t word) {
  h ^= word;
  h ^= h >> 32U;
  h *= 0x9e3779b97f4a7c15U;
  h ^= h >> 29U;
  return h * 0xbf58476d1ce4e5b9U;
}

/// In four chains, which a processor runs side by side.
inline std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, 4> chains{1, 2, 3, 4}, words{};
  const auto add = [&] {
    for (std::size_t i = 0; i < 4; ++i) chains[i] = mix(chains[i], words[i]);
  };
  std::size_t at = 0;
  for (; at + sizeof(words) <= bytes.size(); at += sizeof(words)) {
    std::memcpy(words.data(), bytes.data() + at, sizeof(words));
    add();
  }
  words = {};
  if (at < bytes.size()) std::memcpy(words.data(), bytes.data() + at, bytes.size() - at);
  add();
  std::uint64_t all = bytes.size();
  for (const std::uint64_t chain : chains) all = mix(all, chain);
  return all;
}

}  // namespace detail

/// The same on any number of threads.
inline Fingerprint fingerprint(const Cpu& cpu, std::span<const std::byte> bytes) {
  constexpr std::size_t block = std::size_t{1} << 20U;
  Buffer<std::uint64_t> hashes(static_cast<index_t>((bytes.size() + block - 1) / block));
  parallel_for(cpu, hashes.size(), [&](index_t b) {
    const std::size_t begin = static_cast<std::size_t>(b) * block;
    hashes[b] = detail::hash_bytes(bytes.subspan(begin, std::min(block, bytes.size() - begin)));
  });
  Fingerprint all;
  for (const std::uint64_t hash : hashes) all.bits = detail::mix(all.bits, hash);
  return all;
}

/// Of a model's parameters, as they are held: in another type they have another one.
template <class Model, class Weights>
Fingerprint fingerprint(const Cpu& cpu, const Weights& weights) {
  Fingerprint all;
  Model::visit(weights, Path{}, [&](const Path&, const auto& view, auto) {
    const auto bytes = std::as_bytes(std::span(view.data(), static_cast<std::size_t>(view.size())));
    all.bits = detail::mix(all.bits, fingerprint(cpu, bytes).bits);
  });
  return all;
}

}  // namespace K3SPEC_NAMESPACE
