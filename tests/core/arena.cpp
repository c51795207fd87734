#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <k3spec/core/arena.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/core/view.hpp>

using namespace k3spec;

static_assert(Allocator<Arena> && Allocator<ArenaPlan>);

namespace {

/// What a layer with a saved activation, a sublayer's scratch and a second scratch takes.
struct Step {
  Rows<float, 3> saved;

  template <class A>
  static constexpr Step allocate(A& arena, index_t rows) {
    Step step{Rows<float, 3>(arena.template take<float>(rows * 3), rows)};
    {
      const Scope scope(arena);
      arena.template take<double>(rows * 5);
      const Scope inner(arena);
      arena.template take<bfloat16>(7);
    }
    const Scope scope(arena);
    arena.template take<std::uint8_t>(1);
    return step;
  }
};

constexpr std::size_t bytes_of(index_t rows) {
  return plan_bytes([=](auto& arena) { Step::allocate(arena, rows); });
}

// 11 rows: 132 -> 192 saved, 440 -> 448 and 14 -> 64 of scratch; the second scratch lies below that peak.
static_assert(bytes_of(11) == 192 + 448 + 64);
static_assert(bytes_of(0) == 64);

}  // namespace

TEST_CASE("an arena of the planned size fits exactly") {
  for (const index_t rows : {0, 1, 11, 64, 257}) {
    Arena arena(bytes_of(rows));
    const Step step = Step::allocate(arena, rows);
    CHECK(arena.peak() == bytes_of(rows));
    CHECK(arena.used() == aligned(static_cast<std::size_t>(rows) * 12));
    CHECK(step.saved.extent(0) == rows);
    Arena small(bytes_of(rows) - 1);
    CHECK_THROWS_AS(Step::allocate(small, rows), Error);
  }
}

TEST_CASE("pieces are aligned and do not overlap") {
  Arena arena(1024);
  auto* a = arena.take<std::uint8_t>(65);
  auto* b = arena.take<double>(1);
  auto* c = arena.take<float>(3);
  CHECK(reinterpret_cast<std::uintptr_t>(a) % alignment == 0);
  CHECK(reinterpret_cast<std::uint8_t*>(b) - a == 128);
  CHECK(reinterpret_cast<std::uint8_t*>(c) - a == 192);
}

TEST_CASE("an exhausted arena says what was left and wanted, and stays usable") {
  Arena arena(128);
  arena.take<float>(16);
  CHECK_THROWS_WITH_AS(arena.take<float>(17), "arena: bytes left: found 64, wanted 128", Error);
  CHECK(arena.used() == 64);
  CHECK_NOTHROW(arena.take<float>(16));
  CHECK_NOTHROW(arena.take<float>(0));
  CHECK_THROWS_AS(arena.take<char>(1), Error);
  CHECK_THROWS_AS(Arena().take<char>(1), Error);
}

TEST_CASE("counts that cannot be are refused, not wrapped around") {
  Arena arena(128);
  ArenaPlan plan;
  for (const index_t count : {index_t{-1}, std::numeric_limits<index_t>::min(), std::numeric_limits<index_t>::max(),
                              std::numeric_limits<index_t>::max() / 4, std::numeric_limits<index_t>::max() / 4 + 1}) {
    CHECK_THROWS_AS(arena.take<float>(count), Error);
    CHECK_THROWS_AS(plan.take<float>(count), Error);
  }
  CHECK(arena.used() == 0);
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  CHECK_THROWS_AS(Arena{most}, Error);
}

TEST_CASE("a plan that is more than can be addressed is refused, not wrapped around") {
  constexpr index_t large = std::numeric_limits<index_t>::max() / 2;
  ArenaPlan plan;
  plan.take<std::byte>(large / 2);
  CHECK_NOTHROW(plan.take<std::byte>(large / 4));
  CHECK_THROWS_WITH_AS(plan.take<std::byte>(large), doctest::Contains("wanted at most 2^62"), Error);
  CHECK_THROWS_WITH_AS(plan.borrow(~std::size_t{0}), doctest::Contains("wanted at most 2^62"), Error);
  CHECK(plan.peak() < std::size_t{1} << 62);
}

TEST_CASE("a scope gives back, also when an exception leaves it") {
  Arena arena(256);
  float* first = nullptr;
  try {
    const Scope scope(arena);
    first = arena.take<float>(10);
    throw 1;
  } catch (int) {
  }
  CHECK(arena.used() == 0);
  CHECK(arena.take<float>(1) == first);
}

TEST_CASE("a plan counts what a callee borrows") {
  ArenaPlan plan;
  plan.take<float>(16);
  plan.borrow(1000);
  CHECK(plan.used() == 64);
  CHECK(plan.peak() == 1064);
  plan.borrow(10);
  CHECK(plan.peak() == 1064);
}

TEST_CASE("poison reaches what is free and nothing else") {
  Arena arena(192);
  float* kept = arena.take<float>(16);
  for (int i = 0; i < 16; ++i) kept[i] = 1;
  arena.poison();
  CHECK(kept[15] == 1);
  const float* fresh = arena.take<float>(32);
  for (int i = 0; i < 32; ++i) CHECK(std::isnan(fresh[i]));
}
