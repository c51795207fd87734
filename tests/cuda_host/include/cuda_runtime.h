#pragma once
/// \file
/// Stands in for CUDA's header of this name: CUDA C++ sources compile as plain C++ and run on the CPU, strictly.
/// Only what k3spec uses is here. __CUDACC__ stays undefined; launches go through cudaLaunchKernelEx.

#include "cuda_runtime_api.h"

#include "cuda_host/atomics.h"
#include "cuda_host/device.h"
#include "cuda_host/intrinsics.h"
#include "cuda_host/launch.h"
#include "cuda_host/matrix.h"
#include "cuda_host/typed_api.h"
#include "cuda_host/warp.h"
