#include <k3spec/config/parallel_options.hpp>

#include <doctest/doctest.h>

#include <k3spec/config/kimi_k3.hpp>

using namespace k3spec;

namespace {
using K3 = configs::KimiK3;
using Tiny = configs::KimiK3Tiny;
}  // namespace

TEST_CASE("one rank, and ranks that divide the experts") {
  CHECK_NOTHROW(ParallelOptions{}.check<K3>());
  for (const index_t ranks : {1, 2, 4, 8, 16}) CHECK_NOTHROW(ParallelOptions{.expert_parallel = ranks}.check<Tiny>());
  CHECK_NOTHROW(ParallelOptions{.expert_parallel = 7}.check<K3>());  // 896 = 7 · 128
}

TEST_CASE("ranks that do not divide the experts need uneven placement") {
  CHECK_THROWS_WITH_AS(ParallelOptions{.expert_parallel = 3}.check<Tiny>(),
                       "expert_parallel: found 3, wanted a divisor of 16, the experts of a layer, or uneven_experts",
                       Error);
  CHECK_THROWS_WITH_AS(ParallelOptions{.expert_parallel = 12}.check<K3>(),
                       doctest::Contains("expert_parallel: found 12, wanted a divisor of 896"), Error);
  CHECK_NOTHROW((ParallelOptions{.expert_parallel = 3, .uneven_experts = true}.check<Tiny>()));
}

TEST_CASE("no rank is without an expert, uneven placement or not") {
  for (const bool uneven : {false, true}) {
    for (const index_t ranks : {-1, 0, 17, 32}) {
      const ParallelOptions options{.expert_parallel = ranks, .uneven_experts = uneven};
      const std::string found = "expert_parallel: found " + std::to_string(ranks) + ", wanted 1 to 16";
      CHECK_THROWS_WITH_AS(options.check<Tiny>(), doctest::Contains(found.c_str()), Error);
    }
  }
}

TEST_CASE("what is not implemented is refused by name") {
  CHECK_THROWS_WITH_AS(ParallelOptions{.tensor_parallel = 2}.check<Tiny>(),
                       "tensor_parallel: found 2, wanted 1: it is not implemented", Error);
  CHECK_THROWS_WITH_AS(ParallelOptions{.context_parallel = 4}.check<Tiny>(),
                       "context_parallel: found 4, wanted 1: it is not implemented", Error);
  CHECK_THROWS_WITH_AS(ParallelOptions{.pipeline_parallel = 0}.check<Tiny>(),
                       "pipeline_parallel: found 0, wanted 1: it is not implemented", Error);
  CHECK_THROWS_WITH_AS(ParallelOptions{.parallel_drafting = true}.check<Tiny>(),
                       "parallel_drafting: found true, wanted false: a draft's tokens come one after the other", Error);
}
