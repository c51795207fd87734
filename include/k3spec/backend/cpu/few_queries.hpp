#pragma once
/// \file
/// Scores of few queries of narrow heads, such as a drafted token's: what a product does besides would cost more than
/// turning the keys. Every element is the chain over k that gemm makes of it.
/// defines: cpu::few_queries, cpu::FewQueries

#include <algorithm>
#include <array>

#include <k3spec/backend/cpu/load_as.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/unroll.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE::cpu {

/// Up to so many queries. Of wider heads gemm is as fast for one query and faster for more (bench/RESULTS.md).
template <class H>
inline constexpr index_t few_queries = H::qk <= 48 ? 8 : 0;

/// The product with one head's keys.
template <class H>
struct FewQueries {
  static constexpr index_t Nope = H::nope, Rope = H::rope, qk = H::qk;

  /// scores [n, m] = q [n, qk] · [nope ‖ rope]ᵀ, the rest of each row's last packet included.
  template <class T, class S>
  static void score(const Rows<const T, qk>& q, const Rows<const T, Nope>& nope, const Rows<const T, Rope>& rope,
                    const Matrix<S>& scores) {
    using P = Packet<S>;
    const index_t m = nope.extent(0);
    std::array<P, static_cast<std::size_t>(qk)> turned;
    for (index_t key = 0; key < m; key += P::width) {
      const index_t count = std::min(P::width, m - key);
      turn<Nope, S>(nope.data() + key * nope.row_stride(), nope.row_stride(), count, turned.data());
      turn<Rope, S>(rope.data() + key * rope.row_stride(), rope.row_stride(), count, turned.data() + Nope);
      in_fours(q.extent(0), [&](index_t i, auto some) {
        std::array<P, some()> sums;
        sums.fill(P(S(0)));
        for (index_t d = 0; d < qk; ++d) {
          detail::unroll<some()>([&](auto r) {
            const P x(static_cast<S>(q.row(i + static_cast<index_t>(r()))[d]));
            sums[r] = fma(x, turned[static_cast<std::size_t>(d)], sums[r]);
          });
        }
        detail::unroll<some()>([&](auto r) { sums[r].store(scores.row(i + static_cast<index_t>(r())) + key); });
      });
    }
  }

 private:
  /// f(first, how many) for four queries at a time, then for the others one by one.
  template <class F>
  static void in_fours(index_t n, F&& f) {
    index_t i = 0;
    for (; i + 4 <= n; i += 4) f(i, std::integral_constant<std::size_t, 4>{});
    for (; i < n; ++i) f(i, std::integral_constant<std::size_t, 1>{});
  }

  /// Column d of `count` rows of Width elements, as to[d]; lanes past the rows are 0.
  template <index_t Width, class S, class T>
  static void turn(const T* rows, index_t stride, index_t count, Packet<S>* to) {
    using P = Packet<S>;
    constexpr auto width = static_cast<std::size_t>(P::width);
    for (index_t d = 0; d < Width; d += P::width) {
      const index_t columns = std::min(P::width, Width - d);
      std::array<P, width> square;
      for (index_t r = 0; r < P::width; ++r) {
        square[static_cast<std::size_t>(r)] = r < count ? detail::load_as<S>(rows + r * stride + d, columns) : P(S(0));
      }
      transpose(square);
      for (index_t c = 0; c < columns; ++c) to[d + c] = square[static_cast<std::size_t>(c)];
    }
  }
};

}  // namespace K3SPEC_NAMESPACE::cpu
