#include "cublas_v2.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "cuda_host.h"
#include "gemm.hpp"
#include "host_state.hpp"
#include "memory.hpp"
#include "stream.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace cuda_host {
namespace {

std::vector<std::unique_ptr<cublasContext>>& handles =
    *new std::vector<std::unique_ptr<cublasContext>>;  // never destroyed

std::uint64_t product_count = 0;

auto find_handle(cublasHandle_t handle) {
  return std::find_if(handles.begin(), handles.end(), [&](const auto& h) { return h.get() == handle; });
}
bool is_handle(cublasHandle_t handle) { return find_handle(handle) != handles.end(); }

bool in_float(cublasComputeType_t type) { return type == CUBLAS_COMPUTE_32F || type == CUBLAS_COMPUTE_32F_PEDANTIC; }
bool in_double(cublasComputeType_t type) { return type == CUBLAS_COMPUTE_64F || type == CUBLAS_COMPUTE_64F_PEDANTIC; }

bool is_supported(cublasComputeType_t compute, cudaDataType a, cudaDataType b, cudaDataType c) {
  if (a != b) return false;
  if (in_double(compute)) return a == CUDA_R_64F && c == CUDA_R_64F;
  if (!in_float(compute)) return false;
  return (a == CUDA_R_32F && c == CUDA_R_32F) || (a == CUDA_R_16BF && (c == CUDA_R_16BF || c == CUDA_R_32F));
}

bool is_operation(cublasOperation_t op) { return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C; }

double read_scalar(const void* p, bool is_double) {
  return is_double ? *static_cast<const double*>(p) : static_cast<double>(*static_cast<const float*>(p));
}

cublasStatus_t check_shape(const Gemm& g) {
  if (g.m < 0 || g.n < 0 || g.k < 0 || g.batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  const auto too_small = [](const Matrix& x) { return x.ld < std::max<std::int64_t>(1, x.rows); };
  return too_small(g.a) || too_small(g.b) || too_small(g.c) ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

Matrix matrix(const void* p, cudaDataType type, std::int64_t rows, std::int64_t columns, bool transposed,
              std::int64_t ld, std::int64_t stride) {
  return {address_of(p), type, transposed ? columns : rows, transposed ? rows : columns, ld, stride};
}

cublasStatus_t enqueue_gemm(cublasHandle_t handle, const Gemm& gemm) {
  if (device_state() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  const StreamPointer stream = find_stream(handle->stream);
  if (stream == nullptr) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (gemm.m == 0 || gemm.n == 0 || gemm.batch == 0) return CUBLAS_STATUS_SUCCESS;
  enqueue(stream, [gemm] { return run_gemm(gemm); });
  ++product_count;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

std::uint64_t products() { return product_count; }

}  // namespace cuda_host

using namespace cuda_host;

extern "C" {

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    default:
      return "an internal operation failed";
  }
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  const Call call;
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (device_state() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  handles.push_back(std::make_unique<cublasContext>());
  *handle = handles.back().get();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  const Call call;
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  handles.erase(find_handle(handle));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  if (version == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VER_MAJOR * 10000;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  const Call call;
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  const Call call;
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (stream == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  const Call call;
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  // cuBLAS wants 256-byte alignment, and device memory.
  if (bytes != 0 && (address_of(workspace) % 256 != 0 || !is_live(address_of(workspace), bytes)))
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t) {
  const Call call;
  return is_handle(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t) {
  const Call call;
  return is_handle(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  const Call call;
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  return mode == CUBLAS_POINTER_MODE_HOST ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                                             std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha,
                                             const void* a, cudaDataType a_type, std::int64_t lda,
                                             long long int stride_a, const void* b, cudaDataType b_type,
                                             std::int64_t ldb, long long int stride_b, const void* beta, void* c,
                                             cudaDataType c_type, std::int64_t ldc, long long int stride_c,
                                             std::int64_t batch_count, cublasComputeType_t compute_type,
                                             cublasGemmAlgo_t) {
  const Call call;
  if (!is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!is_operation(op_a) || !is_operation(op_b)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool ta = op_a != CUBLAS_OP_N, tb = op_b != CUBLAS_OP_N, is_double = in_double(compute_type);
  Gemm gemm{ta,
            tb,
            is_double,
            m,
            n,
            k,
            batch_count,
            matrix(a, a_type, m, k, ta, lda, stride_a),
            matrix(b, b_type, k, n, tb, ldb, stride_b),
            matrix(c, c_type, m, n, false, ldc, stride_c),
            0,
            0};
  if (const cublasStatus_t status = check_shape(gemm)) return status;
  if (alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(compute_type, a_type, b_type, c_type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  gemm.alpha = read_scalar(alpha, is_double);
  gemm.beta = read_scalar(beta, is_double);
  return enqueue_gemm(handle, gemm);
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, std::int64_t m,
                               std::int64_t n, std::int64_t k, const void* alpha, const void* a, cudaDataType a_type,
                               std::int64_t lda, const void* b, cudaDataType b_type, std::int64_t ldb, const void* beta,
                               void* c, cudaDataType c_type, std::int64_t ldc, cublasComputeType_t compute_type,
                               cublasGemmAlgo_t algo) {
  return cublasGemmStridedBatchedEx_64(handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0, beta,
                                       c, c_type, ldc, 0, 1, compute_type, algo);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute_type, cublasGemmAlgo_t algo) {
  return cublasGemmEx_64(handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc,
                         compute_type, algo);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                          int n, int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                                          long long int stride_a, const void* b, cudaDataType b_type, int ldb,
                                          long long int stride_b, const void* beta, void* c, cudaDataType c_type,
                                          int ldc, long long int stride_c, int batch_count,
                                          cublasComputeType_t compute_type, cublasGemmAlgo_t algo) {
  return cublasGemmStridedBatchedEx_64(handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, stride_a, b, b_type, ldb,
                                       stride_b, beta, c, c_type, ldc, stride_c, batch_count, compute_type, algo);
}
}
