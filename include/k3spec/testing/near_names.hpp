#pragma once
/// \file
/// Names that somebody may have meant.
/// defines: testing::edit_distance, testing::near_names

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/core/instruction_set.hpp>

/// \namespace k3spec::testing
/// Numbers against dumps of another implementation, and backward passes against differences.

namespace K3SPEC_NAMESPACE::testing {

/// Characters to insert, leave out or replace on the way from a to b.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// The names nearest to `name`, nearest first, of equally near ones the first in `names` first.
/// \param most  how many, at most
inline std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& names,
                                           std::size_t most = 3) {
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const std::string& other : names) found.emplace_back(edit_distance(name, other), other);
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min(most, found.size()); ++i) out.push_back(found[i].second);
  return out;
}

}  // namespace K3SPEC_NAMESPACE::testing
