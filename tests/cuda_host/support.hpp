#pragma once
/// \file
/// What the tests of the stand-in share.
/// defines: Array, launch, Planted, with_asan, CHECK_CUDA

#include <cuda_host.h>
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#define REQUIRE_CUDA(expression) REQUIRE_MESSAGE((expression) == cudaSuccess, cuda_host::last_fault())

extern "C" [[gnu::weak]] void __asan_init();

/// Is this program built with AddressSanitizer?
inline bool with_asan() { return __asan_init != nullptr; }

/// n elements of device memory.
template <class T>
class Array {
 public:
  explicit Array(std::size_t n) : size_(n) { REQUIRE_CUDA(cudaMalloc(&data_, n * sizeof(T))); }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    REQUIRE_CUDA(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Array() { static_cast<void>(cudaFree(data_)); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* get() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(size_);
    REQUIRE_CUDA(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

struct Shape {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};

template <class... P, class... A>
cudaError_t launch(const Shape& shape, void (*kernel)(P...), A&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared;
  config.stream = shape.stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<A>(arguments)...);
}

/// Launches and waits.
template <class... P, class... A>
cudaError_t run(const Shape& shape, void (*kernel)(P...), A&&... arguments) {
  const cudaError_t error = launch(shape, kernel, std::forward<A>(arguments)...);
  return error != cudaSuccess ? error : cudaDeviceSynchronize();
}

/// A test that plants a fault: silent, and the device is whole again afterwards.
class Planted {
 public:
  Planted() {
    cuda_host::set_quiet(true);
    cuda_host::clear_last_fault();
  }
  ~Planted() {
    static_cast<void>(cudaDeviceReset());
    cuda_host::set_quiet(false);
  }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
};

/// Does the last fault's sentence say this?
inline bool fault_says(const std::string& words) { return cuda_host::last_fault().find(words) != std::string::npos; }
#define CHECK_FAULT_SAYS(words) CHECK_MESSAGE(fault_says(words), "found: " << cuda_host::last_fault())

inline std::vector<float> ascending(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  return values;
}
