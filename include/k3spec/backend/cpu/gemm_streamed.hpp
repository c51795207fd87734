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
    const index_t a_size = p_.packed_a(p_.m, p_.k), each = (std::min(p_.k, block_k) + p_.m) * Product::panel_width;
    S* memory = Workspace::reserve<S>(a_size + tasks.count * each);
    const Rows x = p_.rows_of_a(0, p_.m, 0, p_.k, memory);
    parallel_for(cpu, tasks.count, [&](index_t task) {
      S* mine = memory + a_size + task * each;
      for (index_t q = tasks.begin(task); q < tasks.begin(task + 1); ++q) panel(q, x, mine);
    });
  }

 private:
  using S = typename Product::S;
  using Rows = typename Product::Rows;

  /// Columns of panel q; through C itself if its rows hold a whole panel of sums, else through a tile.
  void panel(index_t q, Rows x, S* memory) const {
    const index_t j = p_.panels.begin(q), width = p_.panels.width(q), columns = std::min(width, p_.n - j);
    S* packed = memory + p_.m * Product::panel_width;
    if constexpr (!Product::narrow) {
      if (columns == width) return multiply(q, x, p_.at(0, j), p_.c_stride, packed);
    }
    if (p_.accumulate) p_.load_tile(0, j, p_.m, columns, memory, width);
    multiply(q, x, memory, width, packed);
    p_.store_tile(memory, width, p_.m, columns, 0, j);
  }

  void multiply(index_t q, Rows x, S* to, index_t stride, S* packed) const {
    for (index_t i = 0; i < p_.blocks.count; ++i) {
      const index_t k0 = p_.blocks.begin(i), kc = p_.blocks.length(i);
      const PanelView<S> y = p_.b.stream(p_.panels, q, k0, kc, packed);
      p_.tiles(p_.m, kc, {x.data + k0, x.stride}, y, p_.panels.width(q), {to, stride}, p_.fresh(k0));
    }
  }

  const Product& p_;
};

}  // namespace K3SPEC_NAMESPACE::detail
