#pragma once
/// \file
/// Runs an expression on a card: one kernel for any formula. Element formulas take 16 bytes of the smallest operand a
/// thread; formulas with row reductions give each row a team of threads. Operations and orders of sums are those of
/// Cpu, so results are the same bits, but for double's exp, log and tanh, which are the CUDA library's.
/// (Compile with -fmad=false, as the target k3spec::cuda does: a compiler that fuses multiplies and adds by itself
/// breaks this.)
/// defines: evaluate, evaluate_rows

#include <k3spec/backend/cuda/memory.hpp>
#include <k3spec/backend/cuda/reduce_row.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// Where a thread's lanes are.
struct LanePlace {
  index_t row, column;
  int count;
};

/// The formulas' values in V lanes of one row, stored once all are computed.
template <class S, int V, std::size_t N, class... E, class... Y>
__device__ inline void evaluate_lanes(const std::tuple<E...>& e, const std::tuple<Y...>& y, unsigned aligned_y,
                                      const Lanes<S, V, N>& lanes, const S* reduced, const LanePlace& at) {
  constexpr std::size_t outputs = sizeof...(E);
  S value[outputs][V];
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    K3SPEC_UNROLL
    for (int j = 0; j < V; ++j) {
      std::tuple<typename E::template Tape<S>...> tapes;
      (std::get<I>(e).template forward<0>(std::get<I>(tapes), LaneEnv<S, V, N>{lanes, reduced, j}), ...);
      ((value[I][j] = std::get<I>(tapes).value), ...);
    }
    (store_lanes<V>(value[I], std::get<I>(y).row(at.row) + at.column, at.count, (aligned_y >> I & 1U) != 0), ...);
  }
  (std::make_index_sequence<outputs>{});
}

/// Kernel: formulas without reductions, element by element.
template <class S, int V, class E, class Y, class X, class Reading>
__global__ void __launch_bounds__(256, 2) evaluate_elements(E e, Y y, X x, unsigned aligned_y, unsigned aligned_x) {
  const auto& first = std::get<0>(y);
  for_lanes<V>(first.extent(0), first.extent(1), [&](index_t row, index_t column, int n) {
    Lanes<S, V, std::tuple_size_v<X>> lanes;
    load_operands<Reading>(x, aligned_x, row, column, n, lanes);
    evaluate_lanes(e, y, aligned_y, lanes, static_cast<const S*>(nullptr), {row, column, n});
  });
}

/// Kernel: formulas with reductions, a team of warps for each row.
template <class S, int V, int Warps, class E, class Y, class X, class Reading>
__global__ void __launch_bounds__(256, 2) evaluate_by_row(E e, Y y, X x, unsigned aligned_y, unsigned aligned_x) {
  using T = Team<Warps, V>;
  const index_t columns = std::get<0>(y).extent(1);
  T::for_rows(std::get<0>(y).extent(0), [&](index_t row) {
    const RowOperands<S, V, X, Reading> operands{x, aligned_x, row, columns};
    S reduced[std::tuple_element_t<0, E>::reductions];
    reduce_row<T>(std::get<0>(e), operands, reduced);
    T::for_columns(columns, [&](index_t column, int n, int) {
      Lanes<S, V, std::tuple_size_v<X>> lanes;
      operands.load(column, n, lanes);
      evaluate_lanes(e, y, aligned_y, lanes, reduced, {row, column, n});
    });
  });
}

/// One value per row; y is [rows].
template <class S, int V, int Warps, class E, class Y, class X, class Reading>
__global__ void __launch_bounds__(256, 2) evaluate_one_per_row(E e, Y y, X x, unsigned aligned_x) {
  using T = Team<Warps, V>;
  const index_t columns = std::get<0>(x).extent(1);
  T::for_rows(std::get<0>(x).extent(0), [&](index_t row) {
    const RowOperands<S, V, X, Reading> operands{x, aligned_x, row, columns};
    S reduced[E::reductions + 1];
    reduce_row<T>(e, operands, reduced);
    if (T::rank() != 0) return;
    Lanes<S, V, std::tuple_size_v<X>> lanes;
    operands.load(0, columns > 0 ? 1 : 0, lanes);
    typename E::template Tape<S> tape;
    e.template forward<0>(tape, LaneEnv<S, V, std::tuple_size_v<X>>{lanes, reduced, 0});
    y(row) = static_cast<typename Y::value_type>(tape.value);
  });
}

/// Calls f(constant number of warps) with the team that a row of `columns` takes.
template <class F>
void with_team(index_t columns, F&& f) {
  if (columns <= expr::short_row) {
    f(std::integral_constant<int, 1>{});
  } else {
    f(std::integral_constant<int, 8>{});
  }
}

/// Launches evaluate_elements.
template <class S, int V, class Reading, class E, class Y, class X>
void launch_elements(const Cuda& cuda, const E& e, const Y& y, const X& x) {
  const auto run = [&](const Y& to, const X& from) {
    const auto shape = element_shape(cuda, std::get<0>(to).extent(0), std::get<0>(to).extent(1), V);
    launch(cuda, shape, evaluate_elements<S, V, E, Y, X, Reading>, e, to, from, aligned_bits(to), aligned_bits(from));
  };
  const index_t rows = std::get<0>(y).extent(0);
  if constexpr (reads_elements_only<Reading>(static_cast<const X*>(nullptr))) {
    if (all_packed(y, rows) && all_packed(x, rows)) return run(flattened(y), flattened(x));
  }
  run(y, x);
}

/// Several formulas in one pass, on views of the elements themselves.
template <class... E, class... Y, class... X>
void evaluate_all(const Cuda& cuda, const std::tuple<E...>& e, const std::tuple<Y...>& y,
                  const std::tuple<X...>& operands) {
  constexpr bool reduces = ((E::reductions > 0) || ...);
  static_assert(!reduces || sizeof...(E) == 1, "formulas with row reductions are evaluated one at a time");
  using S = accumulate_t<typename std::tuple_element_t<0, std::tuple<Y...>>::value_type>;
  using Operands = std::tuple<X...>;
  using Reading = ReadBy<E...>;
  constexpr int V = lanes_per_thread<typename Y::value_type..., typename X::value_type...>;
  const index_t rows = std::get<0>(y).extent(0), columns = std::get<0>(y).extent(1);
  expr::check_operands<E...>(rows, columns, operands);
  expr::check_outputs(y);
  require_device_memory(cuda, "output", y);
  require_device_memory(cuda, "operand", operands);
  if (rows == 0 || columns == 0) return;
  if constexpr (reduces) {
    with_team(columns, [&](auto warps) {
      constexpr int Warps = decltype(warps)::value;
      launch(cuda, team_shape(cuda, rows, Warps),
             evaluate_by_row<S, V, Warps, std::tuple<E...>, std::tuple<Y...>, Operands, Reading>, e, y, operands,
             aligned_bits(y), aligned_bits(operands));
    });
  } else {
    launch_elements<S, V, Reading>(cuda, e, y, operands);
  }
}

}  // namespace cuda

/// Several formulas in one pass: see outputs (expr/results.hpp).
template <class... E, class... Y, class... X>
void evaluate(const Cuda& cuda, const std::tuple<E...>& e, const std::tuple<Y...>& y, const X&... x) {
  static_assert(sizeof...(E) == sizeof...(Y), "one output for each formula");
  cuda::evaluate_all(cuda, e, cuda::as_outputs(y), cuda::as_operands(x...));
}

/// y[r, c] = e(operands at r, c); the same contract as Cpu's (backend/cpu/evaluate.hpp). Returns before it has run.
template <expr::Expression E, class T, index_t... Y, class... X>
void evaluate(const Cuda& cuda, const E& e, const View<T, Y...>& y, const X&... x) {
  evaluate(cuda, formulas(e), outputs(y), x...);
}

/// y[r] = e(row r of the operands); the same contract as Cpu's.
template <expr::Expression E, class T, index_t N, class First, class... X>
void evaluate_rows(const Cuda& cuda, const E& e, const View<T, N>& y, const First& first, const X&... x) {
  static_assert(E::row_constant, "evaluate_rows needs an expression with one value per row; reduce it first");
  using To = value_t<T>;
  using Reading = cuda::ReadBy<E>;
  const auto operands = cuda::as_operands(first, x...);
  using Operands = std::remove_const_t<decltype(operands)>;
  constexpr int V = cuda::lanes_per_thread<To, value_t<typename First::value_type>, value_t<typename X::value_type>...>;
  const index_t rows = std::get<0>(operands).extent(0), columns = std::get<0>(operands).extent(1);
  expr::check_operands<E>(rows, columns, operands);
  if (y.extent(0) != rows) throw Error("evaluate_rows: result", std::to_string(y.extent(0)), std::to_string(rows));
  cuda::require_device_memory(cuda, "output", cuda::as_outputs(outputs(y)));
  cuda::require_device_memory(cuda, "operand", operands);
  if (rows == 0) return;
  cuda::with_team(columns, [&](auto warps) {
    constexpr int Warps = decltype(warps)::value;
    cuda::launch(cuda, cuda::team_shape(cuda, rows, Warps),
                 cuda::evaluate_one_per_row<accumulate_t<To>, V, Warps, E, Vector<To>, Operands, Reading>, e,
                 Vector<To>(bare(y.data()), rows), operands, cuda::aligned_bits(operands));
  });
}

}  // namespace K3SPEC_NAMESPACE
