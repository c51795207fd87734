# k3spec_add_cuda(<library>): a library that links k3spec, the CUDA runtime and cuBLAS where the toolkit is found; sets
# K3SPEC_CUDA_FOUND. The package file uses it too: a consumer of an installed k3spec has a toolkit of his own or none.
macro(k3spec_add_cuda library)
  find_package(CUDAToolkit 12.0 QUIET)  # the first whose nvcc knows C++20
  set(K3SPEC_CUDA_FOUND FALSE)
  if(TARGET CUDA::cudart AND TARGET CUDA::cublas)
    set(K3SPEC_CUDA_FOUND TRUE)
    add_library(${library} INTERFACE ${ARGN})
    target_link_libraries(${library} INTERFACE k3spec::k3spec CUDA::cudart CUDA::cublas)
  endif()
endmacro()
