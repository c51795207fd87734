#pragma once
/// \file
/// Whether CUDA can run here, asked of NVIDIA's driver itself. Plain C++ that needs no CUDA to build with, so that
/// every program can say why it does not run on CUDA.
/// defines: CudaDriver, find_cuda_driver

#include <string>

#include <dlfcn.h>

#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

/// What the driver says of itself.
struct CudaDriver {
  std::string unavailable;  ///< why no device can be used, as what was found in its place; empty if one can
  int devices = 0;
  int version = 0;  ///< of CUDA, e.g. 13010 for 13.1: the newest that the driver knows

  /// e.g. "1 device, CUDA 13.1"
  std::string describe() const {
    return std::to_string(devices) + (devices == 1 ? " device" : " devices") + ", CUDA " +
           std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
  }
};

namespace detail {

/// Calls the driver's function `name`. \returns its CUresult, 0 for success; -1 if the library has no such function
template <class... Args>
int call_driver(void* library, const char* name, Args... args) {
  void* const symbol = dlsym(library, name);
  return symbol ? reinterpret_cast<int (*)(Args...)>(symbol)(args...) : -1;
}

inline std::string driver_not_loaded(std::string why) {
  const bool missing = why.starts_with("libcuda.so.1:") && why.ends_with("No such file or directory");
  return missing ? "no NVIDIA driver (libcuda.so.1 not found)" : "an NVIDIA driver that cannot be loaded: " + why;
}

inline std::string call_failed(const char* name, int code) {
  constexpr int no_device = 100;  // CUDA_ERROR_NO_DEVICE, which cuInit says too
  if (code == no_device) return "an NVIDIA driver, but no device";
  if (code == -1) return std::string("an NVIDIA driver that has no ") + name;
  return std::string("an NVIDIA driver, but ") + name + " failed: code " + std::to_string(code);
}

}  // namespace detail

/// Never throws for want of a driver or device. The driver stays loaded, as it does not bear being unloaded.
inline CudaDriver find_cuda_driver() {
  CudaDriver driver;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return {detail::driver_not_loaded(dlerror()), 0, 0};
  const auto ok = [&](const char* name, auto... args) {
    const int code = detail::call_driver(library, name, args...);
    if (code != 0) driver.unavailable = detail::call_failed(name, code);
    return code == 0;
  };
  if (ok("cuInit", 0U) && ok("cuDriverGetVersion", &driver.version) && ok("cuDeviceGetCount", &driver.devices) &&
      driver.devices < 1) {
    driver.unavailable = detail::call_failed("cuDeviceGetCount", 100);
  }
  return driver;
}

}  // namespace K3SPEC_NAMESPACE
