#pragma once
/// \file
/// The instructions that multiply small matrices, a warp at a time, each as one function: all 32 lanes call it
/// together. float has none here: TF32 would round its operands.
/// ```text
/// lane l = 4·group + in_group                          register i of lane l is element (row, column)
/// a [16, 16] bfloat16   2 to a register, row-major     (group + 8·[i is 1 or 3],  2·in_group + {0, 1} + 8·[i >= 2])
/// b [16, 8]  bfloat16   2 to a register                (2·in_group + {0, 1} + 8·i, group)
/// d [16, 8]  float                                     (group + 8·(i / 2),         2·in_group + i % 2)
/// a [8, 4]   double                                    (group,                     in_group)
/// b [4, 8]   double                                    (in_group,                  group)
/// d [8, 8]   double                                    (group,                     2·in_group + i)
/// ```
/// Of two in a register, the first is the lower half. A card adds an element's products in an order, and rounds between
/// them in a way, that NVIDIA does not specify; what stands in for one adds them one by one in ascending order.
/// Source: PTX ISA, "Matrix multiply-accumulate operation using mma instruction".
/// defines: cuda::MatrixPlace, cuda::accumulator_place, cuda::pack, cuda::multiply_add, cuda::load_matrices,
/// cuda::load_matrices_transposed

#include <cstdint>

#include <cuda_runtime.h>

#include <k3spec/core/dtype.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// An element of a small matrix.
struct MatrixPlace {
  int row, column;
};

/// Where register i of a lane lies in d [16, 8] of float; in d [8, 8] of double, too, whose i is 0 or 1. Two of these
/// below each other are one of those.
K3SPEC_HOST_DEVICE constexpr MatrixPlace accumulator_place(int lane, int i) {
  return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2};
}

/// Two numbers, each rounded once, as one register.
K3SPEC_HOST_DEVICE inline std::uint32_t pack(float first, float second) {
  return std::uint32_t{bfloat16(first).bits} | std::uint32_t{bfloat16(second).bits} << 16U;
}

/// d += a · b for a [16, 16] and b [16, 8] of bfloat16 and d [16, 8] of float.
__device__ inline void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#if defined(__CUDACC__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  cuda_host::mma_m16n8k16(d, a, b);
#endif
}

/// d += a · b for a [8, 4], b [4, 8] and d [8, 8] of double.
__device__ inline void multiply_add(double (&d)[2], double a, double b) {
#if defined(__CUDACC__)
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(d[0]), "+d"(d[1])
               : "d"(a), "d"(b));
#else
  cuda_host::mma_m8n8k4(d, a, b);
#endif
}

/// Four 8 x 8 matrices from shared memory: lane l brings the address of row l % 8 of matrix l / 8, a multiple of 16
/// bytes, and gets of each matrix elements 2·in_group and the next of row `group`, in one register.
__device__ inline void load_matrices(std::uint32_t (&to)[4], const bfloat16* row) {
#if defined(__CUDACC__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
#else
  cuda_host::ldmatrix_x4(to, row, false);
#endif
}

/// The same, each matrix transposed: elements 2·in_group and the next of column `group`.
__device__ inline void load_matrices_transposed(std::uint32_t (&to)[4], const bfloat16* row) {
#if defined(__CUDACC__)
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
#else
  cuda_host::ldmatrix_x4(to, row, true);
#endif
}

}  // namespace K3SPEC_NAMESPACE::cuda
