#pragma once
/// \file
/// The choice of a token's experts (DeepSeek-V3's router without auxiliary loss, noaux_tc): scores choose with a
/// correction added and weigh without it. Groups of experts: those with the best sum of two choices stay in. Ties go to
/// the lower id. Weights are divided by their sum where the config renormalises, and scaled by routed_scaling_factor.
/// defines: route_row

#include <algorithm>
#include <array>

#include <k3spec/backend/route_problem.hpp>
#include <k3spec/core/scalar_math.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

/// The id of the largest value, the lowest one on a tie; values that are taken are -inf with `taken` set.
template <class S, std::size_t N>
index_t best_free(const std::array<S, N>& values, const std::array<bool, N>& taken) {
  index_t best = -1;
  for (std::size_t i = 0; i < N; ++i) {
    if (taken[i]) continue;
    if (best < 0 || values[i] > values[static_cast<std::size_t>(best)]) best = static_cast<index_t>(i);
  }
  return best;
}

/// Sum of the two largest of n values.
template <class S>
S two_best(const S* values, index_t n) {
  S first = max(values[0], values[1]), second = min(values[0], values[1]);
  for (index_t i = 2; i < n; ++i) {
    second = max(second, min(first, values[i]));
    first = max(first, values[i]);
  }
  return first + second;
}

template <class R, class S, std::size_t N>
void leave_out_groups(const std::array<S, N>& choice, std::array<bool, N>& taken) {
  std::array<S, R::groups> sums;
  std::array<bool, R::groups> kept{};
  for (index_t g = 0; g < R::groups; ++g) {
    sums[static_cast<std::size_t>(g)] = two_best(choice.data() + g * R::group_size, R::group_size);
  }
  for (index_t i = 0; i < R::kept_groups; ++i) kept[static_cast<std::size_t>(best_free(sums, kept))] = true;
  for (std::size_t e = 0; e < N; ++e) taken[e] = !kept[e / static_cast<std::size_t>(R::group_size)];
}

}  // namespace detail

/// One row: scores and correction [experts] -> ids [k], ascending, and weights [k].
template <class Config, class S>
void route_row(const S* scores, const S* correction, index_t* ids, S* weights) {
  using R = Routing<Config>;
  std::array<S, R::experts> choice;
  std::array<bool, R::experts> taken{};
  for (std::size_t e = 0; e < choice.size(); ++e) choice[e] = scores[e] + correction[e];
  if constexpr (R::has_groups) detail::leave_out_groups<R>(choice, taken);
  for (index_t i = 0; i < R::chosen; ++i) {
    ids[i] = detail::best_free(choice, taken);
    taken[static_cast<std::size_t>(ids[i])] = true;
  }
  std::sort(ids, ids + R::chosen);
  S total = 0;
  for (index_t i = 0; i < R::chosen; ++i) total += weights[i] = scores[ids[i]];
  const S divisor = R::chosen > 1 && Config::moe_renormalize ? total + S(1e-20) : S(1);
  for (index_t i = 0; i < R::chosen; ++i) weights[i] = weights[i] / divisor * S(Config::routed_scaling_factor);
}

}  // namespace K3SPEC_NAMESPACE
