// Which keys a query sees, and that streaming in tiles changes neither results nor bits.
// A K3 draft has no position ids anywhere: the rope slice of queries and keys is never rotated. What order there is
// comes from the mask alone.
#include <doctest/doctest.h>

#include <numeric>

#include <tests/ops/offsets.hpp>
#include <tests/ops/ttt_case.hpp>

using namespace k3spec;
using namespace k3spec::test;

namespace {

template <class U>
bool begins_with(const std::vector<U>& longer, const std::vector<U>& shorter) {
  return std::memcmp(longer.data(), shorter.data(), shorter.size() * sizeof(U)) == 0;
}

}  // namespace

TEST_CASE("query p of step k sees its document's step-0 keys up to p that are no padding, and its own of later steps") {
  constexpr index_t longest = 70, values = 3 * longest;
  using Documents = std::vector<index_t>;
  for (const Documents& documents : {Documents{1}, {2}, {9}, {70}, {1, 1}, {5, 4}, {5, 7, 1, 40, 17}, {33, 37}}) {
    const index_t length = std::accumulate(documents.begin(), documents.end(), index_t{0});
    for (const std::size_t steps : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
      Case<double, 1, 1, 1, values> c(4, length, steps, padded(4, length));
      c.pack(documents);
      std::fill(c.q.begin(), c.q.end(), 0.0);
      // The value of step s at position t is one-hot at label s · length + t; weights are equal with queries of zeros.
      for (std::size_t s = 0; s < steps; ++s) {
        for (index_t r = 0; r < c.rows; ++r) {
          for (index_t j = 0; j < values; ++j) {
            const bool hot = j == static_cast<index_t>(s) * length + r % length;
            c.kv[s][static_cast<std::size_t>(r * (1 + values) + 1 + j)] = hot ? 1 : 0;
          }
        }
      }
      c.forward();
      index_t wrong = 0;
      for (index_t r = 0; r < c.rows; ++r) {
        std::vector<bool> sees(values);
        for (index_t j = c.first_key(r); j <= r % length; ++j) {
          sees[static_cast<std::size_t>(j)] = c.mask[static_cast<std::size_t>(r / length * length + j)] != 0;
        }
        for (std::size_t s = 1; s < steps; ++s)
          sees[s * static_cast<std::size_t>(length) + static_cast<std::size_t>(r % length)] = true;
        const auto count = std::count(sees.begin(), sees.end(), true);
        for (index_t j = 0; j < values; ++j) {
          const double weight = c.o[static_cast<std::size_t>(r * values + j)];
          const double wanted = sees[static_cast<std::size_t>(j)] ? 1 / static_cast<double>(count) : 0;
          if (weight != wanted) ++wrong;
        }
      }
      CAPTURE(length);
      CAPTURE(steps);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the marks of many keys are what each is asked for alone") {
  constexpr index_t length = 70;
  std::vector<std::uint8_t> mask(2 * length, 1);
  std::vector<index_t> starts(2 * length, 0);
  for (std::size_t i = 0; i < mask.size(); i += 3) mask[i] = 0;
  for (std::size_t i = 30; i < starts.size(); ++i) starts[i] = static_cast<index_t>(i % 5);
  for (const CausalVisibility& visible : {CausalVisibility{}, CausalVisibility{mask.data(), length},
                                          CausalVisibility{mask.data(), length, starts.data()}}) {
    for (index_t sequence = 0; sequence < 2; ++sequence) {
      for (index_t query = 0; query < length; query += 23) {
        for (const index_t first : {0, 5, 69}) {
          const auto row = visible.row(sequence, query);
          std::vector<std::uint8_t> seen(length, 2);
          row.mark(first, length - first, seen.data());
          for (index_t j = 0; first + j < length; ++j)
            CHECK(seen[static_cast<std::size_t>(j)] == (row(first + j) ? 1 : 0));
          for (index_t j = length - first; j < length; ++j) CHECK(seen[static_cast<std::size_t>(j)] == 2);
        }
      }
    }
  }
}

TEST_CASE("200 positions in tiles are what whole rows of scores give, forward and backward") {
  for (const std::size_t steps : {std::size_t{1}, std::size_t{3}}) {
    Small<double> c(4, 200, steps, padded(4, 200));
    const Naive naive(c);
    c.forward();
    c.backward();
    near("o", c.o, naive.o), near("lse", added_up(c.lse), naive.lse), near("d_q", c.d_q, naive.d_q);
    for (std::size_t s = 0; s < steps; ++s)
      near("d_kv", c.d_kv[s], naive.d_kv[s]), near("d_k_rope", c.d_k_rope[s], naive.d_k_rope[s]);
  }
}

TEST_CASE_TEMPLATE("a longer sequence changes no bit of the first queries", T, double, float, bfloat16) {
  Small<T> shorter(1, 70, 3, std::vector<std::uint8_t>(70, 1)), longer(1, 200, 3, std::vector<std::uint8_t>(200, 1));
  for (auto* c : {&shorter, &longer}) {
    c->mask[0] = c->mask[66] = 0;
    c->forward();
    c->backward();
  }
  CHECK(begins_with(longer.o, shorter.o));
  CHECK(begins_with(longer.lse, shorter.lse));
  CHECK(begins_with(longer.d_q, shorter.d_q));
}

TEST_CASE("no position: what stands before a sequence as padding moves it and changes nothing") {
  constexpr index_t shift = 7, length = 90;
  Small<double> plain(1, length, 2, std::vector<std::uint8_t>(length, 1));
  Small<double> moved(1, length + shift, 2, std::vector<std::uint8_t>(length + shift, 1));
  std::fill_n(moved.mask.begin(), shift, std::uint8_t{0});
  const auto copy = [](const std::vector<double>& from, std::vector<double>& to) {
    std::copy(from.begin(), from.end(), to.end() - static_cast<std::ptrdiff_t>(from.size()));
  };
  copy(plain.q, moved.q);
  for (std::size_t s = 0; s < 2; ++s) copy(plain.kv[s], moved.kv[s]), copy(plain.k_rope[s], moved.k_rope[s]);
  plain.forward(), moved.forward();
  near("o", {moved.o.end() - static_cast<std::ptrdiff_t>(plain.o.size()), moved.o.end()}, plain.o);
}

TEST_CASE("a query that sees nothing gives 0 and no gradient, in every type") {
  const auto check = [](auto zero) {
    Small<decltype(zero)> c(1, 5, 1, {0, 0, 0, 1, 1});
    c.forward();
    c.backward();
    for (std::size_t i = 0; i < 3 * 14; ++i) CHECK(c.o[i] == zero);
    for (std::size_t i = 0; i < 3 * 16; ++i) CHECK(c.d_q[i] == 0);
    for (std::size_t i = 0; i < 3 * 24; ++i) CHECK(c.d_kv[0][i] == 0);
    CHECK(c.d_q[3 * 16] == c.d_q[3 * 16]);
    CHECK(c.o[3 * 14] != zero);
  };
  check(0.0), check(0.0f), check(bfloat16(0.0f));
}

TEST_CASE_TEMPLATE("an offset of all scores changes no bit: the largest is never added to a logarithm", T, double,
                   float, bfloat16) {
  // In column 15 of queries, 2 of rope slices: those columns' gradients are all that it may change.
  const auto run = [](double q, double k) {
    Case<T, 2, 13, 3, 7> c(4, 70, 3, padded(4, 70));
    round_to_eighths(c.q), set_column(c.q, 16, 15, q);
    for (std::size_t s = 0; s < 3; ++s) {
      round_to_eighths(c.kv[s]), round_to_eighths(c.k_rope[s]), set_column(c.k_rope[s], 3, 2, k);
    }
    c.forward(), c.backward();
    set_column(c.d_q, 16, 15, 0);
    for (auto& d : c.d_k_rope) set_column(d, 3, 2, 0);
    return c;
  };
  const auto wanted = run(0, 0);
  for (const Offset& offset : offsets) {
    CAPTURE(offset.q * offset.k / 4);
    const auto found = run(offset.q, offset.k);
    CHECK(begins_with(found.o, wanted.o));
    CHECK(begins_with(found.d_q, wanted.d_q));
    for (std::size_t s = 0; s < 3; ++s) {
      CHECK(begins_with(found.d_kv[s], wanted.d_kv[s]));
      CHECK(begins_with(found.d_k_rope[s], wanted.d_k_rope[s]));
    }
  }
}
