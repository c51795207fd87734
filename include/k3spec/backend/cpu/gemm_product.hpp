#pragma once
/// \file
/// What a matrix product is given, and the steps that its two ways through memory share.
/// defines: detail::StridedB, detail::Product

#include <algorithm>
#include <concepts>

#include <k3spec/backend/cpu/gemm_kernel.hpp>
#include <k3spec/backend/cpu/gemm_pack.hpp>
#include <k3spec/core/dtype.hpp>

namespace K3SPEC_NAMESPACE::detail {

inline constexpr index_t block_k = 256;         ///< of a packed block: a panel of B stays in the first-level cache
inline constexpr index_t row_gap = 16;          ///< between packed rows of A, lest all fall into the same cache sets
inline constexpr index_t read_in_place = 4096;  ///< elements of a transposed A that stay in the first-level cache
inline constexpr index_t streamed_rows = 48;    ///< up to so many rows, B is read panel by panel and never kept

/// k cut into blocks as evenly as can be, each but the last a multiple of what any format of B keeps together.
class Blocks {
 public:
  constexpr explicit Blocks(index_t k)
      : count(std::max<index_t>(1, ceil_div(k, block_k))), k_(k), units_(ceil_div(k, unit), count) {}

  index_t count;
  constexpr index_t begin(index_t i) const { return std::min(k_, units_.begin(i) * unit); }
  constexpr index_t length(index_t i) const { return begin(i + 1) - begin(i); }
  constexpr index_t longest() const { return std::min(k_, units_.length(0) * unit); }

 private:
  static constexpr index_t unit = mxfp4_block;
  index_t k_;
  Pieces units_;
};

/// B as the caller stores it.
template <class T>
struct StridedB {
  Operand<T> b;
  index_t columns;

  /// Whether the kernel reads several panels side by side.
  static constexpr bool joins = false;
  /// Whether the panels need no packing at all.
  template <class S>
  static constexpr bool is_ready() {
    return false;
  }

  /// Panel q of rows [k, k + kc), packed into `to`.
  template <class S>
  PanelView<S> pack(const Panels<S>& panels, index_t q, index_t k, index_t kc, S* to) const {
    const index_t j = panels.begin(q), width = panels.width(q);
    pack_panel(b, k, kc, j, std::min(width, columns - j), to, width);
    return {to, width};
  }

  /// Panels [q0, q1) of rows [k, k + kc), packed one behind the other.
  template <class S>
  void pack_block(const Panels<S>& panels, index_t q0, index_t q1, index_t k, index_t kc, S* to) const {
    if (!b.transposed) return pack_rows_of_block(panels, q0, q1, k, kc, to);
    for (index_t q = q0; q < q1; ++q) pack(panels, q, k, kc, to + panels.offset(q0, q, kc));
  }

  /// The same for few rows of A: read in place if it lies in B as it would when packed.
  template <class S>
  PanelView<S> stream(const Panels<S>& panels, index_t q, index_t k, index_t kc, S* to) const {
    if constexpr (std::same_as<S, T>) {
      if (!b.transposed && panels.begin(q + 1) <= columns) return {b.at(k, panels.begin(q)), b.stride};
    }
    return pack(panels, q, k, kc, to);
  }

 private:
  /// Rows that lie in memory from end to end are read so, however many panels they cross.
  template <class S>
  void pack_rows_of_block(const Panels<S>& panels, index_t q0, index_t q1, index_t k, index_t kc, S* to) const {
    for (index_t p = 0; p < kc; ++p) {
      const T* row = b.at(k + p, 0);
      for (index_t q = q0; q < q1; ++q) {
        const index_t begin = panels.begin(q), width = panels.width(q);
        S* out = to + panels.offset(q0, q, kc) + p * width;
        for (index_t j = begin; j < begin + width; j += Packet<S>::width) {
          load_as<S>(row + j, columns - j).store(out + (j - begin));
        }
      }
    }
  }
};

/// C [m,n] = (or +=) A [m,k] · B [k,n]
template <class TA, class TB, class TC>
struct Product {
  using A = TA;
  using B = TB;
  using C = TC;
  using S = accumulate_t<TC>;
  using P = Packet<S>;

  /// Widest panel.
  static constexpr index_t panel_width = tile_vectors * P::width;
  /// Whether C cannot hold sums that are still to grow.
  static constexpr bool narrow = !std::same_as<S, TC>;

  Operand<TA> a;
  TB b;
  TC* c;
  index_t c_stride, m, n, k;
  bool accumulate;
  Panels<S> panels{n};
  Blocks blocks{k};

  /// Rows of A as the kernel reads them: `row` elements from a row to the next, and `tile` more from a tile of them.
  struct Rows {
    const S* data;
    index_t stride;
    Layout layout = Layout::along;
    index_t row = stride, tile = 0;

    Rows from(index_t column) const {
      return {data + column * (layout == Layout::along ? 1 : stride), stride, layout, row, tile};
    }
  };

  static constexpr Pieces tiles_of(index_t rows) { return Pieces(rows, ceil_div(rows, tile_rows)); }
  static constexpr index_t packed_tile(index_t depth) { return depth * across_rows + row_gap; }
  static constexpr index_t padded(index_t count) { return ceil_div(count, P::width) * P::width; }

  bool packs_a() const { return !std::same_as<TA, S> || (a.transposed && m * k > read_in_place); }
  /// Elements that `count` rows of `depth` take when packed.
  index_t packed_a(index_t count, index_t depth) const {
    if (!packs_a()) return 0;
    return a.transposed ? ceil_div(count, tile_rows) * packed_tile(depth) : count * (padded(depth) + row_gap);
  }
  /// Whether the sums of the block of k that begins at k0 start from 0.
  bool fresh(index_t k0) const { return k0 == 0 && !accumulate; }
  TC* at(index_t i, index_t j) const { return c + i * c_stride + j; }

  void empty_sums() const {
    if (accumulate) return;
    for (index_t i = 0; i < m; ++i) std::fill_n(at(i, 0), n, TC(0.0f));
  }

  /// Rows [i, i + rows) of A from column k0 on, packed into `to` where they have to be.
  Rows rows_of_a(index_t i, index_t rows, index_t k0, index_t kc, S* to) const {
    if constexpr (std::same_as<TA, S>) {
      if (!packs_a() && a.transposed) return {a.at(i, k0), a.stride, Layout::across, 1};
      if (!packs_a()) return {a.at(i, k0), a.stride};
    }
    if (a.transposed) {
      pack_across(a.at(i, k0), a.stride, tiles_of(rows), kc, to, packed_tile(kc));
      return {to, across_rows, Layout::across, 0, packed_tile(kc)};
    }
    pack_plain(a.at(i, k0), a.stride, rows, kc, to, padded(kc) + row_gap);
    return {to, padded(kc) + row_gap};
  }

  /// to [rows, columns rounded up to packets] = C[i.., j..]
  void load_tile(index_t i, index_t j, index_t rows, index_t columns, S* to, index_t stride) const {
    pack_plain(at(i, j), c_stride, rows, columns, to, stride);
  }

  /// C[i.., j..] = from [rows, columns], rounded to C's type.
  void store_tile(const S* from, index_t stride, index_t rows, index_t columns, index_t i, index_t j) const {
    for (index_t r = 0; r < rows; ++r, from += stride) {
      TC* out = at(i + r, j);
      index_t q = 0;
      for (; q + P::width <= columns; q += P::width) P::load(from + q).store(out + q);
      if (q < columns) P::load(from + q).store_first(out + q, columns - q);
    }
  }

  template <Layout L>
  static TileKernel<S> one_tile(index_t rows, index_t vectors) {
    return tile_kernel<WeightFormat::full, Reach::cache, S, static_cast<std::size_t>(tile_rows), 1, L>(rows, vectors);
  }

  static void prefetch_tile(const S* p, index_t rows, index_t width, index_t stride) {
    constexpr index_t line = static_cast<index_t>(alignment / sizeof(S));
    for (index_t r = 0; r < rows; ++r, p += stride) {
      for (index_t j = 0; j < width; j += line) prefetch(p + j);
    }
  }

  /// All tiles of `rows` rows against one panel.
  static void tiles(index_t rows, index_t kc, const Rows& x, PanelView<S> y, index_t width, Strided<S> to, bool fresh) {
    const Pieces pieces = tiles_of(rows);
    for (index_t t = 0; t < pieces.count; ++t) {
      const index_t i = pieces.begin(t), height = pieces.length(t);
      if (t + 1 < pieces.count)
        prefetch_tile(to.data + (i + height) * to.stride, pieces.length(t + 1), width, to.stride);
      const auto run = x.layout == Layout::along ? one_tile<Layout::along> : one_tile<Layout::across>;
      run(height, width / P::width)(kc, {x.data + i * x.row + t * x.tile, x.stride}, y,
                                    {to.data + i * to.stride, to.stride}, fresh);
    }
  }

  /// Rows of A beside panels of a width.
  struct TileShape {
    index_t rows, width, panels;
  };

  /// One tile of panels as they are kept.
  template <Reach From>
  static void tile(TileShape shape, index_t kc, Rows x, const PanelView<S>& y, Strided<S> to, bool fresh) {
    const auto run = [&]<WeightFormat F>(std::integral_constant<WeightFormat, F>) {
      tile_kernel<F, From, S>(shape.rows, shape.width / P::width, shape.panels)(kc, {x.data, x.stride}, y, to, fresh);
    };
    if constexpr (std::same_as<S, float>) {
      if (y.format == WeightFormat::mxfp4) return run(std::integral_constant<WeightFormat, WeightFormat::mxfp4>{});
      if (y.format == WeightFormat::bfloat16)
        return run(std::integral_constant<WeightFormat, WeightFormat::bfloat16>{});
    }
    run(std::integral_constant<WeightFormat, WeightFormat::full>{});
  }
};

}  // namespace K3SPEC_NAMESPACE::detail
