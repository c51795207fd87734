#pragma once
/// \file
/// A hash of bytes, the same on every device (ops/byte_hash.hpp).
/// defines: hash_block

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// Bytes that are hashed on their own.
inline constexpr index_t hash_block = index_t{1} << 20U;

namespace detail {

/// One to one in `h` and in `word`: what two of either have different, the result has too. A product carries nothing
/// down from the highest bits, where numbers have their signs: these are brought down before it, twice, so that no few
/// signs make up for one another.
K3SPEC_HOST_DEVICE constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t word) {
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

}  // namespace K3SPEC_NAMESPACE
