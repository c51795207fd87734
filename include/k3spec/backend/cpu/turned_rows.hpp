#pragma once
/// \file
/// Rows as columns: what a panel of weights is to rows of a matrix as a file has them.
/// defines: detail::turn_words, detail::turn_bytes

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <k3spec/backend/cpu/gemm_kernel.hpp>

namespace K3SPEC_NAMESPACE::detail {

/// Word i of row j becomes word j of row to(i).
/// \param from   [width, words] 32-bit words, rows `stride` bytes apart, anywhere
/// \param width  whole packets
template <class To>
void turn_words(const std::uint8_t* from, index_t stride, index_t words, index_t width, To&& to) {
  using P = Packet<float>;
  const index_t squares = words / P::width * P::width;
  for (index_t i = 0; i < squares; i += P::width) {
    for (index_t j = 0; j < width; j += P::width) {
      std::array<P, static_cast<std::size_t>(P::width)> square;
      const std::uint8_t* row = from + j * stride + 4 * i;
      for (P& p : square) p = P::load(reinterpret_cast<const float*>(row)), row += stride;
      transpose(square);
      for (index_t p = 0; p < P::width; ++p) {
        square[static_cast<std::size_t>(p)].store(reinterpret_cast<float*>(to(i + p)) + j);
      }
    }
  }
  for (index_t i = squares; i < words; ++i) {
    auto* row = to(i);
    for (index_t j = 0; j < width; ++j) std::memcpy(row + 4 * j, from + j * stride + 4 * i, 4);
  }
}

/// Byte i of row j becomes byte j of row to(i), in which bytes [rows, width) become 0.
/// \param from   [rows, bytes]  \param width  whole packets, at most tile_vectors
template <class To>
void turn_bytes(const std::uint8_t* from, index_t rows, index_t bytes, index_t width, To&& to) {
  constexpr index_t lanes = Packet<float>::width;
  std::array<std::uint32_t, static_cast<std::size_t>(tile_vectors * lanes)> words{};
  for (index_t i = 0; i < bytes; i += 4) {  // four bytes of each row at a time
    const index_t count = std::min<index_t>(4, bytes - i);
    if (count == 4) {
      for (index_t j = 0; j < rows; ++j) std::memcpy(words.data() + j, from + j * bytes + i, 4);
    } else {
      for (index_t j = 0; j < rows; ++j) {
        std::memcpy(words.data() + j, from + j * bytes + i, static_cast<std::size_t>(count));
      }
    }
    for (index_t b = 0; b < count; ++b) {
      std::uint8_t* row = to(i + b);
      for (index_t j = 0; j < width; j += lanes) {
        std::array<std::uint8_t, static_cast<std::size_t>(lanes)> packet;
        const std::uint32_t* word = words.data() + j;
        for (std::uint8_t& x : packet) x = static_cast<std::uint8_t>(*word++ >> (8 * b));
        std::memcpy(row + j, packet.data(), packet.size());
      }
    }
  }
}

}  // namespace K3SPEC_NAMESPACE::detail
