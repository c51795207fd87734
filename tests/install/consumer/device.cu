// A CUDA source that uses k3spec: it must see the options that the target brings. Needs no device to run.
#include <cstdio>

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <omp.h>

#include <k3spec/core/rng.hpp>
#include <k3spec/core/view.hpp>

static_assert(__cplusplus >= 202002L);
#ifndef EIGEN_NO_CUDA
#error "k3spec::cuda does not bring its definitions"
#endif

__global__ void scale(k3spec::Matrix<float> x, float factor) {
  if (threadIdx.x == 0) x(0, 0) *= factor;
}

int main() {
  int runtime = 0;
  const bool has_runtime = cudaRuntimeGetVersion(&runtime) == cudaSuccess && runtime == CUDART_VERSION;
  std::printf("CUDA runtime %d, cuBLAS %zu, OpenMP %d\n", runtime, cublasGetCudartVersion(), _OPENMP);
  return has_runtime ? 0 : 1;
}
