#pragma once
/// \file
/// The choice of experts, the order of their rows, and the sum of what they gave, on the CPU (ops/route.hpp).
/// defines: route_kernel, require_expert_ids, sort_by_expert_kernel, combine_experts_kernel

#include <algorithm>
#include <array>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/backend/route_problem.hpp>
#include <k3spec/core/require_shape.hpp>

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

/// One row: `ids` ascending, and their weights.
template <class Config, class S>
void route_row(const S* scores, const S* correction, index_t* ids, S* weights) {
  using R = Routing<Config>;
  std::array<S, R::experts> choice;
  std::array<bool, R::experts> taken{};
  for (std::size_t e = 0; e < choice.size(); ++e) choice[e] = scores[e] + correction[e];
  if constexpr (R::has_groups) leave_out_groups<R>(choice, taken);
  for (index_t i = 0; i < R::chosen; ++i) {
    ids[i] = best_free(choice, taken);
    taken[static_cast<std::size_t>(ids[i])] = true;
  }
  std::sort(ids, ids + R::chosen);
  S total = 0;
  for (index_t i = 0; i < R::chosen; ++i) total += weights[i] = scores[ids[i]];
  const S divisor = R::chosen > 1 && Config::moe_renormalize ? total + S(1e-20) : S(1);
  for (index_t i = 0; i < R::chosen; ++i) weights[i] = weights[i] / divisor * S(Config::routed_scaling_factor);
}

}  // namespace detail

/// See ops/route.hpp, which has compared the shapes.
template <class Config, class S>
void route_kernel(const Cpu& device, Routing<Config>, const Matrix<S>& scores, const Vector<const S>& correction,
                  const Matrix<index_t>& ids, const Matrix<S>& weights) {
  const index_t rows = scores.extent(0), height = 64;
  parallel_for(cpu::for_work(device, rows * scores.extent(1) * 8), ceil_div(rows, height), [&](index_t piece) {
    for (index_t r = piece * height; r < std::min(rows, (piece + 1) * height); ++r) {
      detail::route_row<Config>(scores.row(r), correction.data(), ids.row(r), weights.row(r));
    }
  });
}

/// Refuses ids of no expert.
/// \throws Error for an id of no expert
inline void require_expert_ids(const Cpu&, const Matrix<const index_t>& ids, index_t experts) {
  for (index_t r = 0; r < ids.extent(0); ++r) {
    require_ids("sort_by_expert: ids", Vector<const index_t>(ids.row(r), ids.extent(1)), experts);
  }
}

/// See ops/route.hpp, which has compared the shapes.
inline void sort_by_expert_kernel(const Cpu&, const Matrix<const index_t>& ids, const Vector<index_t>& begin,
                                  const Vector<index_t>& row, const Matrix<index_t>& place) {
  const index_t experts = begin.extent(0) - 1, rows = ids.extent(0), chosen = ids.extent(1);
  std::fill_n(begin.data(), experts + 1, 0);
  const auto count = [&](index_t e) -> index_t& { return begin.data()[e]; };
  for (index_t r = 0; r < rows; ++r) {
    for (index_t i = 0; i < chosen; ++i) ++count(ids(r, i) + 1);
  }
  for (index_t e = 0; e < experts; ++e) count(e + 1) += count(e);
  for (index_t r = 0; r < rows; ++r) {
    for (index_t i = 0; i < chosen; ++i) {
      place(r, i) = count(ids(r, i))++;
      row.data()[place(r, i)] = r;
    }
  }
  // Every begin has become the next expert's.
  for (index_t e = experts; e > 0; --e) count(e) = count(e - 1);
  count(0) = 0;
}

/// See ops/route.hpp, which has compared the shapes. \param place  [rows, k], the row of `results` of a row's choice
template <class S, class T>
void combine_experts_kernel(const Cpu& device, const Matrix<const index_t>& place, const Matrix<S>& results,
                            const Matrix<S>& weights, const Matrix<T>& y) {
  using P = Packet<S>;
  const index_t rows = place.extent(0), n = results.extent(1), chosen = place.extent(1), height = 16;
  parallel_for(cpu::for_work(device, rows * n * chosen), ceil_div(rows, height), [&](index_t piece) {
    for (index_t r = piece * height; r < std::min(rows, (piece + 1) * height); ++r) {
      for (index_t j = 0; j < n; j += P::width) {
        const index_t count = std::min(P::width, n - j);
        P total(S(0));
        for (index_t i = 0; i < chosen; ++i) {
          const S* x = results.row(place(r, i)) + j;
          total = total + P(weights(r, i)) * (count == P::width ? P::load(x) : P::load_first(x, count));
        }
        count == P::width ? total.store(y.row(r) + j) : total.store_first(y.row(r) + j, count);
      }
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
