#pragma once
/// \file
/// The innermost part of the matrix product: a tile of C held in registers while k runs.
/// defines: detail::tile_rows, detail::tile_vectors, detail::Panels, detail::PanelView, detail::Reach,
///          detail::Layout, detail::PanelRows, detail::joined_panels, detail::tile_kernel

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/packet_words.hpp>
#include <k3spec/backend/cpu/unroll.hpp>
#include <k3spec/backend/cpu/weight_format.hpp>
#include <k3spec/core/buffer.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE::detail {

/// A tile is at most this many rows high and packets wide: its accumulators, one row of B and one element of A fill the
/// registers (12 + 2 + 1 of 16, or 24 + 3 + 1 of 32).
inline constexpr index_t tile_rows = packet_registers >= 32 ? 8 : 6;
inline constexpr index_t tile_vectors = packet_registers >= 32 ? 3 : 2;

/// [0, total) cut into `count` pieces that differ by at most 1, longer ones first.
struct Pieces {
  index_t count, size, longer;

  constexpr Pieces(index_t total, index_t parts) : count(parts), size(total / parts), longer(total % parts) {}
  constexpr index_t begin(index_t i) const { return i * size + std::min(i, longer); }
  constexpr index_t length(index_t i) const { return size + (i < longer ? 1 : 0); }
};

/// How n columns are cut into panels of 1 to tile_vectors packets, as evenly as can be. A packed panel is row-major
/// [k, width(q)].
template <class S>
struct Panels {
  index_t count;
  Pieces vectors;

  constexpr explicit Panels(index_t n) : Panels(ceil_div(n, Packet<S>::width), 0) {}

  constexpr index_t begin(index_t q) const { return vectors.begin(q) * Packet<S>::width; }
  /// Columns of panel q, those past the end of B (they are 0) included.
  constexpr index_t width(index_t q) const { return vectors.length(q) * Packet<S>::width; }
  /// Elements from panel q0 to panel q of a packed block of kc rows. A gap of a cache line keeps the same row of all
  /// panels from falling into the same cache set.
  constexpr index_t offset(index_t q0, index_t q, index_t kc) const {
    constexpr index_t gap = static_cast<index_t>(alignment / sizeof(S));
    return (begin(q) - begin(q0)) * kc + (q - q0) * gap;
  }

 private:
  constexpr Panels(index_t total, int)
      : count(ceil_div(total, tile_vectors)), vectors(total, std::max<index_t>(count, 1)) {}
};

/// Rows and how far apart they are.
template <class S>
struct Strided {
  S* data;
  index_t stride;
};

/// How the kernel finds element (row, p) of A from `data` on: along, row after row, at row * stride + p, or across, as
/// a transposed A lies, at p * stride + row.
enum class Layout { along, across };

/// Where panels of B of one width are to be read: row p of a full one is at data + p * stride elements, and what stands
/// for several rows of the others is as wide (backend/cpu/weight_panels.hpp). The next panel begins `next` bytes on.
template <class S>
struct PanelView {
  const void* data;
  index_t stride;
  WeightFormat format = WeightFormat::full;
  index_t next = 0;

  const std::byte* panel(std::size_t g) const {
    return static_cast<const std::byte*>(data) + static_cast<index_t>(g) * next;
  }
};

/// Where B is read from: what lies packed in a cache is at hand, what comes from memory is asked for some rows ahead,
/// as the processor's own prefetching ends with a page.
enum class Reach { cache, memory };
inline constexpr index_t bytes_ahead = 4096;

template <Reach From, std::size_t Bytes>
[[gnu::always_inline]] inline void prefetch_row([[maybe_unused]] const void* row) {
  if constexpr (From == Reach::memory) {
    const auto* line = static_cast<const char*>(row) + bytes_ahead;
    unroll<(Bytes + alignment - 1) / alignment>(
        [&](auto i) { prefetch(reinterpret_cast<const float*>(line + i() * alignment)); });
  }
}

/// The packets of G panels, V each, row after row of B.
template <WeightFormat F, Reach From, class S, std::size_t V, std::size_t G>
struct PanelRows;

template <Reach From, class S, std::size_t V, std::size_t G>
struct PanelRows<WeightFormat::full, From, S, V, G> {
  /// Calls f(p, packets of row p) for p in [0, k).
  template <class Fn>
  [[gnu::always_inline]] static void each(index_t k, const PanelView<S>& b, Fn&& f) {
    std::array<const S*, G> from;
    unroll<G>([&](auto g) { from[g] = reinterpret_cast<const S*>(b.panel(g)); });
    for (index_t p = 0; p < k; ++p) {
      std::array<Packet<S>, G * V> y;
      unroll<G * V>(
          [&](auto i) { y[i] = Packet<S>::load(from[i / V] + static_cast<index_t>(i % V) * Packet<S>::width); });
      unroll<G>([&](auto g) {
        prefetch_row<From, V * sizeof(Packet<S>)>(from[g]);
        from[g] += b.stride;
      });
      f(p, y);
    }
  }
};

/// Two rows in each row of words.
template <Reach From, std::size_t V, std::size_t G>
struct PanelRows<WeightFormat::bfloat16, From, float, V, G> {
  template <class Fn>
  [[gnu::always_inline]] static void each(index_t k, const PanelView<float>& b, Fn&& f) {
    std::array<const std::uint32_t*, G> from;
    unroll<G>([&](auto g) { from[g] = reinterpret_cast<const std::uint32_t*>(b.panel(g)); });
    std::array<Packet<float>, G * V> y;
    for (index_t p = 0; p < k; p += 2) {
      std::array<Words, G * V> w;
      unroll<G * V>(
          [&](auto i) { w[i] = Words::load(from[i / V] + static_cast<index_t>(i % V) * Packet<float>::width); });
      unroll<G>([&](auto g) {
        prefetch_row<From, V * sizeof(Words)>(from[g]);
        from[g] += b.stride;
      });
      unroll<G * V>([&](auto i) { y[i] = low_half(w[i]); });
      f(p, y);
      if (p + 1 == k) break;
      unroll<G * V>([&](auto i) { y[i] = high_half(w[i]); });
      f(p + 1, y);
    }
  }
};

/// Thirty-two rows' scales, then eight rows in each of four rows of words.
template <Reach From, std::size_t V, std::size_t G>
struct PanelRows<WeightFormat::mxfp4, From, float, V, G> {
  template <class Fn>
  [[gnu::always_inline]] static void each(index_t k, const PanelView<float>& b, Fn&& f) {
    constexpr index_t width = Packet<float>::width, rows = 8;
    std::array<const std::uint8_t*, G> from;
    unroll<G>([&](auto g) { from[g] = reinterpret_cast<const std::uint8_t*>(b.panel(g)); });
    for (index_t p = 0; p < k;) {
      std::array<Packet<float>, G * V> scale;
      unroll<G * V>([&](auto i) { scale[i] = powers_of_two(from[i / V] + static_cast<index_t>(i % V) * width); });
      unroll<G>([&](auto g) { from[g] += b.stride; });
      for (const index_t end = p + mxfp4_block; p < end;) {
        std::array<Words, G * V> w;
        unroll<G * V>([&](auto i) { w[i] = Words::load(from[i / V] + static_cast<index_t>(i % V) * 4 * width); });
        unroll<G>([&](auto g) {
          prefetch_row<From, V * sizeof(Words)>(from[g]);
          from[g] += 4 * b.stride;
        });
        for (const index_t last = p + rows; p < last; ++p) {
          std::array<Packet<float>, G * V> y;
          unroll<G * V>([&](auto i) {
            y[i] = low_nibble(w[i]) * scale[i];
            w[i] = drop_nibble(w[i]);
          });
          f(p, y);
        }
      }
    }
  }
};

/// C [R, G panels of V packets] = (or +=) A [R,k] · B [k, G panels of V packets], each element one fma chain over k.
template <WeightFormat F, Reach From, class S, std::size_t R, std::size_t V, std::size_t G, Layout L>
void tile(index_t k, Strided<const S> a, const PanelView<S>& b, Strided<S> c, bool fresh) {
  using P = Packet<S>;
  constexpr std::size_t N = G * V;
  std::array<P, R * N> sums;
  const auto at = [&](std::size_t i) {
    return c.data + static_cast<index_t>(i / N) * c.stride + static_cast<index_t>(i % N) * P::width;
  };
  unroll<R * N>([&](auto i) { sums[i] = fresh ? P(S{0}) : P::load(at(i)); });
  std::array<const S*, R> rows;
  unroll<R>([&](auto r) { rows[r] = a.data + static_cast<index_t>(r()) * (L == Layout::along ? a.stride : 1); });
  PanelRows<F, From, S, V, G>::each(
      k, b, [&](index_t p, const std::array<P, N>& y) __attribute__((always_inline)) {
        unroll<R>([&](auto r) {
          const P x(L == Layout::along ? rows[r][p] : rows[0][r()]);
          unroll<N>([&](auto v) { sums[r * N + v] = fma(x, y[v], sums[r * N + v]); });
        });
        if constexpr (L == Layout::across) rows[0] += a.stride;
      });
  unroll<R * N>([&](auto i) { sums[i].store(at(i)); });
}

template <class S>
using TileKernel = void (*)(index_t, Strided<const S>, const PanelView<S>&, Strided<S>, bool);

/// Panels that are read side by side where A has few rows: one row of one panel is three chains at most, of which a
/// processor's fma units want eight or more.
inline constexpr std::size_t joined_rows = 3;
inline constexpr index_t most_joined = 4;
constexpr index_t joined_panels(index_t rows, index_t panels) {
  if (rows == 1 && panels >= most_joined) return most_joined;
  return rows <= static_cast<index_t>(joined_rows) && panels >= 2 ? 2 : 1;
}

/// The kernel of G panels of `vectors` packets for 1 to Most rows.
template <WeightFormat F, Reach From, class S, std::size_t Most, std::size_t G, Layout L = Layout::along>
TileKernel<S> tile_kernel(index_t rows, index_t vectors) {
  static constexpr auto table = []<std::size_t... I>(std::index_sequence<I...>) {
    constexpr std::size_t wide = static_cast<std::size_t>(tile_vectors);
    return std::array<TileKernel<S>, sizeof...(I)>{&tile<F, From, S, I / wide + 1, I % wide + 1, G, L>...};
  }
  (std::make_index_sequence<Most* static_cast<std::size_t>(tile_vectors)>{});
  return table[static_cast<std::size_t>((rows - 1) * tile_vectors + vectors - 1)];
}

/// The kernel of 1, or joined_panels, panels of `vectors` packets for 1 to tile_rows rows.
template <WeightFormat F, Reach From, class S>
TileKernel<S> tile_kernel(index_t rows, index_t vectors, index_t panels) {
  if (panels == most_joined) return tile_kernel<F, From, S, 1, most_joined>(rows, vectors);
  if (panels == 2) return tile_kernel<F, From, S, joined_rows, 2>(rows, vectors);
  return tile_kernel<F, From, S, static_cast<std::size_t>(tile_rows), 1>(rows, vectors);
}

}  // namespace K3SPEC_NAMESPACE::detail
