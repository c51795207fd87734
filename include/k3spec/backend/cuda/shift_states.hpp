#pragma once
/// \file
/// States moved towards the start of their sequences, in place, on a card (batches/teacher.hpp). A thread takes a few
/// columns of a sequence through all of its rows: nobody else reads what it writes. It reads some rows ahead, so that
/// their reads are on their way together.
/// defines: shift_states_kernel

#include <tuple>
#include <type_traits>

#include <k3spec/backend/cuda/memory.hpp>
#include <k3spec/backend/cuda/operands.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// Kernel: x[r] = x[r + 1] but for the last row of each of the sequences.
template <int V, class T>
__global__ void __launch_bounds__(256, 2) shift_states(Matrix<T> x, index_t length, unsigned aligned) {
  constexpr int ahead = 8;
  for_lanes<V>(x.extent(0) / length, x.extent(1), [&](index_t sequence, index_t column, int n) {
    const index_t first = sequence * length, last = first + length - 1;
    for (index_t row = first; row < last; row += ahead) {
      T lanes[ahead][V];
      K3SPEC_UNROLL
      for (int i = 0; i < ahead; ++i) {
        if (row + i < last) load_lanes<V>(x.row(row + i + 1) + column, n, aligned != 0, lanes[i]);
      }
      K3SPEC_UNROLL
      for (int i = 0; i < ahead; ++i) {
        if (row + i < last) store_lanes<V>(lanes[i], x.row(row + i) + column, n, aligned != 0);
      }
    }
  });
}

}  // namespace cuda

/// x[r] = x[r + 1] but for the last row of each sequence of `length`: in place.
template <AnyView X>
void shift_states_kernel(const Cuda& cuda, const X& x, index_t length) {
  static_assert(cuda::on_card<X>, "shift_states on Cuda: x is no view of element_t<Cuda, T>");
  using T = value_t<typename X::element_type>;
  constexpr int V = cuda::lanes_per_thread<T>;
  const Matrix<T> states = bare(as_matrix(x));
  cuda.require_device_memory(states, "shift_states: x");
  if (states.size() == 0 || length <= 1) return;
  cuda::launch(cuda, cuda::element_shape(cuda, states.extent(0) / length, states.extent(1), V),
               cuda::shift_states<V, T>, states, length, cuda::aligned_bits(std::tuple(states)));
}

}  // namespace K3SPEC_NAMESPACE
