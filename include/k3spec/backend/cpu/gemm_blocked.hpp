#pragma once
/// \file
/// The loops around the kernel of a matrix product. They decide what is packed when, and which thread computes which
/// elements; they never cut or reorder the chain of an element, which runs through C (or, where C is narrower than the
/// accumulation type, through a tile of that type) from one block of k to the next.
/// defines: detail::StridedB, detail::Product

#include <algorithm>
#include <concepts>
#include <cstddef>

#include <k3spec/backend/cpu/gemm_kernel.hpp>
#include <k3spec/backend/cpu/gemm_pack.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/dtype.hpp>

namespace k3spec::detail {

inline constexpr index_t block_k = 256;          ///< of a packed block: a panel of B stays in the first-level cache
inline constexpr index_t block_columns = 512;    ///< of a packed block of B: it stays in the second-level cache
inline constexpr index_t block_tiles = 16;       ///< tiles of rows that go over a packed block of B together
inline constexpr index_t carried_rows = 256;     ///< rows per thread whose chains are carried in a tile of their own
inline constexpr index_t streamed_rows = 32;     ///< up to so many rows, B is read panel by panel and never kept
inline constexpr index_t copy_columns = 512;     ///< for so many columns of B it pays to copy a block of A together
inline constexpr index_t row_gap = 16;           ///< between packed rows of A, lest all fall into the same cache sets
inline constexpr index_t serial_work = 1 << 19;  ///< multiply-adds that are not worth waking other threads for

/// Where one panel of B is to be read.
template <class S>
struct PanelView {
  const S* data;
  index_t stride;
};

/// B as the caller stores it.
template <class T>
struct StridedB {
  Operand<T> b;
  index_t columns;

  /// Whether the panels need no packing at all.
  template <class S>
  static constexpr bool ready = false;

  /// Panel q of rows [k, k + kc), packed into `to`.
  template <class S>
  PanelView<S> pack(const Panels<S>& panels, index_t q, index_t k, index_t kc, S* to) const {
    const index_t j = panels.begin(q), width = panels.width(q);
    pack_panel(b, k, kc, j, std::min(width, columns - j), to, width);
    return {to, width};
  }

  /// The same for few rows of A: read in place if it lies in B as it would when packed.
  template <class S>
  PanelView<S> stream(const Panels<S>& panels, index_t q, index_t k, index_t kc, S* to) const {
    if constexpr (std::same_as<S, T>) {
      if (!b.transposed && panels.begin(q + 1) <= columns) return {b.at(k, panels.begin(q)), b.stride};
    }
    return pack(panels, q, k, kc, to);
  }
};

/// C [m,n] = (or +=) A [m,k] · B [k,n]
template <class TA, class B, class TC>
class Product {
 public:
  using S = accumulate_t<TC>;

  Operand<TA> a;
  B b;
  TC* c;
  index_t c_stride, m, n, k;
  bool accumulate;

  void run(const Cpu& cpu) const {
    if (m == 0 || n == 0) return;
    if (k == 0) return empty_sums();
    const bool few = m <= streamed_rows;
    const bool small = (m + 4) * n * k < serial_work || in_parallel();
    const index_t threads = small ? 1 : std::min<index_t>(cpu.threads, few ? panels().count : m * panels().count);
    few ? run_streamed(cpu, threads) : run_blocked(cpu, threads);
  }

 private:
  using P = Packet<S>;

  static constexpr index_t w = P::width;
  static constexpr index_t panel_width = tile_vectors * w;
  static constexpr index_t block_panels = block_columns / panel_width;
  static constexpr index_t block_rows = block_tiles * tile_rows;
  static constexpr bool narrow = !std::same_as<S, TC>;

  struct Rows {
    const S* data;
    index_t stride;
  };

  static constexpr index_t padded(index_t count) { return ceil_div(count, w) * w; }

  Panels<S> panels() const { return Panels<S>(n); }
  index_t blocks_k() const { return ceil_div(k, block_k); }
  bool packs_a() const { return a.transposed || !std::same_as<TA, S> || (n >= copy_columns && m > streamed_rows); }
  bool fresh(index_t k0) const { return k0 == 0 && !accumulate; }
  TC* at(index_t i, index_t j) const { return c + i * c_stride + j; }

  void empty_sums() const {
    if (accumulate) return;
    for (index_t i = 0; i < m; ++i) std::fill_n(at(i, 0), n, TC(0.0f));
  }

  /// Rows [i, i + rows) of A from column k0 on, packed into `to` where they have to be.
  Rows rows_of_a(index_t i, index_t rows, index_t k0, index_t kc, S* to) const {
    if constexpr (std::same_as<TA, S>) {
      if (!packs_a()) return {a.at(i, k0), a.stride};
    }
    pack_rows(a, i, rows, k0, kc, to, padded(kc) + row_gap);
    return {to, padded(kc) + row_gap};
  }

  static void load_tile(const TC* from, index_t from_stride, index_t rows, index_t columns, S* to, index_t stride) {
    for (index_t i = 0; i < rows; ++i) {
      for (index_t j = 0; j < columns; j += w) {
        load_as<S>(from + i * from_stride + j, columns - j).store(to + i * stride + j);
      }
    }
  }

  static void store_tile(const S* from, index_t stride, index_t rows, index_t columns, TC* to, index_t to_stride) {
    for (index_t i = 0; i < rows; ++i) {
      for (index_t j = 0; j < columns; j += w) {
        const P p = P::load(from + i * stride + j);
        TC* out = to + i * to_stride + j;
        columns - j >= w ? p.store(out) : p.store_first(out, columns - j);
      }
    }
  }

  /// All tiles of `rows` rows against one panel.
  static void tiles(index_t rows, index_t kc, Rows x, PanelView<S> y, index_t width, S* to, index_t stride,
                    bool fresh) {
    const index_t count = ceil_div(rows, tile_rows);
    for (index_t t = 0; t < count; ++t) {
      const index_t i = part(rows, count, t), height = part(rows, count, t + 1) - i;
      tile_kernel<S>(height, width / w)(kc, x.data + i * x.stride, x.stride, y.data, y.stride, to + i * stride, stride,
                                        fresh);
    }
  }

  // ---- Few rows: every thread takes panels, and all of k for each.

  struct StreamMemory {
    S *a, *panel, *tile;
  };

  void run_streamed(const Cpu& cpu, index_t tasks) const {
    const index_t a_size = packs_a() ? m * (padded(k) + row_gap) : 0;
    const index_t each = (std::min(k, block_k) + m) * panel_width;
    S* memory = Workspace::reserve<S>(a_size + tasks * each);
    const Rows x = rows_of_a(0, m, 0, k, memory);
    parallel_for(cpu, tasks, [&](index_t task) {
      S* mine = memory + a_size + task * each;
      const index_t count = panels().count;
      for (index_t q = part(count, tasks, task); q < part(count, tasks, task + 1); ++q) {
        stream_panel(q, x, mine, mine + m * panel_width);
      }
    });
  }

  void stream_panel(index_t q, Rows x, S* tile, S* packed) const {
    const index_t j = panels().begin(q), width = panels().width(q), columns = std::min(width, n - j);
    bool direct = false;
    S* to = tile;
    index_t stride = width;
    if constexpr (!narrow) {
      direct = columns == width;
      if (direct) to = at(0, j), stride = c_stride;
    }
    if (!direct && accumulate) load_tile(at(0, j), c_stride, m, columns, to, stride);
    for (index_t i = 0; i < blocks_k(); ++i) {
      const index_t k0 = part(k, blocks_k(), i), kc = part(k, blocks_k(), i + 1) - k0;
      const PanelView<S> y = b.stream(panels(), q, k0, kc, packed);
      tiles(m, kc, {x.data + k0, x.stride}, y, width, to, stride, fresh(k0));
    }
    if (!direct) store_tile(to, stride, m, columns, at(0, j), c_stride);
  }

  // ---- Many rows: each task computes a rectangle of C on its own, from blocks of B that it packs for itself.

  struct Range {
    index_t begin, end;
    index_t size() const { return end - begin; }
  };

  struct BlockMemory {
    S *a, *carried, *b;
  };

  /// How many tasks share the rows; the rest of the factor shares the columns. Multiplying costs a task rows * columns,
  /// packing what it needs about 8 times its columns and, if A is packed, 8 times its rows.
  index_t row_tasks(index_t tasks) const {
    index_t best = 1, least = -1;
    for (index_t across = 1; across <= tasks; ++across) {
      if (tasks % across != 0) continue;
      const index_t rows = ceil_div(m, across);
      const index_t columns = ceil_div(panels().count, tasks / across) * panel_width;
      const index_t work = rows * columns + 8 * columns + (packs_a() ? 8 * rows : 0);
      if (least < 0 || work < least) best = across, least = work;
    }
    return best;
  }

  bool carries() const { return narrow && k > block_k; }
  index_t carried_width() const { return std::min(panels().count, block_panels) * panel_width; }

  void run_blocked(const Cpu& cpu, index_t tasks) const {
    const index_t depth = padded(std::min(k, block_k));
    const index_t a_size = packs_a() ? block_rows * (depth + row_gap) : 0;
    const index_t carried_size = carries() ? carried_rows * carried_width() : 0;
    const index_t b_size = B::template ready<S> ? 0 : depth * carried_width();
    const index_t each = a_size + carried_size + b_size;
    S* memory = Workspace::reserve<S>(tasks * each);
    const index_t down = row_tasks(tasks), across = tasks / down;
    parallel_for(cpu, tasks, [&](index_t task) {
      S* mine = memory + task * each;
      const index_t row = task / across, column = task % across, count = panels().count;
      rectangle({part(m, down, row), part(m, down, row + 1)},
                {part(count, across, column), part(count, across, column + 1)},
                {mine, mine + a_size, mine + a_size + carried_size});
    });
  }

  /// Rows of C times panels of columns.
  void rectangle(Range rows, Range columns, const BlockMemory& memory) const {
    const index_t sweep = carries() ? carried_rows : m;
    for (index_t q = columns.begin; q < columns.end; q += block_panels) {
      const Range block{q, std::min(q + block_panels, columns.end)};
      for (index_t i = rows.begin; i < rows.end; i += sweep) {
        for (index_t kb = 0; kb < blocks_k(); ++kb) {
          pack_block(block, kb, memory.b);
          const index_t end = std::min(i + sweep, rows.end);
          for (index_t r = i; r < end; r += block_rows) {
            block_row({r, std::min(r + block_rows, end)}, block, kb, memory, r - i);
          }
        }
      }
    }
  }

  Range range_k(index_t kb) const { return {part(k, blocks_k(), kb), part(k, blocks_k(), kb + 1)}; }

  void pack_block(Range block, index_t kb, S* to) const {
    if constexpr (!B::template ready<S>) {
      const Range ks = range_k(kb);
      for (index_t q = block.begin; q < block.end; ++q) {
        b.pack(panels(), q, ks.begin, ks.size(), to + (panels().begin(q) - panels().begin(block.begin)) * ks.size());
      }
    }
  }

  void block_row(Range rows, Range block, index_t kb, const BlockMemory& memory, index_t carried_row) const {
    const Range ks = range_k(kb);
    const index_t i = rows.begin, k0 = ks.begin, kc = ks.size();
    const Rows x = rows_of_a(i, rows.size(), k0, kc, memory.a);
    for (index_t q = block.begin; q < block.end; ++q) {
      const index_t j = panels().begin(q), width = panels().width(q), columns = std::min(width, n - j);
      const index_t offset = j - panels().begin(block.begin);
      PanelView<S> y{memory.b + offset * kc, width};
      if constexpr (B::template ready<S>) y = b.pack(panels(), q, k0, kc, memory.b);
      if constexpr (!narrow) {
        if (columns == width) {
          tiles(rows.size(), kc, x, y, width, at(i, j), c_stride, fresh(k0));
          continue;
        }
      }
      if (carries()) {
        S* carried = memory.carried + carried_row * carried_width() + offset;
        carry(i, rows.size(), kc, k0, x, y, j, width, columns, carried, carried_width());
      } else {
        detour(i, rows.size(), kc, k0, x, y, j, width, columns);
      }
    }
  }

  /// Through a tile that lives from the first block of k to the last.
  void carry(index_t i, index_t rows, index_t kc, index_t k0, Rows x, PanelView<S> y, index_t j, index_t width,
             index_t columns, S* carried, index_t stride) const {
    if (k0 == 0 && accumulate) load_tile(at(i, j), c_stride, rows, columns, carried, stride);
    tiles(rows, kc, x, y, width, carried, stride, fresh(k0));
    if (k0 + kc == k) store_tile(carried, stride, rows, columns, at(i, j), c_stride);
  }

  /// Through a tile that lives for this block of k only; C itself can hold the sums in between.
  void detour(index_t i, index_t rows, index_t kc, index_t k0, Rows x, PanelView<S> y, index_t j, index_t width,
              index_t columns) const {
    alignas(alignment) S tile[static_cast<std::size_t>(block_rows * panel_width)];
    if (!fresh(k0)) load_tile(at(i, j), c_stride, rows, columns, tile, width);
    tiles(rows, kc, x, y, width, tile, width, fresh(k0));
    store_tile(tile, width, rows, columns, at(i, j), c_stride);
  }
};

}  // namespace k3spec::detail
