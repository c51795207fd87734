#pragma once
/// \file
/// The embedding of ops/embedding.hpp and the rows of ops/gather_rows.hpp on a card; ids are device memory. An id
/// outside the table leaves NaN in its row, or what it was to be written to as it was, and is reported by
/// Cuda::synchronize.
/// Backward gives the bits of Cpu without atomics: of all rows with the same id, the first one's warp adds up all, in
/// ascending order. Each warp looks through all ids: rows² / 32 reads a tile of columns, small beside what an embedding
/// is followed by.
/// defines: require_token_ids, gather_rows_kernel, scatter_rows_kernel, scatter_add_rows_kernel

#include <limits>
#include <optional>

#include <k3spec/backend/cuda/items.hpp>
#include <k3spec/backend/cuda/lanes.hpp>
#include <k3spec/backend/cuda/memory.hpp>
#include <k3spec/backend/cuda/operands.hpp>

namespace K3SPEC_NAMESPACE {

namespace cuda {

/// Kernel: rows of a table by their ids.
template <int V, class T, class Y>
__global__ void __launch_bounds__(256, 2) gather_rows(Vector<const index_t> ids, Matrix<const T> table, Matrix<Y> y,
                                                      unsigned aligned, unsigned long long* faults) {
  using S = accumulate_t<T>;
  for_lanes<V>(y.extent(0), y.extent(1), [&](index_t row, index_t column, int n) {
    S lanes[V];
    const index_t id = ids(row);
    if (id >= 0 && id < table.extent(0)) {
      load_lanes<V>(table.row(id) + column, n, (aligned & 1U) != 0, lanes);
    } else {
      K3SPEC_UNROLL
      for (S& lane : lanes) lane = std::numeric_limits<S>::quiet_NaN();
      if (column == 0) atomicMin(faults, static_cast<unsigned long long>(row));
    }
    store_lanes<V>(lanes, y.row(row) + column, n, (aligned & 2U) != 0);
  });
}

/// Kernel: rows to where their ids say, which differ from one another.
template <int V, class T, class Y>
__global__ void __launch_bounds__(256, 2) scatter_rows(Vector<const index_t> ids, Matrix<const T> x, Matrix<Y> y,
                                                       unsigned aligned, unsigned long long* faults) {
  for_lanes<V>(x.extent(0), x.extent(1), [&](index_t row, index_t column, int n) {
    accumulate_t<T> lanes[V];
    const index_t id = ids(row);
    if (!is_id(id, y.extent(0), row, faults)) return;
    load_lanes<V>(x.row(row) + column, n, (aligned & 1U) != 0, lanes);
    store_lanes<V>(lanes, y.row(id) + column, n, (aligned & 2U) != 0);
  });
}

/// The lanes of a warp whose id is `id`, of ids [begin, begin + 32).
__device__ inline unsigned rows_with(const Vector<const index_t>& ids, index_t begin, index_t id) {
  const index_t row = begin + threadIdx.x;
  return __ballot_sync(~0U, row < ids.extent(0) && ids(row) == id);
}

/// True if an earlier row has row's id.
__device__ inline bool comes_earlier(const Vector<const index_t>& ids, index_t row) {
  for (index_t begin = 0; begin < row; begin += warp) {
    const unsigned found = rows_with(ids, begin, ids(row));
    const index_t before = row - begin;
    if ((before >= warp ? found : found & ((1U << before) - 1U)) != 0) return true;
  }
  return false;
}

/// A warp for each (row, tile of 32·V columns); blockIdx.y is the tile.
template <int V, class S, class DY>
__global__ void __launch_bounds__(256, 2) scatter_add_rows(Vector<const index_t> ids, index_t pad, Matrix<const DY> d_y,
                                                           Matrix<S> d_table, unsigned aligned) {
  const index_t column = (index_t{blockIdx.y} * warp + threadIdx.x) * V, columns = d_table.extent(1);
  const int n = static_cast<int>(columns - column < V ? (columns > column ? columns - column : 0) : V);
  const index_t first = index_t{blockIdx.x} * blockDim.y + threadIdx.y;
  for (index_t row = first; row < ids.extent(0); row += index_t{gridDim.x} * blockDim.y) {
    const index_t id = ids(row);
    if (id == pad || id < 0 || id >= d_table.extent(0) || comes_earlier(ids, row)) continue;
    S* to = d_table.row(id) + column;
    S sum[V], d[V];
    load_lanes<V>(to, n, (aligned & 2U) != 0, sum);
    for (index_t begin = row / warp * warp; begin < ids.extent(0); begin += warp) {
      for (unsigned left = rows_with(ids, begin, id); left != 0; left &= left - 1) {
        const index_t r = begin + __ffs(static_cast<int>(left)) - 1;
        load_lanes<V>(d_y.row(r) + column, n, (aligned & 1U) != 0, d);
        K3SPEC_UNROLL
        for (int j = 0; j < V; ++j) sum[j] = sum[j] + d[j];
      }
    }
    store_lanes<V>(sum, to, n, (aligned & 2U) != 0);
  }
}

}  // namespace cuda

/// Nothing: ids are device memory, and Cuda::synchronize tells of a bad one.
inline void require_token_ids(const Cuda&, const Vector<const Placed<index_t, Cuda>>&, index_t) {}

/// y[r] = table[ids[r]]; a bad id is found by Cuda::synchronize.
template <class T, AnyView Y>
void gather_rows_kernel(const Cuda& cuda, const Vector<const Placed<index_t, Cuda>>& ids,
                        const Matrix<const Placed<T, Cuda>>& table, const Y& y) {
  static_assert(cuda::on_card<Y>, "embedding on Cuda: y is no view of element_t<Cuda, T>");
  const auto to = bare(as_matrix(y));
  const auto from = bare(table);
  using To = typename decltype(to)::element_type;
  constexpr int V = cuda::lanes_per_thread<T, To>;
  cuda.require_device_memory(ids, "embedding: ids");
  cuda.require_device_memory(table, "embedding: table");
  cuda.require_device_memory(to, "embedding: y");
  if (to.size() == 0) return;
  cuda::launch(cuda, cuda::element_shape(cuda, to.extent(0), to.extent(1), V), cuda::gather_rows<V, T, To>, bare(ids),
               from, to, cuda::aligned_bits(std::tuple(from, to)), cuda.faults());
}

/// y[ids[r]] = x[r]; a bad id is found by Cuda::synchronize.
template <class T, AnyView Y>
void scatter_rows_kernel(const Cuda& cuda, const Vector<const Placed<index_t, Cuda>>& ids,
                         const Matrix<const Placed<T, Cuda>>& x, const Y& y) {
  static_assert(cuda::on_card<Y>, "scatter_rows on Cuda: y is no view of element_t<Cuda, T>");
  const auto to = bare(as_matrix(y));
  const auto from = bare(x);
  using To = typename decltype(to)::element_type;
  constexpr int V = cuda::lanes_per_thread<T, To>;
  cuda.require_device_memory(ids, "scatter_rows: rows");
  cuda.require_device_memory(from, "scatter_rows: from");
  cuda.require_device_memory(to, "scatter_rows: to");
  if (from.size() == 0) return;
  cuda::launch(cuda, cuda::element_shape(cuda, from.extent(0), from.extent(1), V), cuda::scatter_rows<V, T, To>,
               bare(ids), from, to, cuda::aligned_bits(std::tuple(from, to)), cuda.faults());
}

/// d_table[ids[r]] += d_y[r], rows in ascending order; the padding id's row gets none.
template <class S, AnyView DY>
void scatter_add_rows_kernel(const Cuda& cuda, const Vector<const Placed<index_t, Cuda>>& ids,
                             std::optional<index_t> pad_token_id, const DY& d_y,
                             const Matrix<Placed<S, Cuda>>& d_table) {
  using T = value_t<typename DY::value_type>;
  static_assert(cuda::on_card<DY>, "embedding on Cuda: d_y is no view of element_t<Cuda, T>");
  constexpr int V = cuda::lanes_per_thread<T, S>;
  const Matrix<const T> from = bare(as_matrix(d_y));
  const Matrix<S> to = bare(d_table);
  cuda.require_device_memory(ids, "embedding: ids");
  cuda.require_device_memory(from, "embedding: d_y");
  cuda.require_device_memory(d_table, "embedding: d_table");
  if (from.size() == 0) return;
  const index_t tile = index_t{cuda::warp} * V;
  const dim3 grid(cuda::blocks_for(cuda, from.extent(0), 8), static_cast<unsigned>((from.extent(1) + tile - 1) / tile));
  cuda::launch(cuda, {grid, dim3(cuda::warp, 8)}, cuda::scatter_add_rows<V, S, T>, bare(ids), pad_token_id.value_or(-1),
               from, to, cuda::aligned_bits(std::tuple(from, to)));
}

}  // namespace K3SPEC_NAMESPACE
