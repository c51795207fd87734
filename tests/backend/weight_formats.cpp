// Prepacked weights in the narrowest format that has each of them exactly: what is found, what it holds, and the same
// bits as from the numbers themselves.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <k3spec/ops/grouped_gemm.hpp>

namespace {

using namespace k3spec;

/// [rows, columns] by a formula.
template <class T, class F>
std::vector<T> filled(index_t rows, index_t columns, F f) {
  std::vector<T> x;
  for (index_t i = 0; i < rows * columns; ++i) x.push_back(static_cast<T>(f(i)));
  return x;
}

/// Bits of which the upper ones are as good as random: of a generator with a multiplier of Knuth's.
struct Draws {
  std::uint64_t state;
  std::uint32_t operator()() {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state >> 32U);
  }
};

/// Numbers from -1 to 1, with all bits of a float's fraction.
template <class T>
std::vector<T> numbers(index_t rows, index_t columns, std::uint64_t seed) {
  Draws draw{seed};
  return filled<T>(rows, columns, [&](index_t) { return static_cast<float>(draw() >> 8U) * 0x1p-23F - 1.0F; });
}

/// W [rows, columns], columns a multiple of 32, whose blocks have scales from 2^-9 to 2^9 and all sixteen values.
template <class T>
std::vector<T> mxfp4_weights(index_t rows, index_t columns, std::uint64_t seed) {
  Draws draw{seed};
  std::uint8_t scale = 0;
  return filled<T>(rows, columns, [&](index_t i) {
    if (i % 32 == 0) scale = static_cast<std::uint8_t>(118 + (draw() >> 8U) % 19);
    return mxfp4_value(draw() >> 28U) * mxfp4_scale(scale);
  });
}

template <class T>
std::vector<T> weights_of(WeightFormat format, index_t rows, index_t columns) {
  if (format == WeightFormat::mxfp4) return mxfp4_weights<T>(rows, columns, 2);
  auto w = numbers<T>(rows, columns, 2);
  if (format == WeightFormat::bfloat16) {
    for (T& x : w) x = static_cast<T>(static_cast<float>(bfloat16(static_cast<float>(x))));
  }
  return w;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// x Wᵀ of prepacked W against that of W itself.
template <class A, class T, class C>
bool equals_plain(WeightFormat format, index_t m, index_t n, index_t k, Into into, int threads) {
  const auto a = numbers<A>(m, k, 1);
  const auto w = weights_of<T>(format, n, k);
  auto found = numbers<C>(m, n, 3), wanted = found;
  const PrepackedWeights<T> packed(Matrix<const T>(w.data(), n, k));
  const Matrix<const A> x(a.data(), m, k);
  gemm(Cpu{threads}, x, packed, Matrix<C>(found.data(), m, n), into);
  gemm(Cpu{1}, x, Op::plain, Matrix<const T>(w.data(), n, k), Op::transposed, Matrix<C>(wanted.data(), m, n), into);
  return packed.format() == format && same_bits(found, wanted);
}

WeightFormat format_of(const std::vector<float>& w) {
  return PrepackedWeights<float>(Matrix<const float>(w.data(), 1, static_cast<index_t>(w.size()))).format();
}

template <class A, class T, class C>
struct Types {
  using a = A;
  using t = T;
  using c = C;
};

}  // namespace

TEST_CASE_TEMPLATE("weights in the format they came in give the bits of the numbers", X, Types<float, float, float>,
                   Types<bfloat16, bfloat16, bfloat16>, Types<float, bfloat16, float>, Types<bfloat16, float, float>) {
  const auto equal = equals_plain<typename X::a, typename X::t, typename X::c>;
  for (const WeightFormat format : {WeightFormat::bfloat16, WeightFormat::mxfp4}) {
    const bool blocks = format == WeightFormat::mxfp4;
    // Rows for every kernel, one more than the highest tile, and for both ways through memory.
    for (index_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 49, 60}) {
      // Columns that end within a packet, a panel, and panels read side by side; more than one block of k.
      for (index_t n : {1, 97, 150}) {
        for (index_t k : {blocks ? 32 : 1, blocks ? 96 : 67, blocks ? 544 : 531}) {
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          CHECK(equal(format, m, n, k, Into::overwrite, 1));
          CHECK(equal(format, m, n, k, Into::accumulate, 2));
        }
      }
    }
    CHECK(equal(format, 3, 1000, 256, Into::overwrite, 2));
  }
}

TEST_CASE("weights too large for a cache, which are asked for ahead, give the same bits") {
  const auto equal = equals_plain<float, float, float>;
  // 8 MiB or more of each format; one row reads four panels, six are a tile.
  for (index_t m : {1, 6}) {
    CHECK(equal(WeightFormat::full, m, 2051, 1031, Into::overwrite, 2));
    CHECK(equal(WeightFormat::bfloat16, m, 4099, 1031, Into::accumulate, 2));
  }
  CHECK(equal(WeightFormat::mxfp4, 2, 3901, 4128, Into::overwrite, 1));
}

TEST_CASE("numbers that no format but float has stay floats, and doubles are never cut") {
  CHECK(equals_plain<float, float, float>(WeightFormat::full, 5, 47, 64, Into::overwrite, 1));
  const auto w = mxfp4_weights<double>(3, 32, 4);
  CHECK(PrepackedWeights<double>(Matrix<const double>(w.data(), 3, 32)).format() == WeightFormat::full);
  auto almost = mxfp4_weights<float>(1, 64, 5);
  CHECK(format_of(almost) == WeightFormat::mxfp4);
  almost[63] = 1.25F;  // bfloat16 has it
  CHECK(format_of(almost) == WeightFormat::bfloat16);
  almost[0] = 0x1.000002p0F;
  CHECK(format_of(almost) == WeightFormat::full);
}

TEST_CASE("a block is MXFP4 where one scale has all of its numbers, signs of zeros among them") {
  const auto with = [](std::vector<float> few) {
    few.resize(32);
    return detail::mxfp4_scale_of(few.data());
  };
  CHECK(with({}) != 0);
  CHECK(with({0.5F, 6, -0.0F}) == 127);
  CHECK(with({0.5F, 8}) == 0);   // sixteen times as much
  CHECK(with({0.75F, 6}) == 0);  // 1.5 · 2^-1 and 1.5 · 2^2: eight times
  CHECK(with({0.75F, 2}) == 126);
  CHECK(with({1.25F}) == 0);
  CHECK(with({std::numeric_limits<float>::infinity()}) == 0);
  CHECK(with({std::numeric_limits<float>::quiet_NaN()}) == 0);
  CHECK(with({std::numeric_limits<float>::denorm_min()}) == 0);
  CHECK(with({0x1p-126F}) == 1);
  CHECK(with({0x1.8p127F}) != 0);
  // Every scale whose values are all normal numbers, found again.
  for (unsigned scale = 2; scale <= 252; ++scale) {
    std::vector<float> block;
    for (unsigned i = 0; i < 32; ++i)
      block.push_back(mxfp4_value(i % 16) * mxfp4_scale(static_cast<std::uint8_t>(scale)));
    const std::uint8_t found = detail::mxfp4_scale_of(block.data());
    REQUIRE(found == scale);
    for (float x : block) {
      const float again = mxfp4_value(detail::mxfp4_nibble(x, found)) * mxfp4_scale(found);
      CHECK(std::bit_cast<std::uint32_t>(again) == std::bit_cast<std::uint32_t>(x));
    }
  }
}

TEST_CASE("words are taken apart into floats") {
  constexpr auto lanes = static_cast<std::size_t>(Packet<float>::width);
  std::array<std::uint32_t, lanes> words;
  std::array<std::uint8_t, lanes> scales;
  for (std::size_t i = 0; i < lanes; ++i) {
    words[i] = 0x89abcdefU * static_cast<std::uint32_t>(2 * i + 1);
    scales[i] = static_cast<std::uint8_t>(1 + 253 * i / (lanes - 1));
  }
  const auto same = [](Packet<float> found, std::size_t i, float wanted) {
    return std::bit_cast<std::uint32_t>(found.lanes()[i]) == std::bit_cast<std::uint32_t>(wanted);
  };
  auto w = detail::Words::load(words.data());
  for (std::size_t i = 0; i < lanes; ++i) {
    CHECK(same(detail::low_half(w), i, std::bit_cast<float>(words[i] << 16U)));
    CHECK(same(detail::high_half(w), i, std::bit_cast<float>(words[i] & 0xffff0000U)));
    CHECK(same(detail::powers_of_two(scales.data()), i, mxfp4_scale(scales[i])));
  }
  for (unsigned nibble = 0; nibble < 8; ++nibble, w = detail::drop_nibble(w)) {
    for (std::size_t i = 0; i < lanes; ++i) {
      CHECK(same(detail::low_nibble(w), i, mxfp4_value(words[i] >> (4 * nibble) & 15U)));
    }
  }
}

TEST_CASE("prepacked weights hold what their format takes") {
  constexpr index_t w = Packet<float>::width;
  const auto bytes = [](WeightFormat format, index_t n, index_t k) {
    const auto weights = weights_of<float>(format, n, k);
    return PrepackedWeights<float>(Matrix<const float>(weights.data(), n, k)).bytes();
  };
  CHECK(bytes(WeightFormat::full, w + 1, 10) == 2 * w * 10 * 4);
  CHECK(bytes(WeightFormat::bfloat16, w + 1, 10) == 2 * w * 10 * 2);
  CHECK(bytes(WeightFormat::bfloat16, w + 1, 11) == 2 * w * 12 * 2);
  CHECK(bytes(WeightFormat::mxfp4, w + 1, 64) == 2 * w * (64 / 2 + 64 / 32));  // 4.25 bits
}

TEST_CASE("groups may have formats of their own, and one with rows needs weights") {
  const index_t n = 5, k = 64;
  const std::array formats{WeightFormat::full, WeightFormat::mxfp4, WeightFormat::bfloat16};
  PrepackedGroups<float> groups(4, n, k);
  const auto x = numbers<float>(6, k, 1);
  std::vector<float> found(6 * 5), wanted(6 * 5);
  const std::array<index_t, 5> begin{0, 1, 3, 6, 6};
  for (index_t g = 0; g < 3; ++g) {
    const auto w = weights_of<float>(formats[static_cast<std::size_t>(g)], n, k);
    groups.set(g, Matrix<const float>(w.data(), n, k));
    const index_t first = begin[static_cast<std::size_t>(g)], rows = begin[static_cast<std::size_t>(g) + 1] - first;
    gemm(Cpu{1}, Matrix<const float>(x.data() + first * k, rows, k), Op::plain, Matrix<const float>(w.data(), n, k),
         Op::transposed, Matrix<float>(wanted.data() + first * n, rows, n));
  }
  const auto run = [&](std::array<index_t, 5> at) {
    grouped_gemm(Cpu{2}, Vector<const index_t>(at.data(), 5), Matrix<const float>(x.data(), 6, k), groups,
                 Matrix<float>(found.data(), 6, n));
  };
  run(begin);
  CHECK(same_bits(found, wanted));
  CHECK_THROWS_WITH_AS(run({0, 1, 3, 5, 6}), "PrepackedGroups: weights of group 3: found none, wanted set ones", Error);
}

TEST_CASE("scales that products with MXFP4's own bits read as they are") {
  for (int s = 0; s < 256; ++s) {
    const auto scale = static_cast<std::uint8_t>(s);
    const std::array<std::uint8_t, 3> scales{120, scale, 130};
    CHECK(detail::are_normal_scales(scales.data(), 3) == std::isnormal(mxfp4_scale(scale)));
  }
}

TEST_CASE("MXFP4 by its own bits has the bits of its numbers") {
  for (const index_t n : {5, 49, 70}) {
    for (const index_t k : {32, 96, 128, 544, 672}) {  // whole squares of words, and what is left of them
      Draws draw{7};
      std::vector<std::uint8_t> nibbles, scales;
      for (index_t i = 0; i < n * k / 2; ++i) nibbles.push_back(static_cast<std::uint8_t>(draw() >> 24U));
      for (index_t i = 0; i < n * k / 32; ++i) scales.push_back(static_cast<std::uint8_t>(115 + draw() % 20));
      const auto w = filled<float>(n, k, [&](index_t i) {
        return mxfp4_value(unsigned{nibbles[static_cast<std::size_t>(i / 2)]} >> (i % 2 * 4) & 15U) *
               mxfp4_scale(scales[static_cast<std::size_t>(i / 32)]);
      });
      const auto read = [&](index_t first, index_t count, std::uint8_t* to) {
        std::copy_n(nibbles.data() + first * k / 2, count * k / 2, to);
      };
      const PrepackedWeights<float> found(Cpu{1}, Mxfp4Rows{n, k, scales.data(), read});
      const PrepackedWeights<float> shared(Cpu{3}, Mxfp4Rows{n, k, scales.data(), read});
      CHECK(std::memcmp(found.data(), shared.data(), static_cast<std::size_t>(found.bytes())) == 0);
      CHECK(found.format() == WeightFormat::mxfp4);
      CHECK(found.bytes() == PrepackedWeights<float>::bytes(Matrix<const float>(w.data(), n, k)));
      for (const index_t rows : {1, 3, 7}) {
        const auto x = numbers<float>(rows, k, 3);
        std::vector<float> a(static_cast<std::size_t>(rows * n)), b(a.size());
        gemm(Cpu{1}, Matrix<const float>(x.data(), rows, k), found, Matrix<float>(a.data(), rows, n));
        gemm(Cpu{1}, Matrix<const float>(x.data(), rows, k), Op::plain, Matrix<const float>(w.data(), n, k),
             Op::transposed, Matrix<float>(b.data(), rows, n));
        CHECK(same_bits(a, b));
      }
    }
  }
}

TEST_CASE_TEMPLATE("bfloat16 by its own bits is what its numbers become", T, float, bfloat16) {
  // Rows of one element, of odd numbers, of whole squares of words and beyond; panels of all widths.
  for (const index_t n : {1, 5, 16, 49, 70, 200}) {
    for (const index_t k : {1, 2, 31, 32, 35, 67, 96}) {
      CAPTURE(n);
      CAPTURE(k);
      const auto halves = weights_of<bfloat16>(WeightFormat::bfloat16, n, k);
      const auto w =
          filled<T>(n, k, [&](index_t i) { return static_cast<float>(halves[static_cast<std::size_t>(i)]); });
      const auto read = [&](index_t first, index_t count, std::uint8_t* to) {
        std::memcpy(to, halves.data() + first * k, static_cast<std::size_t>(2 * count * k));
      };
      const PrepackedWeights<T> wanted(Matrix<const T>(w.data(), n, k));
      REQUIRE(wanted.format() == WeightFormat::bfloat16);
      for (const int threads : {1, 3}) {
        const PrepackedWeights<T> found(Cpu{threads}, Bfloat16Rows{n, k, read});
        REQUIRE(found.format() == WeightFormat::bfloat16);
        REQUIRE(found.bytes() == wanted.bytes());
        CHECK(std::memcmp(found.data(), wanted.data(), static_cast<std::size_t>(wanted.bytes())) == 0);
      }
    }
  }
}

TEST_CASE("what cannot be read while weights are laid out is an error of whoever lays them out") {
  const auto read = [](index_t first, index_t, std::uint8_t*) {
    if (first > 90) throw Error("rows", "none", "some");
  };
  const std::vector<std::uint8_t> scales(200 * 2, 127);
  for (const int threads : {1, 3}) {
    const auto mxfp4 = [&] { PrepackedWeights<float>(Cpu{threads}, Mxfp4Rows{200, 64, scales.data(), read}); };
    const auto halves = [&] { PrepackedWeights<float>(Cpu{threads}, Bfloat16Rows{200, 64, read}); };
    CHECK_THROWS_WITH_AS(mxfp4(), "rows: found none, wanted some", Error);
    CHECK_THROWS_WITH_AS(halves(), "rows: found none, wanted some", Error);
  }
}

TEST_CASE("MXFP4 groups stand in one piece of memory, if it is reserved, and others beside it") {
  const index_t n = 21, k = 96;
  const std::vector<std::uint8_t> nibbles(static_cast<std::size_t>(n * k / 2), 0x52), scales(21 * 3, 126);
  const auto read = [&](index_t first, index_t count, std::uint8_t* to) {
    std::copy_n(nibbles.data() + first * k / 2, count * k / 2, to);
  };
  const auto full = numbers<float>(n, k, 9);
  PrepackedGroups<float> groups(3, n, k), alone(3, n, k);
  groups.reserve_mxfp4();
  for (PrepackedGroups<float>* to : {&groups, &alone}) {
    to->set(Cpu{1}, 2, Mxfp4Rows{n, k, scales.data(), read});
    to->set(0, Matrix<const float>(full.data(), n, k));
    to->set(Cpu{2}, 1, Mxfp4Rows{n, k, scales.data(), read});
  }
  CHECK(groups.bytes() == alone.bytes());
  const auto moved = std::move(groups);
  const auto* of = moved.data();
  CHECK(static_cast<std::size_t>(of[2].data() - of[1].data()) == aligned(static_cast<std::size_t>(of[1].bytes())));
  for (index_t g = 0; g < 3; ++g) {
    CHECK(of[g].format() == alone.data()[g].format());
    CHECK(std::memcmp(of[g].data(), alone.data()[g].data(), static_cast<std::size_t>(of[g].bytes())) == 0);
  }
  CHECK_THROWS_WITH_AS(alone.set(Cpu{1}, 3, Mxfp4Rows{n, k, scales.data(), read}),
                       "PrepackedGroups: group: found 3, wanted 0 to 2", Error);
  CHECK_THROWS_WITH_AS(alone.set(Cpu{1}, 0, Mxfp4Rows{n, k + 32, scales.data(), read}),
                       doctest::Contains("PrepackedGroups: inputs"), Error);
}
