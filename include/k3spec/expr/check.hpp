#pragma once
/// \file
/// Operands, outputs and gradients have the shapes that an expression reads them with. Every device checks the same.
/// defines: expr::check_shape, check_operands, check_outputs, check_gradients

#include <string>
#include <string_view>
#include <utility>

#include <k3spec/core/error.hpp>
#include <k3spec/expr/reads.hpp>
#include <k3spec/expr/results.hpp>

namespace K3SPEC_NAMESPACE::expr {

/// Refuses what is r x c where rows x columns are wanted.
inline void check_shape(std::string_view what, index_t which, index_t r, index_t c, index_t rows, index_t columns) {
  if (r == rows && c == columns) return;
  throw Error("expression: " + std::string(what) + " " + std::to_string(which),
              std::to_string(r) + " x " + std::to_string(c), std::to_string(rows) + " x " + std::to_string(columns));
}

/// Operand or gradient I of a [rows, columns] expression has the shape it is read with; vectors count as one row.
template <int I, class... E, class M>
void check_operand(std::string_view what, index_t rows, index_t columns, const M& m) {
  const index_t r = m.extent(0), c = m.extent(1);
  if constexpr ((reads<I, Reads::element, E> || ...)) check_shape(what, I, r, c, rows, columns);
  if constexpr ((reads<I, Reads::column, E> || ...)) check_shape(what, I, r, c, 1, columns);
  if constexpr ((reads<I, Reads::row, E> || ...)) check_shape(what, I, r, c, 1, rows);
}

/// Columns of a view as far as its type says: dyn where it does not.
template <class V>
constexpr index_t static_columns() {
  return V::rank <= 2 ? V::extents_type::statics.back() : dyn;
}

/// Whether operands X… of a formula E with results in Y may have the columns that it reads them with, as far as their
/// types say.
template <class E, class Y, class... X>
constexpr bool static_columns_agree() {
  constexpr index_t wanted = static_columns<Y>();
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return ((!(reads<static_cast<int>(I), Reads::element, E> || reads<static_cast<int>(I), Reads::column, E>) ||
             wanted == dyn || static_columns<X>() == dyn || static_columns<X>() == wanted) &&
            ...);
  }
  (std::index_sequence_for<X...>{});
}

/// E… are the formulas that read the operands.
template <class... E, class... X>
void check_operands([[maybe_unused]] index_t rows, [[maybe_unused]] index_t columns,
                    [[maybe_unused]] const std::tuple<X...>& operands) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (check_operand<static_cast<int>(I), E...>("operand", rows, columns, std::get<I>(operands)), ...);
  }
  (std::index_sequence_for<X...>{});
}

/// All outputs of one pass have the first one's shape.
template <class... Y>
void check_outputs(const std::tuple<Y...>& y) {
  const index_t rows = std::get<0>(y).extent(0), columns = std::get<0>(y).extent(1);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (check_shape("output", static_cast<index_t>(I), std::get<I>(y).extent(0), std::get<I>(y).extent(1), rows, columns),
     ...);
  }
  (std::index_sequence_for<Y...>{});
}

/// An operand without a gradient needs no destination.
template <class E, int I>
void check_gradient(index_t, index_t, const NoGradient&) {}
/// Gradient I's destination has the shape of its operand.
template <class E, int I, class G>
void check_gradient(index_t rows, index_t columns, const G& destination) {
  static_assert(!reads<I, Reads::row, E>, "a row<I> operand has no gradient yet: its destination must be no_gradient");
  static_assert(reads<I, Reads::element, E> || reads<I, Reads::column, E>,
                "an operand that the expression never reads has no gradient: its destination must be no_gradient");
  check_operand<I, E>("gradient", rows, columns, destination.to);
}

/// Every gradient's destination has the shape of its operand.
template <class E, class... G>
void check_gradients(index_t rows, index_t columns, const std::tuple<G...>& grads) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (check_gradient<E, static_cast<int>(I)>(rows, columns, std::get<I>(grads)), ...);
  }
  (std::index_sequence_for<G...>{});
}

}  // namespace K3SPEC_NAMESPACE::expr
