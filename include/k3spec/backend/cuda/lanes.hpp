#pragma once
/// \file
/// V neighbouring elements of each operand in a thread's registers: read and written 16 bytes at a time where all rows
/// begin at such addresses, one by one at a row's end and elsewhere.
/// defines: cuda::lanes_per_thread, cuda::is_aligned, cuda::load_lanes, cuda::store_lanes, cuda::Lanes, cuda::LaneEnv

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/view.hpp>
#include <k3spec/expr/nodes.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// Bytes of the widest access of a thread.
inline constexpr std::size_t access_bytes = 16;

/// Neighbouring elements that a thread takes: 16 bytes of the smallest type.
template <class... T>
inline constexpr int lanes_per_thread = static_cast<int>(access_bytes / std::min({sizeof(T)...}));

/// As many elements as one access of device memory moves.
template <class T>
struct alignas(access_bytes) Chunk {
  T at[access_bytes / sizeof(T)];
};

/// True if every row of `v` begins at a multiple of 16 bytes.
template <class T>
bool is_aligned(const Matrix<T>& v) {
  const auto address = reinterpret_cast<std::uintptr_t>(v.data());
  const auto stride = static_cast<std::uintptr_t>(v.row_stride()) * sizeof(T);
  return address % access_bytes == 0 && (v.extent(0) <= 1 || stride % access_bytes == 0);
}

/// The first `count` <= V elements at p, 0 in the other lanes.
template <int V, class S, class T>
__device__ inline void load_lanes(const T* p, int count, bool aligned, S (&to)[V]) {
  constexpr int each = static_cast<int>(access_bytes / sizeof(T));
  if constexpr (V % each == 0) {
    if (aligned && count == V) {
      K3SPEC_UNROLL
      for (int i = 0; i < V; i += each) {
        const Chunk<T> chunk = *reinterpret_cast<const Chunk<T>*>(p + i);
        K3SPEC_UNROLL
        for (int j = 0; j < each; ++j) to[i + j] = static_cast<S>(chunk.at[j]);
      }
      return;
    }
  }
  K3SPEC_UNROLL
  for (int j = 0; j < V; ++j) to[j] = j < count ? static_cast<S>(p[j]) : S(0);
}

/// Writes the first `count` <= V lanes, each rounded once, and nothing past them.
template <int V, class S, class T>
__device__ inline void store_lanes(const S (&from)[V], T* p, int count, bool aligned) {
  constexpr int each = static_cast<int>(access_bytes / sizeof(T));
  if constexpr (V % each == 0) {
    if (aligned && count == V) {
      K3SPEC_UNROLL
      for (int i = 0; i < V; i += each) {
        Chunk<T> chunk;
        K3SPEC_UNROLL
        for (int j = 0; j < each; ++j) chunk.at[j] = static_cast<T>(from[i + j]);
        *reinterpret_cast<Chunk<T>*>(p + i) = chunk;
      }
      return;
    }
  }
  K3SPEC_UNROLL
  for (int j = 0; j < V; ++j) {
    if (j < count) p[j] = static_cast<T>(from[j]);
  }
}

/// V lanes of N operands in one row, and of those read per row their one value there: an operand may be read both ways.
template <class S, int V, std::size_t N>
struct Lanes {
  static constexpr std::size_t room = N == 0 ? 1 : N;
  S at[room][V], row[room];
};

/// One lane of N operands, as an expression sees it.
template <class S, int V, std::size_t N>
struct LaneEnv {
  using scalar = S;

  const Lanes<S, V, N>& lanes;
  const S* reductions;
  int lane;

  template <int I, expr::Reads What>
  K3SPEC_HOST_DEVICE S load() const {
    return What == expr::Reads::row ? lanes.row[I] : lanes.at[I][lane];
  }
  K3SPEC_HOST_DEVICE S reduced(int which) const { return reductions[which]; }
};

}  // namespace K3SPEC_NAMESPACE::cuda
