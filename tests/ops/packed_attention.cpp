// Packed documents in TTT attention: each has the bits that it has alone, and is nothing to the others.
#include <doctest/doctest.h>

#include <tests/ops/ttt_case.hpp>

using namespace k3spec;
using namespace k3spec::test;

namespace {

/// Shorter and longer than a tile of queries (32) and of keys (64), and across both; a document of one token.
const std::vector<index_t> documents{5, 7, 1, 40, 70, 130};
constexpr index_t length = 253;
constexpr std::size_t steps = 3;

template <class T>
Small<T> packed(index_t sequences = 1) {
  Small<T> c(sequences, length, steps, std::vector<std::uint8_t>(static_cast<std::size_t>(sequences * length), 1));
  c.pack(documents);
  return c;
}

/// Everything that a case has of rows [row, row + n): operands first, then results.
template <class T, class F>
void for_rows(Small<T>& c, index_t row, index_t n, F&& f) {
  const auto part = [&](auto& v) {
    const index_t width = static_cast<index_t>(v.size()) / c.rows;
    return std::span(v).subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(n * width));
  };
  f("q", true, part(c.q)), f("d_o", true, part(c.d_o));
  for (std::size_t s = 0; s < steps; ++s) f("kv", true, part(c.kv[s])), f("k_rope", true, part(c.k_rope[s]));
  f("o", false, part(c.o)), f("lse", false, part(c.lse)), f("d_q", false, part(c.d_q));
  for (std::size_t s = 0; s < steps; ++s) f("d_kv", false, part(c.d_kv[s])), f("d_k_rope", false, part(c.d_k_rope[s]));
}

/// Copies rows' operands, or compares their results bit by bit. \returns the names of what differs
template <class T>
std::string copy_operands(Small<T>& from, index_t row, Small<T>& to, index_t to_row, index_t n) {
  std::vector<std::vector<std::byte>> bytes;
  for_rows(from, row, n, [&](const char*, bool, auto part) {
    const auto all = std::as_bytes(part);
    bytes.emplace_back(all.begin(), all.end());
  });
  std::string different;
  std::size_t i = 0;
  for_rows(to, to_row, n, [&](const char* name, bool operand, auto part) {
    const auto& wanted = bytes[i++];
    REQUIRE(wanted.size() == part.size_bytes());
    if (operand) std::memcpy(part.data(), wanted.data(), wanted.size());
    if (!operand && std::memcmp(part.data(), wanted.data(), wanted.size()) != 0) different += std::string(" ") + name;
  });
  return different;
}

template <class T>
void run(Small<T>& c) {
  c.forward();
  c.backward();
}

}  // namespace

TEST_CASE_TEMPLATE("a packed document has the bits that it has alone, gradients too", T, double, float, bfloat16) {
  auto all = packed<T>(2);
  run(all);
  for (index_t sequence = 0; sequence < 2; ++sequence) {
    index_t row = sequence * length;
    for (const index_t n : documents) {
      Small<T> alone(1, n, steps, std::vector<std::uint8_t>(static_cast<std::size_t>(n), 1));
      copy_operands(all, row, alone, 0, n);
      run(alone);
      CAPTURE(sequence);
      CAPTURE(n);
      CHECK(copy_operands(all, row, alone, 0, n) == "");
      row += n;
    }
  }
}

TEST_CASE_TEMPLATE("what other documents hold changes no bit, not even NaN", T, double, float, bfloat16) {
  auto clean = packed<T>();
  run(clean);
  index_t row = 0;
  for (const index_t n : documents) {
    auto c = packed<T>();
    for_rows(c, 0, length, [](const char*, bool operand, auto part) {
      using X = typename decltype(part)::value_type;
      if constexpr (std::is_convertible_v<X, double>) {
        if (operand) std::fill(part.begin(), part.end(), X(NAN));
      }
    });
    copy_operands(clean, row, c, row, n);
    run(c);
    CAPTURE(n);
    CHECK(copy_operands(clean, row, c, row, n) == "");
    row += n;
  }
}

TEST_CASE("documents in tiles are what whole rows of scores give, forward and backward") {
  auto c = packed<double>(2);
  c.mask[3] = c.mask[20] = c.mask[130] = 0;
  const Naive naive(c);
  run(c);
  near("o", c.o, naive.o), near("lse", added_up(c.lse), naive.lse), near("d_q", c.d_q, naive.d_q);
  for (std::size_t s = 0; s < steps; ++s)
    near("d_kv", c.d_kv[s], naive.d_kv[s]), near("d_k_rope", c.d_k_rope[s], naive.d_k_rope[s]);
}

TEST_CASE("the comparisons above see a document that begins one position late") {
  auto all = packed<double>(), late = packed<double>();
  std::replace(late.starts.begin(), late.starts.end(), index_t{53}, index_t{54});
  late.starts[53] = 53;
  run(all), run(late);
  CHECK(copy_operands(all, 0, late, 0, 53) == "");
  CHECK(copy_operands(all, 53, late, 53, 70).starts_with(" o lse d_q d_kv d_k_rope"));
  CHECK(copy_operands(all, 123, late, 123, 130) == "");
}
