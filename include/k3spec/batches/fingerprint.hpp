#pragma once
/// \file
/// A number that stands for bytes: other bytes have another one. Of bytes that differ within one aligned word of eight
/// surely, else but for a chance of about 2^-64. It tells files that were mixed up, not files that were forged.
/// defines: Fingerprint, fingerprint

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <k3spec/core/format.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/ops/byte_hash.hpp>

namespace K3SPEC_NAMESPACE {

/// A number that stands for bytes.
struct Fingerprint {
  std::uint64_t bits = 0;

  /// 16 hexadecimal digits.
  std::string text() const { return fmt::format("{:016x}", bits); }
  bool operator==(const Fingerprint&) const = default;
};

/// Of bytes in a device's memory: the same on every device and any number of threads.
/// \param before  of the bytes that come before these, whole blocks of them (hash_block)
template <Device D>
Fingerprint fingerprint(const D& device, std::span<const element_t<D, std::byte>> bytes, Fingerprint before = {}) {
  const auto size = static_cast<index_t>(bytes.size()), blocks = (size + hash_block - 1) / hash_block;
  Mirror<D> memory(device, aligned(static_cast<std::size_t>(blocks) * sizeof(std::uint64_t)));
  const auto hashes = memory.template take<std::uint64_t>(blocks);
  hash_blocks(device, Vector<const element_t<D, std::byte>>(bytes.data(), size), hashes.device);
  memory.download(device);
  Fingerprint all = before;
  for (index_t b = 0; b < blocks; ++b) all.bits = detail::mix(all.bits, hashes.host(b));
  return all;
}

/// Of a model's parameters in a device's memory, as they are held: in another type they have another one.
template <class Model, Device D, class Weights>
Fingerprint fingerprint(const D& device, const Weights& weights) {
  using Byte = const element_t<D, std::byte>;
  Fingerprint all;
  Model::visit(weights, Path{}, [&](const Path&, const auto& view, auto) {
    const std::size_t bytes = static_cast<std::size_t>(view.size()) * sizeof(*view.data());
    all.bits = detail::mix(all.bits, fingerprint(device, {reinterpret_cast<Byte*>(view.data()), bytes}).bits);
  });
  return all;
}

}  // namespace K3SPEC_NAMESPACE
