#pragma once
/// \file
/// The choice of experts, the order of their rows, and the sum of what they gave, on the CPU (ops/route.hpp).
/// defines: route_kernel, require_expert_ids, sort_by_expert_kernel, combine_experts_kernel

#include <algorithm>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/load_as.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/backend/route_row.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// See ops/route.hpp, which has compared the shapes.
template <class Config, class S>
void route_kernel(const Cpu& device, Routing<Config>, const Matrix<S>& scores, const Vector<const S>& correction,
                  const Matrix<index_t>& ids, const Matrix<S>& weights) {
  const index_t rows = scores.extent(0), height = 64;
  parallel_for(cpu::for_work(device, rows * scores.extent(1) * 8), ceil_div(rows, height), [&](index_t piece) {
    for (index_t r = piece * height; r < std::min(rows, (piece + 1) * height); ++r) {
      route_row<Config>(scores.row(r), correction.data(), ids.row(r), weights.row(r));
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
          total = total + P(weights(r, i)) * detail::load_as<S>(x, count);
        }
        count == P::width ? total.store(y.row(r) + j) : total.store_first(y.row(r) + j, count);
      }
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
