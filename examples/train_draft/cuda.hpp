#pragma once
/// \file
/// Runs whose draft is on a card. To be included where `train` is instantiated for Cuda.
/// defines: RunPlace<Cuda>

#include <string>

#include <k3spec/cuda.hpp>

#include "draft.hpp"

namespace k3spec::examples {

template <>
struct RunPlace<Cuda> {
  /// The first card, of those that CUDA_VISIBLE_DEVICES leaves.
  static Cuda make(const DeviceOptions& options) {
    CudaOptions of_card;
    of_card.host_threads = options.threads;
    return Cuda(of_card);
  }

  static std::string text(const DeviceOptions& options) {
    cudaDeviceProp card{};
    cuda::check(cudaGetDeviceProperties(&card, 0), "cudaGetDeviceProperties");
    return fmt::format("the draft on {}; the target beside it on the host: {}", static_cast<const char*>(card.name),
                       device_text(options));
  }

  /// \throws Error when the card or the host has less memory than that, naming what makes it so much
  static void check(const std::string& subject, const RunBytes& bytes) {
    check_memory(subject, bytes.target);
    std::size_t free = 0, total = 0;
    cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    check_memory(subject + " on the card", bytes.draft, free);
  }
};

}  // namespace k3spec::examples
