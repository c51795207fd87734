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
#include <vector>

#include <k3spec/backend/cpu/gemm_kernel.hpp>
#include <k3spec/backend/cpu/weight_format.hpp>

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
  template <class F>
  void fill(const std::uint8_t* scales, F&& nibbles, std::byte* to) const {
    const Panels<S> panels(outputs);
    const index_t row = inputs / 2;
    std::vector<std::uint8_t> rows(static_cast<std::size_t>(panels.width(0) * row));
    for (index_t q = 0; q < panels.count; ++q) {
      const index_t begin = panels.begin(q), count = std::min(panels.width(q), outputs - begin);
      nibbles(begin, count, rows.data());
      for (index_t j = 0; j < count; ++j) {
        copy_blocks(rows.data() + j * row, scales + (begin + j) * (inputs / mxfp4_block),
                    reinterpret_cast<std::uint8_t*>(to + begin * column_bytes<S>(format, inputs)), panels.width(q), j);
      }
    }
  }

  /// Rows from k on, an even number or one of whole blocks, of the panel that begins with a column.
  PanelView<S> view(const std::byte* memory, index_t begin, index_t width, index_t k) const {
    const index_t column = column_bytes<S>(format, inputs);
    return {memory + begin * column + width * column_bytes<S>(format, k), width, format, width * column};
  }

 private:
  constexpr index_t padded() const { return ceil_div(outputs, Packet<S>::width) * Packet<S>::width; }

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

  /// Eight nibbles of a row are a word of a panel already.
  void copy_blocks(const std::uint8_t* row, const std::uint8_t* scale, std::uint8_t* to, index_t width,
                   index_t j) const {
    for (index_t k = 0; k < inputs; k += mxfp4_block, to += width * (mxfp4_block / 2 + 1)) {
      to[j] = *scale++;
      std::uint8_t* word = to + width + 4 * j;
      for (index_t i = 0; i < 4; ++i, row += 4, word += 4 * width) std::memcpy(word, row, 4);
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
