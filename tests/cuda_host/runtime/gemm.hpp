#pragma once
/// \file
/// The products of the stand-in for cuBLAS.
/// defines: Gemm, Matrix, run_gemm

#include <cstdint>

#include "cublas_v2.h"

namespace cuda_host {

/// Column-major; of a batch, the matrices are `stride` elements apart.
struct Matrix {
  std::uint64_t address;
  cudaDataType type;
  std::int64_t rows, columns, ld;
  std::int64_t stride;

  std::int64_t element_bytes() const;
  bool empty() const { return rows == 0 || columns == 0; }
};

/// C = alpha * op(A) * op(B) + beta * C for each of the batch.
struct Gemm {
  bool transpose_a, transpose_b, in_double;
  std::int64_t m, n, k, batch;
  Matrix a, b, c;
  double alpha, beta;  // exact, also where they were float
};

/// Runs it on the host's view of device memory; a matrix that leaves its allocation is the fault a card would have.
cudaError_t run_gemm(const Gemm& gemm);

}  // namespace cuda_host
