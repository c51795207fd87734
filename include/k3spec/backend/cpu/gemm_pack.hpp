#pragma once
/// \file
/// Bringing the operands of a matrix product into the shape its kernel reads: A as rows of the accumulation type, B as
/// panels of a few packets' width.
/// defines: detail::Operand, detail::pack_rows, detail::pack_panel, detail::Workspace

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

/// to [rows, to_stride] = A[i.., k..] of `rows` by kc; to_stride >= kc rounded up to packets.
template <class S, class T>
void pack_rows(const Operand<T>& a, index_t i, index_t rows, index_t k, index_t kc, S* to, index_t to_stride) {
  if (a.transposed) {
    pack_transposed(a.at(i, k), a.stride, kc, rows, to, to_stride);
  } else {
    pack_plain(a.at(i, k), a.stride, rows, kc, to, to_stride);
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
