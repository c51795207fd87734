#include <k3spec/core/version.hpp>

#include <doctest/doctest.h>

#include <string>

TEST_CASE("the version's text is made of its numbers") {
  CHECK(std::to_string(K3SPEC_VERSION_MAJOR) + '.' + std::to_string(K3SPEC_VERSION_MINOR) + '.' +
            std::to_string(K3SPEC_VERSION_PATCH) ==
        K3SPEC_VERSION);
}
