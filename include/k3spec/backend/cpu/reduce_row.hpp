#pragma once
/// \file
/// Sums (and other reductions) over a row's columns in the order of expr/order.hpp.
/// defines: cpu::fill_up, cpu::fold_chains, cpu::combine_row, cpu::reduce_row

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

#include <k3spec/backend/cpu/row_env.hpp>
#include <k3spec/expr/order.hpp>
#include <k3spec/expr/reduce.hpp>

namespace K3SPEC_NAMESPACE::cpu {

/// The lanes past `count` replaced by `neutral`.
template <class S>
[[gnu::always_inline]] inline Packet<S> fill_up(Packet<S> x, index_t count, S neutral) {
  if (count == Packet<S>::width) return x;
  std::array<S, static_cast<std::size_t>(Packet<S>::width)> lanes;
  lanes.fill(neutral);
  x.store_first(lanes.data(), count);
  return Packet<S>::load(lanes.data());
}

/// Halves [0, count) until [0, end) holds all; both are `end` times a power of two.
template <class O, class S>
void fold_chains(S* chains, index_t count, index_t end) {
  using P = Packet<S>;
  for (index_t half = count / 2; half >= end; half /= 2) {
    index_t c = 0;
    for (; c + P::width <= half; c += P::width)
      O::combine(P::load(chains + c), P::load(chains + c + half)).store(chains + c);
    for (; c < half; ++c) chains[c] = O::combine(chains[c], chains[c + half]);
  }
}

/// Combines lanes(env) over a row's columns by O.
template <class O, class S, class Operands, class F>
[[gnu::always_inline]] inline S combine_row(const Operands& operands, const S* reduced, index_t row, index_t columns,
                                            F&& lanes) {
  using P = Packet<S>;
  const auto most = static_cast<std::uint64_t>(std::min(columns, expr::row_chains(columns)));
  const index_t chains = std::max(P::width, static_cast<index_t>(std::bit_ceil(most)));
  std::array<S, static_cast<std::size_t>(expr::most_row_chains)> totals;
  std::fill_n(totals.data(), chains, O::template neutral<S>());
  for_packets<S>(
      operands, reduced, row, 0, columns, [&](const auto& env) __attribute__((always_inline)) {
        S* total = totals.data() + (env.column_index & (chains - 1));
        O::combine(P::load(total), fill_up(lanes(env), env.count, O::template neutral<S>())).store(total);
      });
  fold_chains<O>(totals.data(), chains, P::width);
  if constexpr (std::is_base_of_v<expr::Sum, O>) return sum(P::load(totals.data()));
  fold_chains<O>(totals.data(), P::width, 1);
  return totals[0];
}

/// Computes reductions 0 … E::reductions-1 of one row, inner ones first.
template <class S, int Which = 0, class E, class Operands>
void reduce_row(const E& e, const Operands& operands, index_t row, index_t columns, S* reduced) {
  if constexpr (Which < E::reductions) {
    const auto found = e.template reduction<Which, 0>();
    using Found = std::remove_cvref_t<decltype(found)>;
    using Node = std::remove_cvref_t<decltype(found.node)>;
    using O = typename Node::op;
    typename decltype(Node::in)::template Tape<Packet<S>> tape;
    found.node.in.template forward<Found::base>(tape, row_constants(operands, reduced, row));
    const S total = combine_row<O>(
        operands, reduced, row, columns, [&](const auto& env) __attribute__((always_inline)) {
          found.node.in.template forward<Found::base>(tape, env);
          return tape.value;
        });
    reduced[Which] = O::finish(total, columns);
    reduce_row<S, Which + 1>(e, operands, row, columns, reduced);
  }
}

}  // namespace K3SPEC_NAMESPACE::cpu
