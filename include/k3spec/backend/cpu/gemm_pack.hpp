#pragma once
/// \file
/// Bringing the operands of a matrix product into the shape its kernel reads: A as rows of the accumulation type, B as
/// panels of a few packets' width.
/// defines: detail::Operand, detail::pack_across, detail::pack_panel, detail::Workspace

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <string>

#include <k3spec/backend/cpu/gemm_kernel.hpp>
#include <k3spec/backend/cpu/load_as.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/unroll.hpp>
#include <k3spec/core/buffer.hpp>

namespace K3SPEC_NAMESPACE::detail {

/// Element (i, j) is data[i * stride + j], or data[j * stride + i] if transposed.
template <class T>
struct Operand {
  const T* data;
  index_t stride;
  bool transposed;

  const T* at(index_t i, index_t j) const { return transposed ? data + j * stride + i : data + i * stride + j; }
};

/// to [rows, columns rounded up to packets] = from [rows, columns], the rest 0.
template <class S, class T>
void pack_plain(const T* from, index_t stride, index_t rows, index_t columns, S* to, index_t to_stride) {
  constexpr index_t w = Packet<S>::width;
  for (index_t r = 0; r < rows; ++r, from += stride, to += to_stride) {
    for (index_t c = 0; c < columns; c += w) load_as<S>(from + c, columns - c).store(to + c);
  }
}

/// to [width, width] = from [width, width] transposed.
template <class S, class T>
void transpose_square(const T* from, index_t stride, S* to, index_t to_stride) {
  constexpr auto w = static_cast<std::size_t>(Packet<S>::width);
  std::array<Packet<S>, w> square;
  unroll<w>([&](auto i) { square[i] = load_as<S>(from + static_cast<index_t>(i()) * stride, Packet<S>::width); });
  transpose(square);
  unroll<w>([&](auto i) { square[i].store(to + static_cast<index_t>(i()) * to_stride); });
}

/// The same where only the first `rows` by `columns` elements are there; to [columns, width], 0 past the rows.
template <class S, class T>
void transpose_edge(const T* from, index_t stride, index_t rows, index_t columns, S* to, index_t to_stride) {
  for (index_t j = 0; j < columns; ++j) {
    for (index_t i = 0; i < Packet<S>::width; ++i) {
      to[j * to_stride + i] = i < rows ? static_cast<S>(from[i * stride + j]) : S{0};
    }
  }
}

/// to [columns, rows rounded up to packets] = from [rows, columns] transposed, the rest 0.
template <class S, class T>
void pack_transposed(const T* from, index_t stride, index_t rows, index_t columns, S* to, index_t to_stride) {
  constexpr index_t w = Packet<S>::width;
  for (index_t r = 0; r < rows; r += w) {
    for (index_t c = 0; c < columns; c += w) {
      const T* in = from + r * stride + c;
      S* out = to + c * to_stride + r;
      if (rows - r >= w && columns - c >= w) {
        transpose_square(in, stride, out, to_stride);
      } else {
        transpose_edge(in, stride, std::min(w, rows - r), std::min(w, columns - c), out, to_stride);
      }
    }
  }
}

/// A packed tile of a transposed A has room for so many rows.
inline constexpr index_t across_rows = 8;

/// A transposed A, `from` [kc, rows], cut into tiles of rows: element (r, p) of a tile is at to[p * across_rows + r],
/// and the next tile `next` elements on. Only what is past a tile's rows is undefined.
template <class S, class T>
void pack_across(const T* from, index_t stride, const Pieces& tiles, index_t kc, S* to, index_t next) {
  static_assert(tile_rows <= across_rows);
  constexpr index_t w = std::min(Packet<S>::width, across_rows), reach = ceil_div(tile_rows, w) * w;
  const index_t rows = tiles.begin(tiles.count);
  index_t whole = tiles.count;  // tiles behind which there is enough to read
  while (whole > 0 && tiles.begin(whole - 1) + reach > rows) --whole;
  for (index_t p = 0; p < kc; ++p, from += stride, to += across_rows) {
    const T* in = from;
    S* out = to;
    for (index_t t = 0; t < whole; in += tiles.length(t), out += next, ++t) {
      for (index_t i = 0; i < reach; i += w) load_as<S>(in + i, w).store_first(out + i, w);
    }
    for (index_t t = whole; t < tiles.count; in += tiles.length(t), out += next, ++t) {
      for (index_t i = 0; i < tiles.length(t); i += w)
        load_as<S>(in + i, std::min(w, tiles.length(t) - i)).store_first(out + i, w);
    }
  }
}

/// to [kc, width] = B[k.., j..] of kc by `columns`; width is `columns` rounded up to packets.
template <class S, class T>
void pack_panel(const Operand<T>& b, index_t k, index_t kc, index_t j, index_t columns, S* to, index_t width) {
  if (b.transposed) {
    pack_transposed(b.at(k, j), b.stride, columns, kc, to, width);
  } else {
    pack_plain(b.at(k, j), b.stride, kc, columns, to, width);
  }
}

/// Memory of the calling thread for packed operands. It grows to the largest product seen and is then only reused.
/// Which thread of a loop sees which product hangs on the machine's load: so this memory is no part of what a step
/// allocates, and not from operator new, whose calls are counted.
class Workspace {
 public:
  /// \returns `count` elements, 64-byte aligned, contents undefined, valid until the next call on this thread
  /// \throws Error when there is no such memory
  template <class S>
  static S* reserve(index_t count) {
    thread_local Workspace own;
    const std::size_t bytes = aligned(static_cast<std::size_t>(count) * sizeof(S));
    if (own.size_ < bytes) own.grow(bytes);
    return reinterpret_cast<S*>(own.memory_);
  }

  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

 private:
  Workspace() = default;
  ~Workspace() { std::free(memory_); }

  void grow(std::size_t bytes) {
    std::free(memory_);
    size_ = 0;
    memory_ = static_cast<std::byte*>(std::aligned_alloc(alignment, bytes));
    if (memory_ == nullptr) throw Error("workspace: memory", "none left", std::to_string(bytes) + " bytes");
    size_ = bytes;
  }

  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace K3SPEC_NAMESPACE::detail
