#pragma once
/// \file
/// Choice of experts (DeepSeek-V3's router without auxiliary loss): scores σ(x W) choose with a correction added and
/// weigh without it. Groups of experts: those with the best sum of two choices stay in. Ties go to the lower id.
/// scores [rows, experts]; ids, weights [rows, k], ids ascending.
/// defines: Routing, route, ExpertRows, gather_expert_rows, combine_experts

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/core/arena.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// How a config routes.
template <class Config>
struct Routing {
  static constexpr index_t experts = Config::num_experts, chosen = Config::num_experts_per_token;
  static constexpr index_t groups = Config::num_expert_group, kept_groups = Config::topk_group;
  static constexpr index_t group_size = experts / groups;
  static constexpr bool has_groups = groups > kept_groups&& groups > 1;

  static_assert(experts > 0 && chosen > 0 && chosen <= experts, "routing: 1 to num_experts experts per token");
  static_assert(groups > 0 && experts % groups == 0, "routing: num_expert_group must divide num_experts");
  static_assert(kept_groups > 0 && kept_groups <= groups, "routing: topk_group must be 1 to num_expert_group");
  static_assert(!has_groups || (group_size >= 2 && kept_groups * group_size >= chosen),
                "routing: groups need two experts each, and those kept at least num_experts_per_token together");
};

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

/// scores [rows, experts] -> ids and weights [rows, top k], see above.
/// \throws Error on shapes that are not the config's
template <class Config, class S>
void route(const Cpu& cpu, const Matrix<S>& scores, const Vector<const S>& correction, const Matrix<index_t>& ids,
           const Matrix<S>& weights) {
  const index_t rows = scores.extent(0), height = 64;
  require_shape("route: scores", scores, rows, Routing<Config>::experts);
  require_count("route: correction", correction.extent(0), Routing<Config>::experts);
  require_shape("route: ids", ids, rows, Routing<Config>::chosen);
  require_shape("route: weights", weights, rows, Routing<Config>::chosen);
  parallel_for(cpu::for_work(cpu, rows * scores.extent(1) * 8), (rows + height - 1) / height, [&](index_t piece) {
    for (index_t r = piece * height; r < std::min(rows, (piece + 1) * height); ++r) {
      detail::route_row<Config>(scores.row(r), correction.data(), ids.row(r), weights.row(r));
    }
  });
}

/// The (row, choice) pairs sorted by expert, rows ascending within one: expert e has places [begin[e], begin[e + 1]).
struct ExpertRows {
  Vector<index_t> begin;  ///< [experts + 1]
  Vector<index_t> row;    ///< [rows · k], the row at a place
  Matrix<index_t> place;  ///< [rows, k], the place of a row's i-th choice

  template <Allocator A>
  static constexpr ExpertRows allocate(A& a, index_t rows, index_t experts, index_t chosen) {
    const auto take = [&](index_t n) { return a.template take<index_t>(n); };
    return {Vector<index_t>(take(experts + 1), experts + 1), Vector<index_t>(take(rows * chosen), rows * chosen),
            Matrix<index_t>(take(rows * chosen), rows, chosen)};
  }

  /// Sorts the rows by the experts that they chose. ids [rows, k]
  /// \throws Error on ids of another shape than planned, or of no expert
  void sort(const Matrix<index_t>& ids) const {
    const index_t experts = begin.extent(0) - 1, rows = ids.extent(0), chosen = ids.extent(1);
    require_shape("ExpertRows: ids", ids, place.extent(0), place.extent(1));
    require_count("ExpertRows: row", row.extent(0), rows * chosen);
    for (index_t r = 0; r < rows; ++r)
      require_ids("ExpertRows: ids", Vector<const index_t>(ids.row(r), chosen), experts);
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
};

/// to[place] = from[row]
/// \throws Error on shapes that do not fit what was sorted
template <class T>
void gather_expert_rows(const ExpertRows& experts, const Matrix<T>& from, const Matrix<T>& to) {
  require_count("gather_expert_rows: row", experts.row.extent(0), experts.place.size());
  require_rows("gather_expert_rows: from", from, experts.place.extent(0));
  require_shape("gather_expert_rows: to", to, experts.row.extent(0), from.extent(1));
  const auto bytes = static_cast<std::size_t>(from.extent(1)) * sizeof(T);
  for (index_t p = 0; p < to.extent(0); ++p) std::memcpy(to.row(p), from.row(experts.row.data()[p]), bytes);
}

/// y[r] = Σ_i weights[r, i] · results[place(r, i)], experts ascending, rounded once.
/// \throws Error on shapes that do not fit what was sorted
template <class S, class T>
void combine_experts(const Cpu& cpu, const ExpertRows& experts, const Matrix<S>& results, const Matrix<S>& weights,
                     const Matrix<T>& y) {
  using P = Packet<S>;
  const index_t rows = experts.place.extent(0), n = results.extent(1), chosen = experts.place.extent(1), height = 16;
  require_count("combine_experts: row", experts.row.extent(0), experts.place.size());
  require_rows("combine_experts: results", results, experts.row.extent(0));
  require_shape("combine_experts: weights", weights, rows, chosen);
  require_shape("combine_experts: y", y, rows, n);
  parallel_for(cpu::for_work(cpu, rows * n * chosen), (rows + height - 1) / height, [&](index_t piece) {
    for (index_t r = piece * height; r < std::min(rows, (piece + 1) * height); ++r) {
      for (index_t j = 0; j < n; j += P::width) {
        const index_t count = std::min(P::width, n - j);
        P total(S(0));
        for (index_t i = 0; i < chosen; ++i) {
          const S* x = results.row(experts.place(r, i)) + j;
          total = total + P(weights(r, i)) * (count == P::width ? P::load(x) : P::load_first(x, count));
        }
        count == P::width ? total.store(y.row(r) + j) : total.store_first(y.row(r) + j, count);
      }
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
