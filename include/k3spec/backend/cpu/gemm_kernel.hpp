#pragma once
/// \file
/// The innermost part of the matrix product: a tile of C held in registers while k runs.
/// defines: detail::tile_rows, detail::tile_vectors, detail::Panels, detail::tile_kernel

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/unroll.hpp>
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

/// C [R, V packets] = (or +=) A [R,k] · B [k, V packets], each element one fma chain over k.
template <class S, std::size_t R, std::size_t V>
void tile(index_t k, Strided<const S> a, Strided<const S> b, Strided<S> c, bool fresh) {
  using P = Packet<S>;
  std::array<P, R * V> sums;
  const auto at = [&](std::size_t i) {
    return c.data + static_cast<index_t>(i / V) * c.stride + static_cast<index_t>(i % V) * P::width;
  };
  unroll<R * V>([&](auto i) { sums[i] = fresh ? P(S{0}) : P::load(at(i)); });
  std::array<const S*, R> rows;
  unroll<R>([&](auto r) { rows[r] = a.data + static_cast<index_t>(r()) * a.stride; });
  for (index_t p = 0; p < k; ++p, b.data += b.stride) {
    std::array<P, V> y;
    unroll<V>([&](auto v) { y[v] = P::load(b.data + static_cast<index_t>(v()) * P::width); });
    unroll<R>([&](auto r) {
      const P x(rows[r][p]);
      unroll<V>([&](auto v) { sums[r * V + v] = fma(x, y[v], sums[r * V + v]); });
    });
  }
  unroll<R * V>([&](auto i) { sums[i].store(at(i)); });
}

template <class S>
using TileKernel = void (*)(index_t, Strided<const S>, Strided<const S>, Strided<S>, bool);

/// The kernel of tiles with `rows` rows and `vectors` packets per row.
template <class S>
TileKernel<S> tile_kernel(index_t rows, index_t vectors) {
  static constexpr auto table = []<std::size_t... I>(std::index_sequence<I...>) {
    constexpr std::size_t wide = static_cast<std::size_t>(tile_vectors);
    return std::array<TileKernel<S>, sizeof...(I)>{&tile<S, I / wide + 1, I % wide + 1>...};
  }
  (std::make_index_sequence<static_cast<std::size_t>(tile_rows * tile_vectors)>{});
  return table[static_cast<std::size_t>((rows - 1) * tile_vectors + vectors - 1)];
}

}  // namespace K3SPEC_NAMESPACE::detail
