#pragma once
/// \file
/// What a card has as PTX instructions and no CUDA function: products of small matrices by a warp, ldmatrix, cp.async,
/// with the names, the fragment layouts and the faults of the PTX ISA. And where dynamic shared memory lies.

#include <cstdint>

#include "device.h"

namespace cuda_host {

/// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32: d = a b + d. Each element of d is one chain of fused
/// multiply-adds over ascending k. All 32 lanes must come.
void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], CUDA_HOST_HERE);

/// mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64: the same, of double.
void mma_m8n8k4(double (&d)[2], double a, double b, CUDA_HOST_HERE);

/// ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16: lane l brings the address of row l % 8 of matrix l / 8.
void ldmatrix_x4(std::uint32_t (&to)[4], const void* row, bool transposed, CUDA_HOST_HERE);

/// cp.async.cg.shared.global 16, bytes: `bytes` from global memory, the rest of 16 zero. They arrive when wait_group says
/// so and not before; until then the destination holds poison. The source must not change meanwhile.
void cp_async_16(void* to, const void* from, unsigned int bytes, CUDA_HOST_HERE);
/// cp.async.commit_group, cp.async.wait_group: of the calling thread's copies. What no group holds never arrives.
void cp_async_commit_group();
void cp_async_wait_group(unsigned int left, CUDA_HOST_HERE);

/// The launch's dynamic shared memory.
void* dynamic_shared();

namespace detail {

/// The warp's 32 lanes meet; the last to come calls work with what each of them brought.
using Collective = void (*)(void* const* lanes);
void meet_all(Collective work, void* operands, const char* file, unsigned int line);

}  // namespace detail
}  // namespace cuda_host
