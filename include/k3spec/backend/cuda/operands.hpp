#pragma once
/// \file
/// The operands, results and gradients of an expression on their way into a kernel: by value, as views of the elements
/// themselves, with one bit each that says whether 16-byte accesses are allowed.
/// defines: cuda::Read, cuda::ReadBy, cuda::load_operands, cuda::on_card, cuda::as_operands, cuda::as_outputs,
///          cuda::as_gradients, cuda::destinations, cuda::aligned_bits, cuda::all_packed, cuda::flattened,
///          cuda::require_device_memory, cuda::element_shape, cuda::for_lanes

#include <algorithm>
#include <bit>
#include <string>
#include <tuple>
#include <utility>

#include <k3spec/backend/cuda/lanes.hpp>
#include <k3spec/backend/cuda/launch.hpp>
#include <k3spec/expr/check.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// Where operand I's lanes come from.
enum class Read { nowhere, element, column, first_column };

/// How formulas E… read their operands. (An operand read as elements and as a column has one row: the same lanes.)
template <class... E>
struct ReadBy {
  template <int I>
  static constexpr Read how() {
    if constexpr ((expr::reads<I, expr::Reads::element, E> || ...)) return Read::element;
    if constexpr ((expr::reads<I, expr::Reads::column, E> || ...)) return Read::column;
    return Read::nowhere;
  }
  /// Beside that, or instead.
  template <int I>
  static constexpr bool per_row = (expr::reads<I, expr::Reads::row, E> || ...);
};

/// Lanes of an operand from (row, column) on, `count` of them.
template <Read How, int V, class S, class T>
__device__ inline void load_operand(const Matrix<const T>& x, bool aligned, index_t row, index_t column, int count,
                                    S (&to)[V]) {
  if constexpr (How == Read::element) {
    load_lanes<V>(x.row(row) + column, count, aligned, to);
  } else if constexpr (How == Read::column) {
    load_lanes<V>(x.data() + column, count, aligned, to);
  } else {
    const S value = How == Read::nowhere ? S(0) : static_cast<S>(x.data()[row]);
    K3SPEC_UNROLL
    for (int j = 0; j < V; ++j) to[j] = column + j == 0 ? value : S(0);
  }
}

/// Lanes [row, column … column + count) of all operands. \tparam Reading  says how each is read (ReadBy)
template <class Reading, int V, class S, std::size_t N, class... X>
__device__ inline void load_operands(const std::tuple<X...>& x, unsigned aligned, index_t row, index_t column,
                                     int count, Lanes<S, V, N>& to) {
  const auto load = [&]<int I>(std::integral_constant<int, I>, const auto& m) {
    load_operand<Reading::template how<I>(), V>(m, (aligned >> I & 1U) != 0, row, column, count, to.at[I]);
    if constexpr (Reading::template per_row<I>) to.row[I] = static_cast<S>(m.data()[row]);
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (load(std::integral_constant<int, static_cast<int>(I)>{}, std::get<I>(x)), ...);
  }
  (std::index_sequence_for<X...>{});
}

/// True if a [rows, columns] loop over packed matrices may be one over rows · columns elements.
template <class Reading, class... X>
constexpr bool reads_elements_only(const std::tuple<X...>*) {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return ((Reading::template how<static_cast<int>(I)>() != Read::column &&
             !Reading::template per_row<static_cast<int>(I)>)&&...);
  }
  (std::index_sequence_for<X...>{});
}

/// Whether views are of a card's memory, as far as their types say. Ops refuse others when compiling.
template <class... V>
inline constexpr bool on_card =
    (std::is_same_v<typename V::value_type, Placed<value_t<typename V::value_type>, Cuda>> && ...);

/// Views of operands as kernels take them.
template <class... X>
auto as_operands(const X&... x) {
  static_assert(on_card<X...>, "an expression on Cuda: an operand is no view of element_t<Cuda, T>");
  return std::tuple(Matrix<const value_t<typename X::value_type>>(bare(as_matrix(x)))...);
}

/// Views of outputs as kernels take them.
template <class... T>
auto as_outputs(const std::tuple<Matrix<T>...>& y) {
  static_assert(on_card<Matrix<T>...>, "an expression on Cuda: a result is no view of element_t<Cuda, T>");
  return std::apply([](const auto&... one) { return std::tuple(bare(one)...); }, y);
}

template <class G>
inline constexpr bool is_gradient_on_card = on_card<decltype(G::to)>;
template <>
inline constexpr bool is_gradient_on_card<NoGradient> = true;

/// The destinations of gradients as kernels take them.
template <class... G>
auto as_gradients(const std::tuple<G...>& grads) {
  static_assert((is_gradient_on_card<G> && ...), "an expression on Cuda: a gradient is no view of element_t<Cuda, T>");
  const auto one = []<class D>(const D& d) {
    if constexpr (std::is_same_v<D, NoGradient>) {
      return d;
    } else if constexpr (std::is_same_v<D, Overwrite<typename decltype(d.to)::element_type>>) {
      return overwrite(bare(d.to));
    } else {
      return accumulate(bare(d.to));
    }
  };
  return std::apply([&](const auto&... g) { return std::tuple(one(g)...); }, grads);
}

/// Views of these, for their alignment and for checks.
template <class... G>
auto destinations(const std::tuple<G...>& grads) {
  const auto view = []<class D>(const D& d) {
    if constexpr (std::is_same_v<D, NoGradient>) {
      return Matrix<double>(nullptr, 0, 0);
    } else {
      return d.to;
    }
  };
  return std::apply([&](const auto&... g) { return std::tuple(view(g)...); }, grads);
}

/// Bit I is set if all rows of matrix I begin at 16-byte addresses.
template <class... T>
unsigned aligned_bits(const std::tuple<Matrix<T>...>& matrices) {
  static_assert(sizeof...(T) <= 32);
  unsigned bits = 0;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((bits |= is_aligned(std::get<I>(matrices)) ? 1U << I : 0U), ...);
  }
  (std::index_sequence_for<T...>{});
  return bits;
}

/// Whether all matrices have `rows` rows and no gaps between them.
template <class... T>
bool all_packed(const std::tuple<Matrix<T>...>& matrices, index_t rows) {
  return std::apply([=](const auto&... m) { return ((m.extent(0) == rows && m.is_packed()) && ...); }, matrices);
}

/// Packed matrices as one row each.
template <class... T>
std::tuple<Matrix<T>...> flattened(const std::tuple<Matrix<T>...>& matrices) {
  const auto flat = [](const auto& m) {
    return std::remove_cvref_t<decltype(m)>(m.data(), Extents<dyn, dyn>(1, m.size()), m.size());
  };
  return std::apply([&](const auto&... m) { return std::tuple(flat(m)...); }, matrices);
}

/// Refuses memory of the host.
/// \throws Error naming the first matrix that is host memory
template <class... T>
void require_device_memory(const Cuda& cuda, const char* what, const std::tuple<Matrix<T>...>& matrices) {
  std::size_t i = 0;
  // The name is put together only where it is needed: this is asked at every op.
  [[maybe_unused]] const auto check = [&](const auto& m) {
    if (!cuda.is_reachable(m)) {
      cuda.require_device_memory(m, std::string("expression: ") + what + " " + std::to_string(i));
    }
    ++i;
  };
  std::apply([&](const auto&... m) { (check(m), ...); }, matrices);
}

/// Threads for a [rows, columns] loop in which each thread takes V neighbouring columns.
inline LaunchShape element_shape(const Cuda& cuda, index_t rows, index_t columns, int lanes) {
  const index_t packs = (columns + lanes - 1) / lanes;
  const auto wide = static_cast<unsigned>(std::bit_ceil(static_cast<std::uint64_t>(std::min<index_t>(packs, 256))));
  const unsigned high = 256 / wide, across = blocks_for(cuda, packs, wide);
  const unsigned enough = std::max(1U, blocks_for(cuda, rows * packs, 1) / across);
  return {dim3(across, std::min(enough, blocks_for(cuda, rows, high))), dim3(wide, high)};
}

/// Calls f(row, column, count) for this thread's share of such a loop.
template <int V, class F>
__device__ inline void for_lanes(index_t rows, index_t columns, F&& f) {
  const index_t first_row = index_t{blockIdx.y} * blockDim.y + threadIdx.y;
  const index_t first = (index_t{blockIdx.x} * blockDim.x + threadIdx.x) * V;
  for (index_t row = first_row; row < rows; row += index_t{gridDim.y} * blockDim.y) {
    for (index_t column = first; column < columns; column += index_t{gridDim.x} * blockDim.x * V) {
      f(row, column, static_cast<int>(columns - column < V ? columns - column : V));
    }
  }
}

}  // namespace K3SPEC_NAMESPACE::cuda
