#include "examples/train_draft/default_layers.hpp"

#include <doctest/doctest.h>

using namespace k3spec;

TEST_CASE("a target that has no default layers is told to whoever may name others: by --layers") {
  CHECK(examples::default_layers([] { return std::vector<index_t>{1, 2}; }) == std::vector<index_t>{1, 2});
  const auto none = []() -> std::vector<index_t> { throw Error("target layers", "4", "at least 6"); };
  CHECK_THROWS_WITH_AS(examples::default_layers(none),
                       "--layers: found nothing, and target layers 4, wanted at least 6", Error);
}

TEST_CASE("only a draft that reads three layers has default ones") {
  CHECK_NOTHROW(examples::require_three_layers("num_target_layers", 3));
  for (const index_t count : {2, 4}) {
    const std::string found = "num_target_layers: found " + std::to_string(count) + ", wanted 3, which alone";
    CHECK_THROWS_WITH_AS(examples::require_three_layers("num_target_layers", count), doctest::Contains(found.c_str()),
                         Error);
  }
}
