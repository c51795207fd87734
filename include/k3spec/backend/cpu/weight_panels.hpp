#pragma once
/// \file
/// How prepacked weights lie in memory: panels of columns (detail::Panels) one behind the other, without gaps, each as
/// rows of `width` columns:
/// ```text
/// full      [K] rows of numbers
/// bfloat16  [K/2, rounded up] rows of words: an even k in the lower halves, the odd one behind it in the upper
/// mxfp4     [K/32] blocks: a row of bytes, the scales, and [4] rows of words, eight k from the lowest bits up
/// ```
/// defines: detail::column_bytes, detail::PrepackedPanels

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <k3spec/backend/cpu/gemm_kernel.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/backend/cpu/turned_rows.hpp>
#include <k3spec/backend/cpu/weight_format.hpp>
#include <k3spec/core/buffer.hpp>

namespace K3SPEC_NAMESPACE::detail {

/// What k weights of a column take.
template <class S>
constexpr index_t column_bytes(WeightFormat format, index_t k) {
  switch (format) {
    case WeightFormat::full:
      return k * static_cast<index_t>(sizeof(S));
    case WeightFormat::bfloat16:
      return ceil_div(k, 2) * 4;
    case WeightFormat::mxfp4:
      return k / mxfp4_block * (mxfp4_block / 2 + 1);
  }
  return 0;
}

/// Panels of W [N,K]. N is rounded up to whole packets.
template <class S>
struct PrepackedPanels {
  WeightFormat format;
  index_t outputs, inputs;

  constexpr index_t bytes() const { return padded() * column_bytes<S>(format, inputs); }

  /// \param w  W [N,K]  \param to  bytes() bytes, all 0
  template <class W>
  void fill(const W& w, std::byte* to) const {
    const Panels<S> panels(outputs);
    for (index_t q = 0; q < panels.count; ++q) {
      const index_t begin = panels.begin(q);
      for (index_t j = 0; j < std::min(panels.width(q), outputs - begin); ++j) {
        set_column(w.row(begin + j), to + begin * column_bytes<S>(format, inputs), panels.width(q), j);
      }
    }
  }

  /// The same from MXFP4's own bits, W not being there as numbers. Scales stay as they are.
  /// \param scales   [N, K/32]  \param nibbles  (first, count, to [count, K/2]) reads rows, the even k in lower halves
  /// \param to       bytes() bytes, which may hold anything
  template <class F>
  void fill_mxfp4(const Cpu& cpu, const std::uint8_t* scales, const F& nibbles, std::byte* to) const {
    const index_t blocks = inputs / mxfp4_block;
    each_panel(cpu, inputs / 2, nibbles, to, [&](const Turned& p) {
      const index_t block = p.width * column_bytes<S>(format, mxfp4_block);
      turn_bytes(scales + p.begin * blocks, p.count, blocks, p.width, [&](index_t i) { return p.to + i * block; });
      turn_words(p.rows, inputs / 2, 4 * blocks, p.width,
                 [&](index_t i) { return p.to + i / 4 * block + p.width + i % 4 * 4 * p.width; });
    });
  }

  /// The same from bfloat16. \param read  (first, count, to [count, K] of two bytes) reads rows
  template <class F>
  void fill_bfloat16(const Cpu& cpu, const F& read, std::byte* to) const {
    each_panel(cpu, 2 * inputs, read, to, [&](const Turned& p) {
      const auto row = [&](index_t i) { return p.to + 4 * i * p.width; };
      turn_words(p.rows, 2 * inputs, inputs / 2, p.width, row);
      if (inputs % 2 == 0) return;
      std::memset(row(inputs / 2), 0, static_cast<std::size_t>(4 * p.width));
      for (index_t j = 0; j < p.width; ++j) {
        std::memcpy(row(inputs / 2) + 4 * j, p.rows + 2 * ((j + 1) * inputs - 1), 2);
      }
    });
  }

  /// Rows from k on, an even number or one of whole blocks, of the panel that begins with a column.
  PanelView<S> view(const std::byte* memory, index_t begin, index_t width, index_t k) const {
    const index_t column = column_bytes<S>(format, inputs);
    return {memory + begin * column + width * column_bytes<S>(format, k), width, format, width * column};
  }

 private:
  constexpr index_t padded() const { return ceil_div(outputs, Packet<S>::width) * Packet<S>::width; }

  /// A panel to be made, of the columns [begin, begin + count).
  struct Turned {
    index_t begin, count, width;
    const std::uint8_t* rows;  ///< [width, ...] what is read of them, 0 past `count`
    std::uint8_t* to;
  };

  /// Calls make(panel) for each panel, on all threads. \param row  bytes that `read` reads of a column
  template <class Read, class Make>
  void each_panel(const Cpu& cpu, index_t row, const Read& read, std::byte* to, const Make& make) const {
    const Panels<S> panels(outputs);
    const Pieces parts(panels.count, std::clamp<index_t>(4 * cpu.threads, 1, std::max<index_t>(panels.count, 1)));
    parallel_for(cpu, parts.count, [&](index_t part) {
      Buffer<std::uint8_t> rows(uninitialized, panels.width(0) * row);
      for (index_t q = parts.begin(part); q < parts.begin(part + 1); ++q) {
        const index_t begin = panels.begin(q), width = panels.width(q), count = std::min(width, outputs - begin);
        read(begin, count, rows.data());
        std::fill(rows.data() + count * row, rows.data() + width * row, std::uint8_t{0});
        std::byte* const panel = to + begin * column_bytes<S>(format, inputs);
        make(Turned{begin, count, width, rows.data(), reinterpret_cast<std::uint8_t*>(panel)});
      }
    });
  }

  /// Column j of a panel.
  template <class T>
  void set_column(const T* row, std::byte* panel, index_t width, index_t j) const {
    if constexpr (std::same_as<S, float>) {
      if (format == WeightFormat::mxfp4) return set_nibbles(row, reinterpret_cast<std::uint8_t*>(panel), width, j);
      if (format == WeightFormat::bfloat16) return set_halves(row, reinterpret_cast<std::uint32_t*>(panel), width, j);
    }
    S* to = reinterpret_cast<S*>(panel);
    for (index_t k = 0; k < inputs; ++k) to[k * width + j] = static_cast<S>(row[k]);
  }

  template <class T>
  void set_halves(const T* row, std::uint32_t* to, index_t width, index_t j) const {
    for (index_t k = 0; k < inputs; ++k) {
      const std::uint32_t half = std::bit_cast<std::uint32_t>(static_cast<float>(row[k])) >> 16U;
      to[k / 2 * width + j] |= half << (k % 2 == 0 ? 0U : 16U);
    }
  }

  template <class T>
  void set_nibbles(const T* row, std::uint8_t* to, index_t width, index_t j) const {
    for (index_t k = 0; k < inputs; k += mxfp4_block, to += width * (mxfp4_block / 2 + 1)) {
      const auto block = mxfp4_block_of(row + k);
      to[j] = mxfp4_scale_of(block.data());
      auto* words = reinterpret_cast<std::uint32_t*>(to + width);
      for (std::size_t i = 0; i < block.size(); ++i) {
        words[static_cast<index_t>(i / 8) * width + j] |= mxfp4_nibble(block[i], to[j]) << (4 * (i % 8));
      }
    }
  }
};

/// to [kc, width] = kc rows of a panel of V packets as numbers.
template <WeightFormat F, class S, std::size_t V>
void expand_panel(index_t kc, const PanelView<S>& from, S* to) {
  constexpr index_t width = static_cast<index_t>(V) * Packet<S>::width;
  PanelRows<F, Reach::memory, S, V, 1>::each(kc, from, [&](index_t p, const std::array<Packet<S>, V>& y) {
    unroll<V>([&](auto v) { y[v].store(to + p * width + static_cast<index_t>(v()) * Packet<S>::width); });
  });
}

/// The same for 1 to tile_vectors packets.
template <WeightFormat F, class S>
void expand_panel(index_t kc, const PanelView<S>& from, S* to) {
  unroll<static_cast<std::size_t>(tile_vectors)>([&](auto v) {
    constexpr std::size_t wide = v() + 1;
    if (from.stride == static_cast<index_t>(wide) * Packet<S>::width) expand_panel<F, S, wide>(kc, from, to);
  });
}

template <class S>
void expand_panel(index_t kc, const PanelView<S>& from, S* to) {
  if constexpr (std::same_as<S, float>) {
    if (from.format == WeightFormat::mxfp4) return expand_panel<WeightFormat::mxfp4>(kc, from, to);
    if (from.format == WeightFormat::bfloat16) return expand_panel<WeightFormat::bfloat16>(kc, from, to);
  }
  std::copy_n(static_cast<const S*>(from.data), kc * from.stride, to);
}

}  // namespace K3SPEC_NAMESPACE::detail
