#pragma once
/// \file
/// K3SPEC_HOST_DEVICE marks a function that also runs inside a CUDA kernel; plain C++ compilers see nothing.
/// defines: K3SPEC_HOST_DEVICE

#if defined(__CUDACC__)
#define K3SPEC_HOST_DEVICE __host__ __device__
#else
#define K3SPEC_HOST_DEVICE
#endif
