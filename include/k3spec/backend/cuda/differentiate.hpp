#pragma once
/// \file
/// The derivative of an expression on a card: one kernel for the gradients of elements (with row reductions a team of
/// threads for each row, which also keeps the row's reductions and their adjoints), and one for sums over rows. The
/// way back through the tree is the one that Cpu takes, the orders of sums are those of expr/order.hpp.
/// defines: differentiate, differentiate_rows

#include <k3spec/backend/cuda/evaluate.hpp>
#include <k3spec/expr/derivatives.hpp>
#include <k3spec/expr/walk.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// E's operands as ReadBy has them, and after these, as the last one, d_y.
template <class E, int Count, bool OnePerRow>
struct ReadWithAdjoint {
  template <int I>
  static constexpr Read how() {
    if constexpr (I < Count) {
      return ReadBy<E>::template how<I>();
    } else {
      return OnePerRow ? Read::first_column : Read::element;
    }
  }
  template <int I>
  static constexpr bool per_row = I < Count&& ReadBy<E>::template per_row<I>;
};

/// What the kernels are made for. X: all operands and d_y; G: the gradients' destinations.
template <class Scalar, int Width, class E, class X, class G, bool OnePerRow>
struct Derivative {
  using S = Scalar;
  using Formula = E;
  static constexpr int V = Width, count = static_cast<int>(std::tuple_size_v<G>), reductions = E::reductions;
  using Reading = ReadWithAdjoint<E, count, OnePerRow>;
  using State = expr::RowState<S, reductions>;
  using Sink = expr::AdjointSink<S, S, count, reductions>;
  using Row = RowOperands<S, V, X, Reading>;
  static constexpr auto each = std::make_index_sequence<static_cast<std::size_t>(count)>{};

  E e;
  X x;
  G grads;
  index_t rows, columns;
  unsigned aligned_x, aligned_grads;

  template <int From, class Env>
  __device__ Sink adjoints(const Env& env, const State& s) const {
    Sink sink;
    const S d_y = env.template load<count, expr::Reads::element>();
    expr::WalkTapes<S, E> tapes;
    expr::walk<From>(e, env, tapes, s.adjoint.data(), columns, d_y, sink);
    return sink;
  }

  /// Adjoints of reductions Which, Which-1, … 0 of a row; those above Which are known.
  template <class T, int Which>
  __device__ void reduction_adjoints(const Row& row, State& s) const {
    if constexpr (Which >= 0) {
      s.adjoint[Which] = combine_row<expr::Sum, T>(
          row, s.value.data(), [&](const auto& env) { return adjoints<Which + 1>(env, s).reductions[Which]; });
      reduction_adjoints<T, Which - 1>(row, s);
    }
  }

  /// Element gradients at [row, column … column + n).
  template <std::size_t N>
  __device__ void elements(const Lanes<S, V, N>& lanes, const State& s, index_t row, index_t column, int n) const {
    S d[count][V];
    K3SPEC_UNROLL
    for (int j = 0; j < V; ++j) {
      const Sink sink = adjoints<0>(LaneEnv<S, V, N>{lanes, s.value.data(), j}, s);
      K3SPEC_UNROLL
      for (int i = 0; i < count; ++i) d[i][j] = sink.operands[static_cast<std::size_t>(i)];
    }
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (deliver<static_cast<int>(I)>(d[I], std::get<I>(grads), row, column, n), ...);
    }
    (each);
  }

  template <int I>
  __device__ void deliver(const S (&)[V], const NoGradient&, index_t, index_t, int) const {}
  template <int I, class T>
  __device__ void deliver(const S (&d)[V], const Overwrite<T>& g, index_t row, index_t column, int n) const {
    if constexpr (!expr::reads_column<I, E>) store_lanes<V>(d, g.to.row(row) + column, n, is_aligned_grad(I));
  }
  template <int I, class T>
  __device__ void deliver(const S (&d)[V], const Accumulate<T>& g, index_t row, index_t column, int n) const {
    if constexpr (!expr::reads_column<I, E>) {
      S sum[V];
      load_lanes<V>(g.to.row(row) + column, n, is_aligned_grad(I), sum);
      K3SPEC_UNROLL
      for (int j = 0; j < V; ++j) sum[j] = sum[j] + d[j];
      store_lanes<V>(sum, g.to.row(row) + column, n, is_aligned_grad(I));
    }
  }
  __device__ bool is_aligned_grad(int i) const { return (aligned_grads >> i & 1U) != 0; }
};

/// Kernel: gradients of a formula without reductions, element by element.
template <class D>
__global__ void __launch_bounds__(256, 2) differentiate_elements(D d) {
  for_lanes<D::V>(d.rows, d.columns, [&](index_t row, index_t column, int n) {
    Lanes<typename D::S, D::V, D::count + 1> lanes;
    load_operands<typename D::Reading>(d.x, d.aligned_x, row, column, n, lanes);
    d.elements(lanes, typename D::State{}, row, column, n);
  });
}

/// Kernel: gradients of a formula with reductions, a team of warps for each row.
/// \param states  [rows], or null where no later kernel needs them
template <int Warps, class D>
__global__ void __launch_bounds__(256, 2) differentiate_by_row(D d, typename D::State* states) {
  using T = Team<Warps, D::V>;
  T::for_rows(d.rows, [&](index_t row) {
    const typename D::Row operands{d.x, d.aligned_x, row, d.columns};
    typename D::State state{};
    reduce_row<T>(d.e, operands, state.value.data());
    d.template reduction_adjoints<T, D::reductions - 1>(operands, state);
    if (states != nullptr && T::rank() == 0) states[row] = state;
    T::for_columns(d.columns, [&](index_t column, int n, int) {
      Lanes<typename D::S, D::V, D::count + 1> lanes;
      operands.load(column, n, lanes);
      d.elements(lanes, state, row, column, n);
    });
  });
}

/// Halves the chains of 32 columns, chain y in sums[y · 32 + x]; chain 0's thread gets the whole, the others nothing.
template <class S>
__device__ inline S fold_columns(S sum) {
  constexpr int chains = static_cast<int>(expr::column_chains);
  __shared__ S sums[chains * warp];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  sums[y * warp + x] = sum;
  for (int half = chains / 2; half > 0; half /= 2) {
    __syncthreads();
    if (y < half) sums[y * warp + x] = sums[y * warp + x] + sums[(y + half) * warp + x];
  }
  const S total = y == 0 ? sums[x] : S(0);
  __syncthreads();
  return total;
}

/// Replaces a column's gradient.
template <class S, class T>
__device__ inline void deliver_column(S d, const Overwrite<T>& g, index_t column) {
  g.to.data()[column] = static_cast<T>(d);
}
/// Adds to a column's gradient.
template <class S, class T>
__device__ inline void deliver_column(S d, const Accumulate<T>& g, index_t column) {
  T& to = g.to.data()[column];
  to = static_cast<T>(static_cast<S>(to) + d);
}

/// No gradient, nothing to finish.
template <int I, class D, class S>
__device__ inline void finish_column(const D&, S, const NoGradient&, index_t) {}
/// Adds up what the block's threads have of a column, and delivers it.
template <int I, class D, class S, class G>
__device__ inline void finish_column(const D& d, S sum, const G& destination, index_t column) {
  if constexpr (expr::reads_column<I, typename D::Formula>) {
    const S total = fold_columns(sum);
    if (threadIdx.y == 0 && column < d.columns) deliver_column(total, destination, column);
  }
}

/// Gradients that are sums over rows: a block of [chains, 32] threads for 32 columns. D: with one lane a thread.
template <class D>
__global__ void __launch_bounds__(static_cast<int>(expr::column_chains) * warp)
    differentiate_columns(D d, const typename D::State* states) {
  using S = typename D::S;
  const index_t column = index_t{blockIdx.x} * warp + threadIdx.x;
  S sums[D::count] = {};
  for (index_t row = threadIdx.y; row < d.rows && column < d.columns; row += expr::column_chains) {
    Lanes<S, 1, D::count + 1> lanes;
    load_operands<typename D::Reading>(d.x, 0, row, column, 1, lanes);
    const typename D::State state = states == nullptr ? typename D::State{} : states[row];
    const LaneEnv<S, 1, D::count + 1> env{lanes, state.value.data(), 0};
    const typename D::Sink sink = d.template adjoints<0>(env, state);
    K3SPEC_UNROLL
    for (int i = 0; i < D::count; ++i) sums[i] = sums[i] + sink.operands[static_cast<std::size_t>(i)];
  }
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (finish_column<static_cast<int>(I)>(d, sums[I], std::get<I>(d.grads), column), ...);
  }
  (D::each);
}

template <class G>
inline constexpr std::size_t element_bytes = sizeof(typename decltype(G::to)::value_type);
template <>
inline constexpr std::size_t element_bytes<NoGradient> = access_bytes;

/// Launches differentiate_by_row.
template <class D>
void launch_by_row(const Cuda& cuda, const D& d, typename D::State* states) {
  with_team(d.columns, [&](auto warps) {
    constexpr int Warps = decltype(warps)::value;
    launch(cuda, team_shape(cuda, d.rows, Warps), differentiate_by_row<Warps, D>, d, states);
  });
}

/// Launches differentiate_columns.
template <class D>
void launch_columns(const Cuda& cuda, const D& d, const typename D::State* states) {
  // One grid axis of blocks: up to 2^31 - 1 of them.
  const auto blocks = static_cast<unsigned>((d.columns + warp - 1) / warp);
  launch(cuda, {dim3(blocks), dim3(warp, static_cast<unsigned>(expr::column_chains))}, differentiate_columns<D>, d,
         states);
}

/// All gradients of e in one pass over its operands.
/// \param x  all operands and d_y
template <class S, bool OnePerRow, class E, class... G, Allocator A, class... X>
void differentiate_all(const Cuda& cuda, const E& e, const std::tuple<G...>& grads, A& scratch, index_t rows,
                       index_t columns, const std::tuple<X...>& x) {
  static_assert(sizeof...(G) + 1 == sizeof...(X),
                "one gradient for each operand: no_gradient, overwrite(view) or accumulate(view)");
  using Grads = std::tuple<G...>;
  constexpr std::size_t smallest = std::min({sizeof(typename X::value_type)..., element_bytes<G>...});
  constexpr int V = static_cast<int>(access_bytes / smallest);
  expr::check_gradients<E>(rows, columns, grads);
  const auto to = destinations(grads);
  require_device_memory(cuda, "gradient", to);
  require_device_memory(cuda, "operand", x);
  if (columns == 0) return;
  using D = Derivative<S, V, E, std::tuple<X...>, Grads, OnePerRow>;
  const D d{e, x, grads, rows, columns, aligned_bits(x), aligned_bits(to)};
  constexpr bool sums_rows = expr::any_column_gradient<E>(static_cast<const Grads*>(nullptr));
  Scope scope(scratch);
  auto* states = scratch.template take<typename D::State>(sums_rows && E::reductions > 0 ? rows : 0);
  if constexpr (E::reductions > 0) {
    if (rows > 0) launch_by_row(cuda, d, sums_rows ? states : nullptr);
  } else {
    if (rows > 0) launch(cuda, element_shape(cuda, rows, columns, V), differentiate_elements<D>, d);
  }
  if constexpr (sums_rows) {
    using Narrow = Derivative<S, 1, E, std::tuple<X...>, Grads, OnePerRow>;
    launch_columns(cuda, Narrow{e, x, grads, rows, columns, 0, 0},
                   E::reductions > 0 ? static_cast<const typename Narrow::State*>(states) : nullptr);
  }
}

}  // namespace cuda

/// From d_y [rows, columns] to the gradients of y = e(x…); the same contract as Cpu's (backend/cpu/differentiate.hpp).
/// \param scratch  differentiate_scratch bytes of device memory, given back on return
template <expr::Expression E, class T, index_t... Y, class... G, Allocator A, class... X>
void differentiate(const Cuda& cuda, const E& e, const View<T, Y...>& d_y, const std::tuple<G...>& grads, A& scratch,
                   const X&... x) {
  static_assert(expr::has_derivatives<E>,
                "differentiate: a function of the expression has no derivative beside its value");
  const auto d = as_matrix(d_y);
  expr::check_operands<E>(d.extent(0), d.extent(1), cuda::as_operands(x...));
  cuda::differentiate_all<scalar_t<T>, false>(cuda, e, cuda::as_gradients(grads), scratch, d.extent(0), d.extent(1),
                                              cuda::as_operands(x..., d_y));
}

/// The same for an expression with one value per row (evaluate_rows): d_y is [rows].
template <expr::Expression E, class T, index_t N, class... G, Allocator A, class First, class... X>
void differentiate_rows(const Cuda& cuda, const E& e, const View<T, N>& d_y, const std::tuple<G...>& grads, A& scratch,
                        const First& first, const X&... x) {
  static_assert(E::row_constant, "differentiate_rows needs an expression with one value per row");
  const auto shape = as_matrix(first);
  if (d_y.extent(0) != shape.extent(0)) {
    throw Error("differentiate_rows: d_y", std::to_string(d_y.extent(0)), std::to_string(shape.extent(0)) + " rows");
  }
  expr::check_operands<E>(shape.extent(0), shape.extent(1), cuda::as_operands(first, x...));
  cuda::differentiate_all<scalar_t<T>, true>(cuda, e, cuda::as_gradients(grads), scratch, shape.extent(0),
                                             shape.extent(1), cuda::as_operands(first, x..., d_y));
}

}  // namespace K3SPEC_NAMESPACE
