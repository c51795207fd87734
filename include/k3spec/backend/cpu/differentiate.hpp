#pragma once
/// \file
/// The derivative of an expression on the CPU: from d_y to the gradients of its operands, in one or (with row
/// reductions) a few passes over each row. Nothing but the operands is needed from the forward pass.
/// defines: none, overwrite, accumulate, gradients, differentiate_scratch, differentiate, differentiate_rows

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/core/arena.hpp>

namespace k3spec {

/// An operand that gets no gradient.
struct None {};
inline constexpr None none{};

/// An operand whose gradient replaces what is in the view.
template <class T>
struct Overwrite {
  Matrix<T> to;
};
/// An operand whose gradient is added to what is in the view.
template <class T>
struct Accumulate {
  Matrix<T> to;
};

template <class T, index_t... E>
constexpr Overwrite<T> overwrite(const View<T, E...>& v) {
  return {cpu::as_matrix(v)};
}
template <class T, index_t... E>
constexpr Accumulate<T> accumulate(const View<T, E...>& v) {
  return {cpu::as_matrix(v)};
}

/// The gradients' destinations, one for each operand: none, overwrite(view) or accumulate(view).
template <class... G>
constexpr std::tuple<G...> gradients(const G&... g) {
  return {g...};
}

namespace cpu {

/// True if placeholder I is read per column: its gradient is a sum over rows.
template <int I, class E>
inline constexpr bool reads_column = expr::reads<I, expr::Reads::column, E>;

/// Values and adjoints of the reductions of one row.
template <class S, int M>
struct RowState {
  std::array<S, static_cast<std::size_t>(M == 0 ? 1 : M)> value, adjoint;
};

/// Sends the known adjoints of reductions Which and above through their own subtrees.
template <class S, int Which, class E, class Env, class Sink>
void walk_reductions(const E& e, const Env& env, const S* adjoint, index_t columns, Sink& sink) {
  if constexpr (Which < E::reductions) {
    e.template find_reduction<Which, 0>([&](auto base, const auto& node) {
      using Node = std::remove_cvref_t<decltype(node)>;
      if constexpr (!std::is_same_v<typename Node::op, expr::Maximum>) {
        typename std::remove_cvref_t<decltype(node.in)>::template Tape<Packet<S>> tape;
        node.in.template forward<decltype(base)::value>(tape, env);
        const Packet<S> share(Node::op::share(adjoint[Which], columns));
        node.in.template backward<decltype(base)::value>(tape, share, sink);
      }
    });
    walk_reductions<S, Which + 1>(e, env, adjoint, columns, sink);
  }
}

/// Sends d_y through the whole tree, and the adjoints of reductions From and above through theirs.
template <class S, int From, class E, class Env, class Sink>
void walk(const E& e, const Env& env, const S* adjoint, index_t columns, Packet<S> d_y, Sink& sink) {
  typename E::template Tape<Packet<S>> tape;
  e.template forward<0>(tape, env);
  e.template backward<0>(tape, d_y, sink);
  walk_reductions<S, From>(e, env, adjoint, columns, sink);
}

/// Adjoints of reductions Which, Which-1, … 0 of a row; those above Which are known.
template <class S, int Which, class E, class D, class Operands>
void reduction_adjoints(const E& e, const D& d_y, const Operands& operands, index_t row, index_t columns,
                        RowState<S, E::reductions>& s) {
  if constexpr (Which >= 0) {
    Packet<S> total(S(0));
    for_packets<S>(operands, s.value.data(), row, 0, columns, [&](const auto& env) {
      AdjointSink<S, static_cast<int>(std::tuple_size_v<Operands>), E::reductions> sink;
      walk<S, Which + 1>(e, env, s.adjoint.data(), columns, d_y.template lanes<S>(env), sink);
      total = total + fill_up(sink.reductions[Which], env.count, S(0));
    });
    s.adjoint[Which] = sum(total);
    reduction_adjoints<S, Which - 1>(e, d_y, operands, row, columns, s);
  }
}

template <class S>
void deliver(Packet<S>, const None&, index_t, index_t, index_t) {}
template <class S, class T>
void deliver(Packet<S> d, const Overwrite<T>& g, index_t row, index_t column, index_t count) {
  d.store_first(g.to.row(row) + column, count);
}
template <class S, class T>
void deliver(Packet<S> d, const Accumulate<T>& g, index_t row, index_t column, index_t count) {
  T* p = g.to.row(row) + column;
  (Packet<S>::load_first(p, count) + d).store_first(p, count);
}

template <class E, class G, std::size_t... I>
constexpr bool any_column_gradient(std::index_sequence<I...>) {
  return ((reads_column<static_cast<int>(I), E> && !std::is_same_v<std::tuple_element_t<I, G>, None>) || ...);
}

template <class E, class G, std::size_t... I>
void check_gradients(index_t rows, index_t columns, const G& grads, std::index_sequence<I...>) {
  const auto check = [&]<int Which, class D>(std::integral_constant<int, Which>, const D& destination) {
    if constexpr (!std::is_same_v<D, None>) {
      static_assert(!expr::reads<Which, expr::Reads::row, E>,
                    "a row<I> operand has no gradient yet: its destination must be none");
      check_operand<Which, E>("gradient", rows, columns, destination.to);
    }
  };
  (check(std::integral_constant<int, static_cast<int>(I)>{}, std::get<I>(grads)), ...);
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
  using State = RowState<S, E::reductions>;
  using Sink = AdjointSink<S, count, E::reductions>;

  const E& e;
  const D& d_y;
  const Operands& operands;
  const G& grads;
  index_t row_count, column_count;

  void row_state(index_t row, State& s) const {
    reduce_row<S>(e, operands, row, column_count, s.value.data());
    reduction_adjoints<S, E::reductions - 1>(e, d_y, operands, row, column_count, s);
  }

  template <class Env>
  Sink adjoints(const Env& env, const State& s) const {
    Sink sink;
    walk<S, 0>(e, env, s.adjoint.data(), column_count, d_y.template lanes<S>(env), sink);
    return sink;
  }

  /// Element gradients of one row, columns [begin, end).
  void elements(index_t row, index_t begin, index_t end, const State& s) const {
    for_packets<S>(operands, s.value.data(), row, begin, end, [&](const auto& env) {
      const Sink sink = adjoints(env, s);
      [&]<std::size_t... I>(std::index_sequence<I...>) { (element<I>(sink.operands[I], env), ...); }
      (std::make_index_sequence<static_cast<std::size_t>(count)>{});
    });
  }
  template <std::size_t I, class Env>
  void element(Packet<S> d, const Env& env) const {
    if constexpr (!reads_column<static_cast<int>(I), E>) {
      deliver(d, std::get<I>(grads), env.row_index, env.column_index, env.count);
    }
  }

  /// Column gradients of columns [begin, end), at most `block` of them: summed over rows first to last, then
  /// delivered. states: [rows] or null when there are no reductions.
  static constexpr index_t block = 64;
  void columns(index_t begin, index_t end, const State* states) const {
    std::array<std::array<S, block>, static_cast<std::size_t>(count)> sums{};
    const State empty{};
    for (index_t r = 0; r < row_count; ++r) {
      const State& s = states == nullptr ? empty : states[r];
      for_packets<S>(operands, s.value.data(), r, begin, end, [&](const auto& env) {
        const Sink sink = adjoints(env, s);
        for (std::size_t i = 0; i < sums.size(); ++i) {
          S* p = sums[i].data() + (env.column_index - begin);
          (Packet<S>::load_first(p, env.count) + sink.operands[i]).store_first(p, env.count);
        }
      });
    }
    [&]<std::size_t... I>(std::index_sequence<I...>) { (column<I>(sums[I].data(), begin, end), ...); }
    (std::make_index_sequence<static_cast<std::size_t>(count)>{});
  }
  template <std::size_t I>
  void column(const S* sums, index_t begin, index_t end) const {
    if constexpr (reads_column<static_cast<int>(I), E>) {
      for (index_t j = begin; j < end; j += Packet<S>::width) {
        const index_t n = std::min(Packet<S>::width, end - j);
        deliver(Packet<S>::load_first(sums + (j - begin), n), std::get<I>(grads), 0, j, n);
      }
    }
  }
};

}  // namespace cpu

/// Bytes of scratch that differentiate takes for `rows` rows: only expressions with both a row reduction and a column
/// gradient need any.
template <class E, class S>
constexpr std::size_t differentiate_scratch(index_t rows) {
  return plan_bytes([&](auto& a) { a.template take<cpu::RowState<S, E::reductions>>(E::reductions > 0 ? rows : 0); });
}

namespace cpu {

template <class S, class E, class D, class G, class Operands>
void differentiate_all(const Cpu& cpu, const E& e, const D& d_y, const G& grads, Arena& scratch, index_t rows,
                       index_t columns, const Operands& operands) {
  static_assert(std::tuple_size_v<G> == std::tuple_size_v<Operands>,
                "one gradient for each operand: none, overwrite(view) or accumulate(view)");
  constexpr auto each = std::make_index_sequence<std::tuple_size_v<Operands>>{};
  check_operands<E>(rows, columns, operands, each);
  check_gradients<E>(rows, columns, grads, each);
  using Work = Differential<S, E, D, Operands, G>;
  const Work work{e, d_y, operands, grads, rows, columns};
  constexpr bool sums_rows = any_column_gradient<E, G>(each);
  constexpr bool keeps = sums_rows && E::reductions > 0;
  Scope scope(scratch);
  auto* states = scratch.template take<typename Work::State>(keeps ? rows : 0);
  for_pieces(cpu, rows, columns, E::reductions == 0, [&](index_t r0, index_t r1, index_t c0, index_t c1) {
    for (index_t r = r0; r < r1; ++r) {
      typename Work::State state{};
      if constexpr (E::reductions > 0) work.row_state(r, state);
      if constexpr (keeps) states[r] = state;
      work.elements(r, c0, c1, state);
    }
  });
  if constexpr (sums_rows) {
    parallel_for(cpu, (columns + Work::block - 1) / Work::block, [&](index_t i) {
      const index_t begin = i * Work::block;
      work.columns(begin, std::min(columns, begin + Work::block), keeps ? states : nullptr);
    });
  }
}

}  // namespace cpu

/// From d_y [rows, columns] = d loss / d y to the gradients of y = e(x…): `grads` says for each operand where it goes.
/// A gradient of a `column<I>` operand is summed over the rows, in their order.
/// \param scratch  differentiate_scratch bytes, given back on return
template <expr::Expression E, class T, index_t... Y, class... G, class... X>
void differentiate(const Cpu& cpu, const E& e, const View<T, Y...>& d_y, const std::tuple<G...>& grads, Arena& scratch,
                   const X&... x) {
  const auto d = cpu::as_matrix(d_y);
  cpu::differentiate_all<accumulate_t<T>>(cpu, e, cpu::ElementAdjoint<std::remove_cv_t<T>>{d}, grads, scratch,
                                          d.extent(0), d.extent(1), std::tuple(cpu::as_matrix(x)...));
}

/// The same for an expression with one value per row (evaluate_rows): d_y is [rows].
template <expr::Expression E, class T, index_t N, class... G, class... X>
void differentiate_rows(const Cpu& cpu, const E& e, const View<T, N>& d_y, const std::tuple<G...>& grads,
                        Arena& scratch, const X&... x) {
  static_assert(E::row_constant, "differentiate_rows needs an expression with one value per row");
  const auto operands = std::tuple(cpu::as_matrix(x)...);
  const auto& first = std::get<0>(operands);
  if (d_y.extent(0) != first.extent(0)) {
    throw Error("differentiate_rows: d_y", std::to_string(d_y.extent(0)), std::to_string(first.extent(0)) + " rows");
  }
  cpu::differentiate_all<accumulate_t<T>>(cpu, e, cpu::RowAdjoint<std::remove_cv_t<T>>{d_y}, grads, scratch,
                                          first.extent(0), first.extent(1), operands);
}

}  // namespace k3spec
