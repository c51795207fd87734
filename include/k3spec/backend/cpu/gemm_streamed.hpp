#pragma once
/// \file
/// The matrix product of few rows: every task takes panels of B, one after the other, and all of k for each, so that B
/// passes through the first-level cache once and is never kept.
/// defines: detail::Streamed

#include <algorithm>

#include <k3spec/backend/cpu/gemm_product.hpp>
#include <k3spec/backend/cpu/parallel.hpp>

namespace K3SPEC_NAMESPACE::detail {

template <class Product>
class Streamed {
 public:
  explicit Streamed(const Product& product) : p_(product) {}

  void run(const Cpu& cpu, index_t threads) const {
    const Pieces tasks(p_.panels.count, std::min(threads, p_.panels.count));
    const index_t a_size = p_.packed_a(p_.m, p_.k), sums = p_.m * (in_place() ? most_joined : 1) * Product::panel_width;
    const index_t each = sums + (in_place() ? 0 : p_.blocks.longest() * Product::panel_width);
    S* memory = Workspace::reserve<S>(a_size + tasks.count * each);
    const Rows x = p_.rows_of_a(0, p_.m, 0, p_.k, memory);
    parallel_for(cpu, tasks.count, [&](index_t task) {
      S* mine = memory + a_size + task * each;
      const index_t end = tasks.begin(task + 1);
      for (index_t q = tasks.begin(task); q < end;) {
        const index_t count = in_place() ? joined_panels(p_.m, alike(q, end)) : 1;
        panels(q, count, x, mine, mine + sums);
        q += count;
      }
    });
  }

 private:
  using S = typename Product::S;
  using Rows = typename Product::Rows;

  /// Whether the kernel reads B as it is kept: one that does not pack, for few tiles of rows.
  bool in_place() const {
    if constexpr (Product::B::joins) return p_.m <= p_.b.passes() * tile_rows;
    return false;
  }

  /// How many panels from q on are as wide as q.
  index_t alike(index_t q, index_t end) const {
    return (q < p_.panels.vectors.longer ? std::min(end, p_.panels.vectors.longer) : end) - q;
  }

  /// Columns of `count` panels from q on; through C itself if its rows hold whole panels of sums, else through a tile.
  void panels(index_t q, index_t count, Rows x, S* sums, S* packed) const {
    const index_t j = p_.panels.begin(q), width = count * p_.panels.width(q), columns = std::min(width, p_.n - j);
    if constexpr (!Product::narrow) {
      if (columns == width) return multiply(q, count, x, {p_.at(0, j), p_.c_stride}, packed);
    }
    if (p_.accumulate) p_.load_tile(0, j, p_.m, columns, sums, width);
    multiply(q, count, x, {sums, width}, packed);
    p_.store_tile(sums, width, p_.m, columns, 0, j);
  }

  void multiply(index_t q, index_t count, Rows x, Strided<S> to, S* packed) const {
    const index_t width = p_.panels.width(q);
    if constexpr (Product::B::joins) {
      const auto tile =
          p_.b.is_cached() ? &Product::template tile<Reach::cache> : &Product::template tile<Reach::memory>;
      if (in_place()) {
        const Pieces pieces = Product::tiles_of(p_.m);
        for (index_t t = 0; t < pieces.count; ++t) {
          const index_t i = pieces.begin(t);
          tile({pieces.length(t), width, count}, p_.k, {x.data + i * x.stride, x.stride}, p_.b.view(p_.panels, q, 0),
               {to.data + i * to.stride, to.stride}, p_.fresh(0));
        }
        return;
      }
    }
    for (index_t i = 0; i < p_.blocks.count; ++i) {
      const index_t k0 = p_.blocks.begin(i), kc = p_.blocks.length(i);
      const PanelView<S> y = p_.b.stream(p_.panels, q, k0, kc, packed);
      p_.tiles(p_.m, kc, x.from(k0), y, width, to, p_.fresh(k0));
    }
  }

  const Product& p_;
};

}  // namespace K3SPEC_NAMESPACE::detail
