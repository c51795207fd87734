#pragma once
/// \file
/// K3SPEC_HOST_DEVICE marks a function that also runs inside a CUDA kernel; plain C++ compilers see nothing.
/// K3SPEC_UNROLL stands before a loop in a kernel that is to be written out, so that what it indexes stays in
/// registers.
/// defines: K3SPEC_HOST_DEVICE, K3SPEC_UNROLL

#include <k3spec/core/compiler.hpp>

#if defined(__CUDACC__)
#define K3SPEC_HOST_DEVICE __host__ __device__
#define K3SPEC_UNROLL _Pragma("unroll")
#else
#define K3SPEC_HOST_DEVICE
#define K3SPEC_UNROLL
#endif
