#pragma once
/// \file
/// Golden bits of what a doctest case computes (golden_bits.hpp), under the case's own name.
/// defines: test::check_golden

#include <doctest/doctest.h>

#include <string>

#include <tests/support/golden_bits.hpp>

namespace k3spec::test {

/// \param part  tells the hashes of one test case apart; empty when it has one
inline void check_golden(const BitHash& found, const std::string& part = {}) {
  std::string name = doctest::getContextOptions()->currentTest->m_name;
  if (!part.empty()) name += ": " + part;
  const std::string said = golden_table().check(name, found.value());
  if (!said.empty()) FAIL_CHECK(said);
}

}  // namespace k3spec::test
