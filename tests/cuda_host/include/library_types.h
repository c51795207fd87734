#pragma once
/// \file
/// Element types as cuBLAS names them: those that k3spec uses, and one (half) that is refused.

enum cudaDataType { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
using cudaDataType_t = cudaDataType;
