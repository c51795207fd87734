#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <vector>

#include <k3spec/backend/attention_problem.hpp>
#include <k3spec/backend/cpu/few_queries.hpp>
#include <k3spec/backend/cpu/gemm.hpp>
#include <k3spec/core/rng.hpp>

using namespace k3spec;

namespace {

template <class T>
std::vector<T> numbers(index_t n, std::uint64_t seed) {
  const Philox random(seed, 0);
  std::vector<T> x;
  for (index_t i = 0; i < n; ++i) x.push_back(T(static_cast<float>(random.normal(static_cast<std::uint64_t>(i)))));
  return x;
}

template <class S>
bool same(const std::vector<S>& a, const std::vector<S>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(S)) == 0;
}

/// Queries and keys of one head, rows further apart than they are long.
template <class H, class T>
struct Head {
  using S = accumulate_t<T>;
  static constexpr index_t qk = H::qk, apart = 3, room = 64;
  index_t queries, count;
  std::vector<T> of_q = numbers<T>(queries * (qk + apart), 1);
  std::vector<T> of_nope = numbers<T>(count * (H::nope + apart), 2), of_rope = numbers<T>(count * (H::rope + apart), 3);

  template <index_t N>
  static Rows<const T, N> rows(const std::vector<T>& from, index_t n) {
    return Rows<const T, N>(from.data(), Extents<dyn, N>(n), N + apart);
  }
  Rows<const T, qk> q() const { return rows<qk>(of_q, queries); }
  Rows<const T, H::nope> nope() const { return rows<H::nope>(of_nope, count); }
  Rows<const T, H::rope> rope() const { return rows<H::rope>(of_rope, count); }
};

/// The first `columns` of each row of 64.
template <class S>
std::vector<S> part(const std::vector<S>& rows, index_t columns) {
  std::vector<S> all;
  for (std::size_t i = 0; i < rows.size(); i += 64) {
    all.insert(all.end(), rows.begin() + static_cast<std::ptrdiff_t>(i),
               rows.begin() + static_cast<std::ptrdiff_t>(i) + columns);
  }
  return all;
}

template <class H, class T>
void check_scores(const Head<H, T>& head) {
  using S = accumulate_t<T>;
  std::vector<S> found(static_cast<std::size_t>(head.queries * 64), S(7)), wanted = found;
  const auto view = [&](std::vector<S>& to) {
    return Matrix<S>(to.data(), Extents<dyn, dyn>(head.queries, head.count), 64);
  };
  cpu::FewQueries<H>::template score<T, S>(head.q(), head.nope(), head.rope(), view(found));
  gemm<Op::plain, Op::transposed>(Cpu{1}, head.q().template columns<0, H::nope>(), head.nope(), view(wanted));
  gemm<Op::plain, Op::transposed>(Cpu{1}, head.q().template columns<H::nope, H::rope>(), head.rope(), view(wanted),
                                  Into::accumulate);
  CHECK(same(part(found, head.count), part(wanted, head.count)));
  // What is left of a row's last packet may be written, the packets behind it not.
  const index_t end = ceil_div(head.count, Packet<S>::width) * Packet<S>::width;
  for (index_t r = 0; r < head.queries; ++r) {
    for (index_t j = end; j < 64; ++j) CHECK(found[static_cast<std::size_t>(r * 64 + j)] == S(7));
  }
}

template <class H, class T>
void check_head() {
  for (index_t queries = 1; queries <= cpu::few_queries<H>; ++queries) {
    for (const index_t keys : {1, 7, 8, 9, 15, 16, 17, 63, 64}) {
      CAPTURE(queries);
      CAPTURE(keys);
      const Head<H, T> head{queries, keys};
      check_scores(head);
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("scores of few queries have the bits of the products they stand for", T, float, double, bfloat16) {
  check_head<AttentionHeads<1, 16, 8, 16>, T>();
  check_head<AttentionHeads<1, 5, 3, 7>, T>();
  check_head<AttentionHeads<1, 33, 1, 18>, T>();
  // K3's own heads are left to gemm.
  static_assert(cpu::few_queries<AttentionHeads<1, 33, 1, 18>> == 8 &&
                cpu::few_queries<AttentionHeads<96, 128, 64, 128>> == 0);
}
