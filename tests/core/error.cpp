#include <doctest/doctest.h>

#include <k3spec/core/error.hpp>

using namespace k3spec;

TEST_CASE("an error says subject, found and wanted") {
  const Error error("'fc.weight': shape", "[2, 3]", "[3, 2]");
  CHECK(error.what() == std::string("'fc.weight': shape: found [2, 3], wanted [3, 2]"));
  const Error outer = error.within("draft.safetensors");
  CHECK(outer.subject() == "draft.safetensors: 'fc.weight': shape");
  CHECK(outer.found() == "[2, 3]");
  CHECK(outer.wanted() == "[3, 2]");
  CHECK(outer.what() == std::string("draft.safetensors: 'fc.weight': shape: found [2, 3], wanted [3, 2]"));
}

TEST_CASE("require throws exactly when the condition does not hold") {
  CHECK_NOTHROW(require(true, "steps", "1", "at least 1"));
  CHECK_THROWS_WITH_AS(require(false, "steps", "0", "at least 1"), "steps: found 0, wanted at least 1", Error);
}
