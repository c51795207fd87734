#pragma once
/// \file
/// The matrix product of many rows: every task computes a rectangle of C on its own, from blocks of B that it packs for
/// itself. No thread waits for another, and no chain is cut: it runs through C (or, where C is narrower than the
/// accumulation type, through a tile of that type) from one block of k to the next.
/// defines: detail::Blocked

#include <algorithm>
#include <cstddef>

#include <k3spec/backend/cpu/gemm_product.hpp>
#include <k3spec/backend/cpu/parallel.hpp>

namespace K3SPEC_NAMESPACE::detail {

template <class Product>
class Blocked {
 public:
  explicit Blocked(const Product& product) : p_(product) {}

  void run(const Cpu& cpu, index_t threads) const {
    const index_t tasks = std::min(threads, p_.m * p_.panels.count), down = row_tasks(tasks), across = tasks / down;
    const Pieces rows(p_.m, down), columns(p_.panels.count, across);
    const index_t depth = p_.blocks.longest();
    const index_t a_size = p_.packed_a(block_rows, depth), carried_size = carries() ? carried_rows * block_width() : 0;
    const index_t b_size = ready() ? 0 : p_.panels.offset(0, most_panels(p_.panels.count), depth);
    const index_t each = aligned_count(a_size + carried_size + b_size);
    S* memory = Workspace::reserve<S>(tasks * each);
    parallel_for(cpu, tasks, [&](index_t task) {
      S* mine = memory + task * each;
      const index_t i = task / across, j = task % across;
      rectangle({rows.begin(i), rows.begin(i + 1)}, {columns.begin(j), columns.begin(j + 1)},
                {mine, mine + a_size, mine + a_size + carried_size});
    });
  }

 private:
  using S = typename Product::S;
  using Rows = typename Product::Rows;

  static constexpr index_t block_columns = 512;  ///< of a packed block of B: it stays in the second-level cache
  static constexpr index_t block_panels = ceil_div(block_columns, Product::panel_width);
  static constexpr index_t block_rows = 16 * tile_rows;  ///< rows that go over a packed block of B together
  static constexpr index_t carried_rows = 256;           ///< rows of C whose sums are carried in a tile of their own

  struct Range {
    index_t begin, end;
    index_t size() const { return end - begin; }
  };

  struct Memory {
    S *a, *carried, *b;
  };

  /// Where a panel of a block of B and the rows of A meet.
  struct Meeting {
    index_t i, rows, j, columns;  ///< of C
    index_t k0, kc;
    Rows x;
    PanelView<S> y;
    index_t width;  ///< of y
  };

  static constexpr index_t aligned_count(index_t count) { return ceil_div(count, row_gap) * row_gap; }

  bool ready() const { return p_.b.template is_ready<S>(); }
  bool carries() const { return Product::narrow && p_.blocks.count > 1; }
  index_t block_width() const { return most_panels(p_.panels.count) * Product::panel_width; }
  /// Blocks of B are as wide as one another: A is packed for each of them.
  static Pieces blocks_of(index_t panels) {
    return Pieces(panels, std::max<index_t>(1, ceil_div(panels, block_panels)));
  }
  static index_t most_panels(index_t panels) { return std::min(panels, block_panels); }

  /// How many tasks share the rows; the rest of the factor shares the columns. Multiplying costs a task rows * columns,
  /// packing what it needs about 8 times its columns and, if A is packed, 8 times its rows.
  index_t row_tasks(index_t tasks) const {
    index_t best = 1, least = -1;
    for (index_t down = 1; down <= tasks; ++down) {
      if (tasks % down != 0) continue;
      const index_t rows = ceil_div(p_.m, down);
      const index_t columns = ceil_div(p_.panels.count, tasks / down) * Product::panel_width;
      const index_t work = rows * columns + 8 * columns + (p_.packs_a() ? 8 * rows : 0);
      if (least < 0 || work < least) best = down, least = work;
    }
    return best;
  }

  /// Rows of C times panels of columns.
  void rectangle(Range rows, Range panels, const Memory& memory) const {
    const index_t sweep = carries() ? carried_rows : rows.size();
    const Pieces blocks = blocks_of(panels.size());
    for (index_t j = 0; j < blocks.count; ++j) {
      const index_t q = panels.begin + blocks.begin(j);
      for (index_t i = rows.begin; i < rows.end; i += sweep) {
        for (index_t kb = 0; kb < p_.blocks.count; ++kb) {
          block({i, std::min(i + sweep, rows.end)}, {q, q + blocks.length(j)}, kb, memory);
        }
      }
    }
  }

  /// All rows against one packed block of B.
  void block(Range rows, Range panels, index_t kb, const Memory& memory) const {
    const index_t k0 = p_.blocks.begin(kb), kc = p_.blocks.length(kb);
    if (!ready()) p_.b.pack_block(p_.panels, panels.begin, panels.end, k0, kc, memory.b);
    for (index_t i = rows.begin; i < rows.end; i += block_rows) {
      const index_t count = std::min(block_rows, rows.end - i);
      const Rows x = p_.rows_of_a(i, count, k0, kc, memory.a);
      for (index_t q = panels.begin; q < panels.end; ++q) {
        const index_t j = p_.panels.begin(q), width = p_.panels.width(q), columns = std::min(width, p_.n - j);
        PanelView<S> y{memory.b + p_.panels.offset(panels.begin, q, kc), width};
        if (ready()) y = p_.b.pack(p_.panels, q, k0, kc, memory.b);
        S* carried = memory.carried + (i - rows.begin) * block_width() + (j - p_.panels.begin(panels.begin));
        multiply({i, count, j, columns, k0, kc, x, y, width}, carried);
      }
    }
  }

  void multiply(const Meeting& at, S* carried) const {
    if constexpr (!Product::narrow) {
      if (at.columns == at.width) return tiles(at, p_.at(at.i, at.j), p_.c_stride);
    }
    if (carries()) return carry(at, carried, block_width());
    detour(at);
  }

  void tiles(const Meeting& at, S* to, index_t stride) const {
    p_.tiles(at.rows, at.kc, at.x, at.y, at.width, {to, stride}, p_.fresh(at.k0));
  }

  /// Through a tile that lives from the first block of k to the last.
  void carry(const Meeting& at, S* carried, index_t stride) const {
    if (at.k0 == 0 && p_.accumulate) p_.load_tile(at.i, at.j, at.rows, at.columns, carried, stride);
    tiles(at, carried, stride);
    if (at.k0 + at.kc == p_.k) p_.store_tile(carried, stride, at.rows, at.columns, at.i, at.j);
  }

  /// Through a tile that lives for this block of k only; C itself can hold the sums in between.
  void detour(const Meeting& at) const {
    alignas(alignment) S tile[static_cast<std::size_t>(block_rows * Product::panel_width)];
    if (!p_.fresh(at.k0)) p_.load_tile(at.i, at.j, at.rows, at.columns, tile, at.width);
    tiles(at, tile, at.width);
    p_.store_tile(tile, at.width, at.rows, at.columns, at.i, at.j);
  }

  const Product& p_;
};

}  // namespace K3SPEC_NAMESPACE::detail
