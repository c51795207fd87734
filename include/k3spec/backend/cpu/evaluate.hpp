#pragma once
/// \file
/// Runs an expression over the rows of its operands on the CPU, in packets. An element's value depends on its row and
/// column alone: packets at the end of a row are filled up, never replaced by scalar code.
/// defines: evaluate, evaluate_rows

#include <algorithm>
#include <string>
#include <tuple>

#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/backend/cpu/reduce_row.hpp>
#include <k3spec/core/operand.hpp>
#include <k3spec/expr/check.hpp>

namespace K3SPEC_NAMESPACE {

namespace cpu {

/// Elements that are worth a thread's while.
inline constexpr index_t grain = 8192;

/// Calls f(row begin, row end, column begin, column end) for pieces of a [rows, columns] loop, in parallel. Rows are
/// only cut into columns where `splits_rows` allows it.
template <class F>
void for_pieces(const Cpu& cpu, index_t rows, index_t columns, bool splits_rows, F&& f) {
  if (rows == 0 || columns == 0) return;
  const index_t width = splits_rows ? std::min(columns, grain) : columns;
  const index_t height = std::max<index_t>(1, grain / width);
  const index_t across = ceil_div(columns, width), down = ceil_div(rows, height);
  parallel_for(cpu, down * across, [&](index_t i) {
    const index_t r = i / across * height, c = i % across * width;
    f(r, std::min(rows, r + height), c, std::min(columns, c + width));
  });
}

}  // namespace cpu

/// Several formulas in one pass: see outputs (expr/results.hpp).
template <class... E, class... Y, class... X>
void evaluate(const Cpu& cpu, const std::tuple<E...>& e, const std::tuple<Y...>& y, const X&... x) {
  static_assert(sizeof...(E) == sizeof...(Y), "one output for each formula");
  using S = accumulate_t<typename std::tuple_element_t<0, std::tuple<Y...>>::value_type>;
  constexpr auto each = std::index_sequence_for<E...>{};
  const auto operands = std::tuple(as_matrix(x)...);
  const index_t rows = std::get<0>(y).extent(0), columns = std::get<0>(y).extent(1);
  expr::check_operands<E...>(rows, columns, operands);
  expr::check_outputs(y);
  constexpr bool reduces = ((E::reductions > 0) || ...);
  static_assert(!reduces || sizeof...(E) == 1, "formulas with row reductions are evaluated one at a time");
  cpu::for_pieces(cpu, rows, columns, !reduces, [&](index_t r0, index_t r1, index_t c0, index_t c1) {
    for (index_t r = r0; r < r1; ++r) {
      std::array<S, static_cast<std::size_t>(std::max(1, (E::reductions + ...)))> reduced{};
      if constexpr (reduces) cpu::reduce_row<S>(std::get<0>(e), operands, r, columns, reduced.data());
      std::tuple<typename E::template Tape<Packet<S>>...> tapes;
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        const std::tuple to(std::get<I>(y).row(r)...);
        (std::get<I>(e).template forward<0>(std::get<I>(tapes), cpu::row_constants(operands, reduced.data(), r)), ...);
        const auto packet = [&](const auto& env) __attribute__((always_inline)) {
          (std::get<I>(e).template forward<0>(std::get<I>(tapes), env), ...);
          (std::get<I>(tapes).value.store_first(std::get<I>(to) + env.column_index, env.count), ...);
        };
        cpu::for_packets<S>(operands, reduced.data(), r, c0, c1, packet);
      }
      (each);
    }
  });
}

/// y[r, c] = e(operands at r, c). Operands read as elements are [rows, columns] like y; as columns, [columns]; as
/// rows, [rows]. y may be one of the operands.
template <expr::Expression E, class T, index_t... Y, class... X>
void evaluate(const Cpu& cpu, const E& e, const View<T, Y...>& y, const X&... x) {
  constexpr bool wide = expr::static_columns_agree<E, View<T, Y...>, X...>(), same = (adds_up_as<X, T> && ...);
  constexpr bool here = !is_placed<T> && !(is_placed<typename X::element_type> || ...);
  static_assert(here, "evaluate on Cpu: a view is in another device's memory");
  static_assert(wide, "evaluate: an operand has another number of columns than the result");
  static_assert(same, "evaluate: an operand and the result mix double with float or bfloat16");
  if constexpr (here && wide && same) evaluate(cpu, formulas(e), outputs(y), x...);
}

/// y[r] = e(row r of the operands), for an expression that is one value per row, such as row_sum(…). The first operand
/// is [rows, columns].
template <expr::Expression E, class T, index_t N, class First, class... X>
void evaluate_rows(const Cpu& cpu, const E& e, const View<T, N>& y, const First& first, const X&... x) {
  static_assert(E::row_constant, "evaluate_rows needs an expression with one value per row; reduce it first");
  using S = accumulate_t<T>;
  const auto operands = std::tuple(as_matrix(first), as_matrix(x)...);
  const index_t rows = std::get<0>(operands).extent(0), columns = std::get<0>(operands).extent(1);
  expr::check_operands<E>(rows, columns, operands);
  if (y.extent(0) != rows) throw Error("evaluate_rows: result", std::to_string(y.extent(0)), std::to_string(rows));
  cpu::for_pieces(cpu, rows, std::max<index_t>(columns, 1), false, [&](index_t r0, index_t r1, index_t, index_t) {
    for (index_t r = r0; r < r1; ++r) {
      std::array<S, static_cast<std::size_t>(std::max(1, E::reductions))> reduced{};
      cpu::reduce_row<S>(e, operands, r, columns, reduced.data());
      typename E::template Tape<Packet<S>> tape;
      e.template forward<0>(tape, cpu::row_constants(operands, reduced.data(), r));
      tape.value.store_first(y.data() + r, 1);
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
