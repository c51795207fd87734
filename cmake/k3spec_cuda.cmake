# CUDA, if it is wanted and here: k3spec::cuda where the toolkit is, and for our own tests the language, so that
# CMAKE_CUDA_COMPILER is set where there is an nvcc. Without them all else stays as it is.
if(NOT K3SPEC_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "K3SPEC_CUDA: found ${K3SPEC_CUDA}, wanted AUTO, ON or OFF")
endif()

set(K3SPEC_CUDA_FOUND FALSE)
if(K3SPEC_CUDA)
  include(cmake/k3spec_add_cuda.cmake)
  k3spec_add_cuda(k3spec_cuda)
  if(K3SPEC_CUDA_FOUND)
    add_library(k3spec::cuda ALIAS k3spec_cuda)
  elseif(K3SPEC_CUDA STREQUAL ON)
    message(FATAL_ERROR "K3SPEC_CUDA: found no CUDA toolkit with cuBLAS, wanted 12.0 or newer (see CUDAToolkit_ROOT)")
  endif()
endif()

if(K3SPEC_CUDA_FOUND AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CUDA_COMPILER)
  include(CheckLanguage)
  check_language(CUDA)  # in PATH and CUDACXX
  if(NOT CMAKE_CUDA_COMPILER AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
endif()
if(K3SPEC_CUDA_FOUND AND PROJECT_IS_TOP_LEVEL AND CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
elseif(PROJECT_IS_TOP_LEVEL)
  message(STATUS "Not tested: anything with nvcc (K3SPEC_CUDA is ${K3SPEC_CUDA}, found toolkit: ${K3SPEC_CUDA_FOUND})")
endif()
