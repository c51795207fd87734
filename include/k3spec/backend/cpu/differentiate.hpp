#pragma once
/// \file
/// The derivative of an expression on the CPU: from d_y to the gradients of its operands, in one or (with row
/// reductions) a few passes over each row. Nothing but the operands is needed from the forward pass.
/// defines: differentiate, differentiate_rows

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/expr/derivatives.hpp>
#include <k3spec/expr/walk.hpp>

namespace K3SPEC_NAMESPACE {

namespace cpu {

/// The adjoints d of an operand's elements from (row, column) on, sent to their destination.
template <class S>
void deliver(Packet<S>, const NoGradient&, index_t, index_t, index_t) {}
/// They replace what was there.
template <class S, class T>
void deliver(Packet<S> d, const Overwrite<T>& g, index_t row, index_t column, index_t count) {
  d.store_first(g.to.row(row) + column, count);
}
/// They are added to what was there.
template <class S, class T>
void deliver(Packet<S> d, const Accumulate<T>& g, index_t row, index_t column, index_t count) {
  T* p = g.to.row(row) + column;
  (Packet<S>::load_first(p, count) + d).store_first(p, count);
}

/// d_y of an expression with a value per element.
template <class T>
struct ElementAdjoint {
  Matrix<const T> d;
  template <class S, class Env>
  Packet<S> lanes(const Env& env) const {
    return Packet<S>::load_first(d.row(env.row_index) + env.column_index, env.count);
  }
};

/// d_y of an expression with one value per row: counted once, in the row's first lane.
template <class T>
struct RowAdjoint {
  Vector<const T> d;
  template <class S, class Env>
  Packet<S> lanes(const Env& env) const {
    if (env.column_index > 0) return Packet<S>(S(0));
    return Packet<S>::load_first(d.data() + env.row_index, 1);
  }
};

/// Everything the passes share.
template <class S, class E, class D, class Operands, class G>
struct Differential {
  static constexpr int count = static_cast<int>(std::tuple_size_v<Operands>);
  static constexpr auto each = std::make_index_sequence<static_cast<std::size_t>(count)>{};
  using State = expr::RowState<S, E::reductions>;
  using Sink = expr::AdjointSink<S, Packet<S>, count, E::reductions>;
  using Tapes = expr::WalkTapes<Packet<S>, E>;

  E e;
  D d_y;
  Operands operands;
  G grads;
  index_t row_count, column_count;

  [[gnu::always_inline]] inline void row_state(index_t row, State& s) const {
    reduce_row<S>(e, operands, row, column_count, s.value.data());
    reduction_adjoints<E::reductions - 1>(row, s);
  }

  /// Adjoints of reductions Which, Which-1, … 0 of a row; those above Which are known.
  template <int Which>
  [[gnu::always_inline]] inline void reduction_adjoints(index_t row, State& s) const {
    if constexpr (Which >= 0) {
      Tapes tapes = row_tapes<Which + 1>(row, s);
      s.adjoint[Which] = combine_row<expr::Sum>(
          operands, s.value.data(), row, column_count, [&](const auto& env) __attribute__((always_inline)) {
            return adjoints<Which + 1>(env, s, tapes).reductions[Which];
          });
      reduction_adjoints<Which - 1>(row, s);
    }
  }

  /// Tapes with what is the same in all of a row.
  template <int From>
  [[gnu::always_inline]] inline Tapes row_tapes(index_t row, const State& s) const {
    Tapes tapes;
    expr::walk_forward<From>(e, row_constants(operands, s.value.data(), row), tapes);
    return tapes;
  }
  template <int From, class Env>
  [[gnu::always_inline]] inline Sink adjoints(const Env& env, const State& s, Tapes& tapes) const {
    Sink sink;
    expr::walk<From>(e, env, tapes, s.adjoint.data(), column_count, d_y.template lanes<S>(env), sink);
    return sink;
  }

  /// Element gradients of one row, columns [begin, end).
  [[gnu::always_inline]] inline void elements(index_t row, index_t begin, index_t end, const State& s) const {
    Tapes tapes = row_tapes<0>(row, s);
    for_packets<S>(
        operands, s.value.data(), row, begin, end, [&](const auto& env) __attribute__((always_inline)) {
          const Sink sink = adjoints<0>(env, s, tapes);
          [&]<std::size_t... I>(std::index_sequence<I...>) { (element<I>(sink.operands[I], env), ...); }
          (each);
        });
  }
  template <std::size_t I, class Env>
  void element(Packet<S> d, const Env& env) const {
    if constexpr (!expr::reads_column<static_cast<int>(I), E>) {
      deliver(d, std::get<I>(grads), env.row_index, env.column_index, env.count);
    }
  }

  static constexpr index_t chains = expr::column_chains, longest_block = 512;
  /// Columns that are summed together: where rows are long, a short block would read a few cache lines of each.
  index_t block() const { return column_count < 4 * longest_block ? 64 : longest_block; }

  /// Column gradients of a block of columns [begin, end): summed over rows in the order of expr/order.hpp, then
  /// delivered. states: [rows] or null when there are no reductions.
  [[gnu::always_inline]] inline void columns(index_t begin, index_t end, const State* states) const {
    const index_t width = block();
    std::array<std::array<S, chains * longest_block>, static_cast<std::size_t>(count)> sums;
    for (auto& of_operand : sums) std::fill_n(of_operand.data(), chains * width, S(0));
    const State empty{};
    for (index_t r = 0; r < row_count; ++r) {
      const State& s = states == nullptr ? empty : states[r];
      Tapes tapes = row_tapes<0>(r, s);
      for_packets<S>(
          operands, s.value.data(), r, begin, end, [&](const auto& env) __attribute__((always_inline)) {
            const Sink sink = adjoints<0>(env, s, tapes);
            [&]<std::size_t... I>(std::index_sequence<I...>) {
              (add_to_chain<I>(sums[I].data() + r % chains * width + (env.column_index - begin), sink.operands[I]),
               ...);
            }
            (each);
          });
    }
    [&]<std::size_t... I>(std::index_sequence<I...>) { (column<I>(sums[I].data(), width, begin, end), ...); }
    (each);
  }
  template <std::size_t I>
  static void add_to_chain(S* chain, Packet<S> d) {
    // Lanes past the last column add to room that no column uses.
    if constexpr (expr::reads_column<static_cast<int>(I), E>) (Packet<S>::load(chain) + d).store(chain);
  }
  template <std::size_t I>
  void column(S* sums, index_t width, index_t begin, index_t end) const {
    if constexpr (expr::reads_column<static_cast<int>(I), E>) {
      fold_chains<expr::Sum>(sums, chains * width, width);
      for (index_t j = begin; j < end; j += Packet<S>::width) {
        const index_t n = std::min(Packet<S>::width, end - j);
        deliver(Packet<S>::load_first(sums + (j - begin), n), std::get<I>(grads), 0, j, n);
      }
    }
  }
};

/// All gradients of e in one pass over its operands.
template <class S, class E, class D, class G, Allocator A, class Operands>
void differentiate_all(const Cpu& cpu, const E& e, const D& d_y, const G& grads, A& scratch,
                       const Extents<dyn, dyn>& shape, const Operands& operands) {
  const index_t rows = shape[0], columns = shape[1];
  static_assert(std::tuple_size_v<G> == std::tuple_size_v<Operands>,
                "one gradient for each operand: no_gradient, overwrite(view) or accumulate(view)");
  expr::check_operands<E>(rows, columns, operands);
  expr::check_gradients<E>(rows, columns, grads);
  using Work = Differential<S, E, D, Operands, G>;
  const Work work{e, d_y, operands, grads, rows, columns};
  constexpr bool sums_rows = expr::any_column_gradient<E>(static_cast<const G*>(nullptr));
  constexpr bool keeps = sums_rows && E::reductions > 0;
  Scope scope(scratch);
  auto* states = scratch.template take<typename Work::State>(keeps ? rows : 0);
  for_pieces(cpu, rows, columns, E::reductions == 0, [&](index_t r0, index_t r1, index_t c0, index_t c1) {
    const Work here = work;
    for (index_t r = r0; r < r1; ++r) {
      typename Work::State state{};
      if constexpr (E::reductions > 0) here.row_state(r, state);
      if constexpr (keeps) states[r] = state;
      here.elements(r, c0, c1, state);
    }
  });
  if constexpr (sums_rows) {
    parallel_for(cpu, ceil_div(columns, work.block()), [&](index_t i) {
      const Work here = work;
      const index_t begin = i * work.block();
      here.columns(begin, std::min(columns, begin + work.block()), keeps ? states : nullptr);
    });
  }
}

}  // namespace cpu

/// From d_y [rows, columns] = d loss / d y to the gradients of y = e(x…): `grads` says for each operand where it goes.
/// A gradient of a `column<I>` operand is summed over the rows.
/// \param scratch  differentiate_scratch bytes, given back on return
template <expr::Expression E, class T, index_t... Y, class... G, Allocator A, class... X>
void differentiate(const Cpu& cpu, const E& e, const View<T, Y...>& d_y, const std::tuple<G...>& grads, A& scratch,
                   const X&... x) {
  constexpr bool wide = expr::static_columns_agree<E, View<T, Y...>, X...>(), same = (adds_up_as<X, T> && ...);
  constexpr bool here = !is_placed<T> && !(is_placed<typename X::element_type> || ...);
  static_assert(here, "differentiate on Cpu: a view is in another device's memory");
  static_assert(wide, "differentiate: an operand has another number of columns than d_y");
  static_assert(same, "differentiate: an operand and d_y mix double with float or bfloat16");
  constexpr bool smooth = expr::has_derivatives<E>;
  static_assert(smooth, "differentiate: a function of the expression has no derivative beside its value");
  if constexpr (here && wide && same && smooth) {
    const auto d = as_matrix(d_y);
    cpu::differentiate_all<accumulate_t<T>>(cpu, e, cpu::ElementAdjoint<std::remove_cv_t<T>>{d}, grads, scratch,
                                            d.extents(), std::tuple(as_matrix(x)...));
  }
}

/// The same for an expression with one value per row (evaluate_rows): d_y is [rows].
template <expr::Expression E, class T, index_t N, class... G, Allocator A, class... X>
void differentiate_rows(const Cpu& cpu, const E& e, const View<T, N>& d_y, const std::tuple<G...>& grads, A& scratch,
                        const X&... x) {
  static_assert(E::row_constant, "differentiate_rows needs an expression with one value per row");
  const auto operands = std::tuple(as_matrix(x)...);
  const auto& first = std::get<0>(operands);
  if (d_y.extent(0) != first.extent(0)) {
    throw Error("differentiate_rows: d_y", std::to_string(d_y.extent(0)), std::to_string(first.extent(0)) + " rows");
  }
  cpu::differentiate_all<accumulate_t<T>>(cpu, e, cpu::RowAdjoint<std::remove_cv_t<T>>{d_y}, grads, scratch,
                                          first.extents(), operands);
}

}  // namespace K3SPEC_NAMESPACE
