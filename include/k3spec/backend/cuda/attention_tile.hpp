#pragma once
/// \file
/// What attention's kernels share: a block of four warps has a tile of its own rows, each warp some of them, in shared
/// memory; rows of the other side come in tiles of a warp's width, one to a lane, but none where nobody sees anybody.
/// Sums run over columns, and over lanes, in ascending order, whatever the grid.
/// defines: cuda::AttentionTile, cuda::AttentionPlace, cuda::KeyRows, cuda::tell_of_a_tile

#include <cuda_runtime.h>

#include <cmath>
#include <type_traits>

#include <k3spec/backend/attention_problem.hpp>
#include <k3spec/backend/cuda/launch.hpp>
#include <k3spec/backend/interval.hpp>
#include <k3spec/expr/functors.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// The keys of one head of a source, as they lie: [k_nope ‖ v] of the head, the rope slice of all.
template <class Heads, class T>
struct KeyRows {
  const AttentionKeys<T>& of;
  index_t first, head;

  /// Column d of key `row`'s [nope ‖ rope].
  __device__ T& key(index_t row, int d) const {
    if (d < Heads::nope) return of.kv.row(first + row)[head * Heads::kv + d];
    return of.k_rope.row(first + row)[d - Heads::nope];
  }
  __device__ T& value(index_t row, int d) const { return of.kv.row(first + row)[head * Heads::kv + Heads::nope + d]; }
};

/// A tile of a block's own rows: `begin` and up to AttentionTile::own of them, of one head of a sequence.
struct AttentionPlace {
  index_t sequence, head, begin, count;
};

/// Has the stand-in for CUDA count a tile that the block loads; nothing on a card. All threads of the block.
__device__ inline void tell_of_a_tile() {
#if !defined(__CUDACC__)
  if (threadIdx.x == 0) cuda_host::count_tile();
#endif
}

/// Rows of one side against rows of the other.
/// \tparam S  float or double
template <class S>
struct AttentionTile {
  static constexpr int warps = 4, threads = warps * warp;
  /// Rows of a block, and of a warp.
  static constexpr int own = sizeof(S) == 8 ? 8 : 16, per_warp = own / warps;
  static constexpr int columns = 32;  ///< of the other side that are in shared memory at a time
  using Staged = S[warp][columns + 1];

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % warp; }
  __device__ static int first_row() { return static_cast<int>(threadIdx.x) / warp * per_warp; }
  /// Columns of a row of `width` that one lane has: lane, lane + 32, …
  static constexpr int lanes_columns(index_t width) { return static_cast<int>((width + warp - 1) / warp); }

  /// Whether some of the block's own rows and of a tile's see each other: only then the tile is to be loaded.
  /// \param sees   (n) whether own row n of this warp and row `lane` of the other side do
  /// \param pairs  gets bit n where they do
  /// All threads of the block.
  template <class Sees>
  __device__ static bool tile_is_seen(Sees&& sees, unsigned& pairs) {
    pairs = 0;
    K3SPEC_UNROLL
    for (int n = 0; n < per_warp; ++n) pairs |= sees(n) ? 1U << n : 0U;
    if (__syncthreads_or(pairs != 0) == 0) return false;
    tell_of_a_tile();
    return true;
  }

  /// own[r][d] = load(r, d) where there is such a row, else 0. All threads of the block.
  template <int Width, class Load>
  __device__ static void stage_own(S (&to)[own][Width], index_t rows, Load&& load) {
    for (int i = static_cast<int>(threadIdx.x); i < own * Width; i += threads) {
      const int r = i / Width, d = i % Width;
      to[r][d] = r < rows ? static_cast<S>(load(r, d)) : S(0);
    }
  }

  /// dots[n] += own row n of this warp · row `lane` of the other side. All threads of the block.
  template <int Width, class Load>
  __device__ static void add_dots(const S (&mine)[own][Width], Staged& staged, index_t rows, Load&& load,
                                  S (&dots)[per_warp]) {
    for (int begin = 0; begin < Width; begin += columns) {
      const int n = Width - begin < columns ? Width - begin : columns;
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < warp * columns; i += threads) {
        const int r = i / columns, d = i % columns;
        staged[r][d] = r < rows && d < n ? static_cast<S>(load(r, begin + d)) : S(0);
      }
      __syncthreads();
      for (int d = 0; d < n; ++d) {
        const S x = staged[lane()][d];
        K3SPEC_UNROLL
        for (int i = 0; i < per_warp; ++i) dots[i] = std::fma(mine[first_row() + i][begin + d], x, dots[i]);
      }
    }
  }

  /// sum[j] += Σ over the lanes that are `in` of their weight · load(lane, this lane's column j). All lanes.
  template <int Width, int N, class Load>
  __device__ static void add_weighted(bool in, S weight, Load&& load, S (&sum)[N]) {
    static_assert(N == lanes_columns(Width));
    for (unsigned left = __ballot_sync(~0U, in); left != 0; left &= left - 1) {
      const int from = __ffs(static_cast<int>(left)) - 1;
      const S w = __shfl_sync(~0U, weight, from);
      K3SPEC_UNROLL
      for (int j = 0; j < N; ++j) {
        const int d = lane() + j * warp;
        if (d < Width) sum[j] = std::fma(w, static_cast<S>(load(from, d)), sum[j]);
      }
    }
  }

  template <class X, class F>
  __device__ static X across(X x, F&& combine) {
    K3SPEC_UNROLL
    for (int apart = warp / 2; apart > 0; apart /= 2) x = combine(x, __shfl_xor_sync(~0U, x, apart));
    return x;
  }
  /// The same in all lanes.
  __device__ static S sum(S x) {
    return across(x, [](S a, S b) { return a + b; });
  }
  __device__ static S largest(S x) {
    return across(x, [](S a, S b) { return a < b ? b : a; });
  }

  /// f(place) for tiles of `rows` rows of each head and sequence, in strides of the grid. All threads of the block.
  template <class F>
  __device__ static void for_tiles(index_t sequences, index_t heads, index_t rows, F&& f) {
    const index_t tiles = (rows + own - 1) / own;
    for (index_t i = blockIdx.x; i < sequences * heads * tiles; i += gridDim.x) {
      const index_t begin = i % tiles * own, left = rows - begin;
      f(AttentionPlace{i / tiles / heads, i / tiles % heads, begin, left < own ? left : own});
    }
  }
  static LaunchShape shape(index_t sequences, index_t heads, index_t rows) {
    const index_t blocks = sequences * heads * ((rows + own - 1) / own), most = index_t{1} << 30;
    return {dim3(static_cast<unsigned>(blocks < most ? blocks : most)), dim3(threads)};
  }
};

}  // namespace K3SPEC_NAMESPACE::cuda
