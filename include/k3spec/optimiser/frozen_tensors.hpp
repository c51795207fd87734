#pragma once
/// \file
/// Trained tensors that a run leaves as they are, by patterns of their names: PyTorch's requires_grad = False, but for
/// the time, for their gradients are computed and dropped.
/// defines: SlotRange, pattern_distance, frozen_slots

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/core/parameters.hpp>

namespace K3SPEC_NAMESPACE {

/// Elements [first, last) of the buffer of a model's trained parameters: a whole tensor with its padding.
struct SlotRange {
  index_t first, last;
};

/// Characters to insert, leave out or replace in a name until it fits a pattern, in which * stands for any number of
/// characters and ? for one; 0 where it fits.
inline std::size_t pattern_distance(std::string_view pattern, std::string_view name) {
  std::vector<std::size_t> row(name.size() + 1);
  for (std::size_t j = 0; j <= name.size(); ++j) row[j] = j;
  for (const char p : pattern) {
    const bool any = p == '*';
    std::size_t diagonal = row[0];
    if (!any) ++row[0];
    for (std::size_t j = 1; j <= name.size(); ++j) {
      const std::size_t replaced = diagonal + (p == '?' || p == name[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = any ? std::min(row[j], row[j - 1]) : std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

namespace detail {

/// A pattern and the names nearest to it, wherever in them it stands.
[[noreturn]] inline void refuse_pattern(const std::string& pattern, const char* found,
                                        const std::vector<std::string>& trained) {
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& name : trained) near.emplace_back(pattern_distance('*' + pattern + '*', name), name);
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string wanted;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, near.size()); ++i) {
    wanted += (i == 0 ? "'" : ", '") + near[i].second + "'";
  }
  throw Error("freeze", "'" + pattern + "', " + found,
              "the name of a trained tensor, or * and ? in it; near are " + wanted);
}

}  // namespace detail

/// Where the tensors are that one of the patterns names. Names are those of a checkpoint.
/// \throws Error about `freeze` on a pattern that names no trained tensor, with names near it, and where nothing would
///         be left to train
template <class Model>
std::vector<SlotRange> frozen_slots(const std::vector<std::string>& patterns) {
  std::vector<SlotRange> ranges;
  if (patterns.empty()) return ranges;
  std::vector<std::string> trained, untrained;
  std::vector<SlotRange> places;
  typename Model::template Weights<float> shapes{};
  Model::visit(shapes, Path{}, [&](const Path& at, const auto& view, auto init) {
    if constexpr (detail::is_frozen<decltype(init)>) {
      untrained.push_back(at.str());
    } else {
      const index_t first = places.empty() ? 0 : places.back().last;
      trained.push_back(at.str()), places.push_back({first, first + detail::slot(view.size())});
    }
  });
  const auto fits = [](const std::string& pattern) {
    return [&pattern](const std::string& name) { return pattern_distance(pattern, name) == 0; };
  };
  for (const std::string& pattern : patterns) {
    if (std::any_of(trained.begin(), trained.end(), fits(pattern))) continue;
    const bool never = std::any_of(untrained.begin(), untrained.end(), fits(pattern));
    detail::refuse_pattern(pattern, never ? "only tensors that are never trained" : "no tensor's name", trained);
  }
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const auto names_it = [&](const std::string& pattern) { return pattern_distance(pattern, trained[i]) == 0; };
    if (std::any_of(patterns.begin(), patterns.end(), names_it)) ranges.push_back(places[i]);
  }
  if (ranges.size() < trained.size()) return ranges;
  throw Error("freeze", "patterns of all trained tensors", "one to train");
}

}  // namespace K3SPEC_NAMESPACE
