#pragma once
/// \file
/// Runs an expression over the rows of its operands on the CPU, in packets. An element's value depends on its row and
/// column alone: packets at the end of a row are filled up, never replaced by scalar code.
/// defines: evaluate, evaluate_rows, outputs, formulas

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>

#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/backend/cpu/row_env.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/expr/reads.hpp>

namespace k3spec {

namespace cpu {

/// Elements that are worth a thread's while.
inline constexpr index_t grain = 8192;

/// Calls f(env) for each packet of a row; the last one may be partial.
template <class S, class Operands, class F>
void for_packets(const Operands& operands, const S* reduced, index_t row, index_t begin, index_t end, F&& f) {
  constexpr index_t width = Packet<S>::width;
  index_t j = begin;
  for (; j + width <= end; j += width) f(RowEnv<S, true, Operands>{operands, reduced, row, j, width});
  if (j < end) f(RowEnv<S, false, Operands>{operands, reduced, row, j, end - j});
}

/// The lanes past `count` replaced by `neutral`.
template <class S>
Packet<S> fill_up(Packet<S> x, index_t count, S neutral) {
  if (count == Packet<S>::width) return x;
  std::array<S, static_cast<std::size_t>(Packet<S>::width)> lanes;
  lanes.fill(neutral);
  x.store_first(lanes.data(), count);
  return Packet<S>::load(lanes.data());
}

/// Computes reductions 0 … E::reductions-1 of one row, inner ones first.
template <class S, int Which = 0, class E, class Operands>
void reduce_row(const E& e, const Operands& operands, index_t row, index_t columns, S* reduced) {
  if constexpr (Which < E::reductions) {
    e.template find_reduction<Which, 0>([&](auto base, const auto& node) {
      using O = typename std::remove_cvref_t<decltype(node)>::op;
      constexpr int inner = decltype(base)::value;
      Packet<S> total(O::template neutral<S>());
      for_packets<S>(operands, reduced, row, 0, columns, [&](const auto& env) {
        typename std::remove_cvref_t<decltype(node.in)>::template Tape<Packet<S>> tape;
        node.in.template forward<inner>(tape, env);
        total = O::combine(total, fill_up(tape.value, env.count, O::template neutral<S>()));
      });
      reduced[Which] = O::finish(O::across(total), columns);
    });
    reduce_row<S, Which + 1>(e, operands, row, columns, reduced);
  }
}

/// Calls f(row begin, row end, column begin, column end) for pieces of a [rows, columns] loop, in parallel. Rows are
/// only cut into columns where `splits_rows` allows it.
template <class F>
void for_pieces(const Cpu& cpu, index_t rows, index_t columns, bool splits_rows, F&& f) {
  if (rows == 0 || columns == 0) return;
  const index_t width = splits_rows ? std::min(columns, grain) : columns;
  const index_t height = std::max<index_t>(1, grain / width);
  const index_t across = (columns + width - 1) / width, down = (rows + height - 1) / height;
  parallel_for(cpu, down * across, [&](index_t i) {
    const index_t r = i / across * height, c = i % across * width;
    f(r, std::min(rows, r + height), c, std::min(columns, c + width));
  });
}

inline void check_shape(std::string_view what, index_t which, index_t r, index_t c, index_t rows, index_t columns) {
  if (r == rows && c == columns) return;
  throw Error("expression: " + std::string(what) + " " + std::to_string(which),
              std::to_string(r) + " x " + std::to_string(c), std::to_string(rows) + " x " + std::to_string(columns));
}

/// Operand or gradient I of a [rows, columns] expression has the shape it is read with; vectors count as one row.
template <int I, class... E, class M>
void check_operand(std::string_view what, index_t rows, index_t columns, const M& m) {
  const index_t r = m.extent(0), c = m.extent(1);
  if constexpr ((expr::reads<I, expr::Reads::element, E> || ...)) check_shape(what, I, r, c, rows, columns);
  if constexpr ((expr::reads<I, expr::Reads::column, E> || ...)) check_shape(what, I, r, c, 1, columns);
  if constexpr ((expr::reads<I, expr::Reads::row, E> || ...)) check_shape(what, I, r, c, 1, rows);
}

/// E… are the formulas that read the operands.
template <class... E, class Operands, std::size_t... I>
void check_operands([[maybe_unused]] index_t rows, [[maybe_unused]] index_t columns, const Operands& operands,
                    std::index_sequence<I...>) {
  (check_operand<static_cast<int>(I), E...>("operand", rows, columns, std::get<I>(operands)), ...);
}

}  // namespace cpu

/// Several results of one pass: `evaluate(cpu, formulas(e0, e1), outputs(y0, y1), operands…)`. All formulas are
/// evaluated on a packet before any of its results is stored, so that operands may be among the outputs.
template <class... Y>
auto outputs(const Y&... y) {
  return std::tuple(cpu::as_matrix(y)...);
}
template <expr::Expression... E>
constexpr std::tuple<E...> formulas(const E&... e) {
  return {e...};
}

template <class... E, class... Y, class... X>
void evaluate(const Cpu& cpu, const std::tuple<E...>& e, const std::tuple<Y...>& y, const X&... x) {
  static_assert(sizeof...(E) == sizeof...(Y), "one output for each formula");
  using S = accumulate_t<typename std::tuple_element_t<0, std::tuple<Y...>>::value_type>;
  constexpr auto each = std::index_sequence_for<E...>{};
  const auto operands = std::tuple(cpu::as_matrix(x)...);
  const index_t rows = std::get<0>(y).extent(0), columns = std::get<0>(y).extent(1);
  cpu::check_operands<E...>(rows, columns, operands, std::index_sequence_for<X...>{});
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (cpu::check_shape("output", static_cast<index_t>(I), std::get<I>(y).extent(0), std::get<I>(y).extent(1), rows,
                      columns),
     ...);
  }
  (each);
  constexpr bool reduces = ((E::reductions > 0) || ...);
  static_assert(!reduces || sizeof...(E) == 1, "formulas with row reductions are evaluated one at a time");
  cpu::for_pieces(cpu, rows, columns, !reduces, [&](index_t r0, index_t r1, index_t c0, index_t c1) {
    for (index_t r = r0; r < r1; ++r) {
      std::array<S, static_cast<std::size_t>(std::max(1, (E::reductions + ...)))> reduced{};
      if constexpr (reduces) cpu::reduce_row<S>(std::get<0>(e), operands, r, columns, reduced.data());
      cpu::for_packets<S>(operands, reduced.data(), r, c0, c1, [&](const auto& env) {
        std::tuple<typename E::template Tape<Packet<S>>...> tapes;
        [&]<std::size_t... I>(std::index_sequence<I...>) {
          (std::get<I>(e).template forward<0>(std::get<I>(tapes), env), ...);
          (std::get<I>(tapes).value.store_first(std::get<I>(y).row(r) + env.column_index, env.count), ...);
        }
        (each);
      });
    }
  });
}

/// y[r, c] = e(operands at r, c). Operands read as elements are [rows, columns] like y; as columns, [columns]; as
/// rows, [rows]. y may be one of the operands.
template <expr::Expression E, class T, index_t... Y, class... X>
void evaluate(const Cpu& cpu, const E& e, const View<T, Y...>& y, const X&... x) {
  evaluate(cpu, formulas(e), outputs(y), x...);
}

/// y[r] = e(row r of the operands), for an expression that is one value per row, e.g. row_sum(…). The first operand is
/// [rows, columns].
template <expr::Expression E, class T, index_t N, class First, class... X>
void evaluate_rows(const Cpu& cpu, const E& e, const View<T, N>& y, const First& first, const X&... x) {
  static_assert(E::row_constant, "evaluate_rows needs an expression with one value per row; reduce it first");
  using S = accumulate_t<T>;
  const auto operands = std::tuple(cpu::as_matrix(first), cpu::as_matrix(x)...);
  const index_t rows = std::get<0>(operands).extent(0), columns = std::get<0>(operands).extent(1);
  cpu::check_operands<E>(rows, columns, operands, std::make_index_sequence<1 + sizeof...(X)>{});
  if (y.extent(0) != rows) throw Error("evaluate_rows: result", std::to_string(y.extent(0)), std::to_string(rows));
  cpu::for_pieces(cpu, rows, std::max<index_t>(columns, 1), false, [&](index_t r0, index_t r1, index_t, index_t) {
    for (index_t r = r0; r < r1; ++r) {
      std::array<S, static_cast<std::size_t>(std::max(1, E::reductions))> reduced{};
      cpu::reduce_row<S>(e, operands, r, columns, reduced.data());
      typename E::template Tape<Packet<S>> tape;
      e.template forward<0>(tape, cpu::RowEnv<S, false, decltype(operands)>{operands, reduced.data(), r, 0, 1});
      tape.value.store_first(y.data() + r, 1);
    }
  });
}

}  // namespace k3spec
