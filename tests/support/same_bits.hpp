#pragma once
/// \file
/// defines: test::same_bits

#include <cmath>
#include <cstring>
#include <vector>

namespace k3spec::test {

/// Are all numbers the same bits? All NaNs count as one: a card has a single one.
template <class S>
bool same_bits(const std::vector<S>& a, const std::vector<S>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(S)) != 0 && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  }
  return true;
}

}  // namespace k3spec::test
