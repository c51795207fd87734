#pragma once
/// \file
/// The device tag of an NVIDIA card.
/// defines: Cuda, CudaOptions, MixedProducts

#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <k3spec/backend/cuda/stream.hpp>
#include <k3spec/core/target_device.hpp>
#include <k3spec/core/view.hpp>

/// \namespace k3spec::cuda
/// How CUDA does what the library asks of every device.

namespace K3SPEC_NAMESPACE {

/// How a product of a float operand, in practice a gradient, with a bfloat16 one runs on units that multiply bfloat16
/// alone: in three products that lose nothing, or in one with the float operand rounded to bfloat16 first, as gradients
/// of bfloat16 tensors are in PyTorch. A K3 draft's step takes 1.7 to 2.9 times as long with the first
/// (bench/card_step.md).
enum class MixedProducts { exact, rounded };

/// What the device Cuda is made from.
struct CudaOptions {
  int ordinal = 0;  ///< which card
  /// Bytes that cuBLAS may use. Given beforehand, so that no product allocates and each run takes the same algorithm.
  std::size_t blas_workspace = std::size_t{32} << 20;
  /// Bytes for the panels in which a float operand meets a bfloat16 one (backend/cuda/gemm.hpp).
  std::size_t panel_workspace = std::size_t{64} << 20;
  MixedProducts mixed_products = MixedProducts::exact;
  /// Of the host, for what a card does not do yet: the frozen target of a training run (core/target_device.hpp).
  int host_threads = 1;
  /// Ask the driver, at every op, whether the operands are device memory at all. Costs well under a microsecond a
  /// tensor; without it a host pointer ends in an illegal address some time later.
  bool check_pointers = true;
};

/// One card and one stream on it: all ops given this tag run there one after another, and return before they have run.
/// Used by one host thread at a time, whose current device (cudaSetDevice) is that card, as the constructor leaves it.
/// With the same build and card a call's result is the same bits every time; expressions and sums give the bits that
/// Cpu gives (backend/cuda/evaluate.hpp), products need not, and a product's row may depend on how many rows there are,
/// since cuBLAS chooses its algorithm by shape.
class Cuda {
 public:
  /// A card, with a stream and a handle of cuBLAS.
  /// \throws Error with the driver's sentence when there is no such card
  explicit Cuda(const CudaOptions& options = {}) : options_(options) {
    select();
    found_ = cuda::PinnedMemory(sizeof(*faults()));
    stream_ = std::make_unique<cuda::Stream>();
    cublasHandle_t blas = nullptr;
    cuda::check(cublasCreate(&blas), "cublasCreate");
    blas_.reset(blas);
    workspace_ = allocate(faults_offset() + sizeof(*faults()));
    forget_faults();
    prepare_blas();
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  cudaStream_t stream() const { return stream_->get(); }
  cublasHandle_t blas() const { return blas_.get(); }
  int multiprocessors() const { return multiprocessors_; }

  MixedProducts mixed_products() const { return options_.mixed_products; }
  int host_threads() const { return options_.host_threads; }

  /// Device memory for one op, free again when the next one begins.
  std::span<std::byte> panel() const { return {workspace_.get() + panel_offset(), options_.panel_workspace}; }

  /// Returns when all ops so far are done.
  /// \throws CudaError when one failed; Error for a token id that was outside its table
  void synchronize() const {
    unsigned long long row = 0;
    // Behind all ops so far, so that one wait is for both.
    cuda::check(cudaMemcpyAsync(found_.data(), faults(), sizeof(row), cudaMemcpyDeviceToHost, stream()),
                "cudaMemcpyAsync");
    stream_->synchronize();
    std::memcpy(&row, found_.data(), sizeof(row));
    if (row == no_row) return;
    forget_faults();
    throw Error("token id at row " + std::to_string(row), "an id outside the table", "one of its rows");
  }

  /// Where kernels leave the first row whose token id is outside its table (atomicMin).
  unsigned long long* faults() const {
    return reinterpret_cast<unsigned long long*>(workspace_.get() + faults_offset());
  }

  /// False when v's elements, if it has any, are not memory of a card. (A view of nothing may point past a buffer's
  /// end.)
  template <class T, index_t... E>
  bool is_reachable(const View<T, E...>& v) const {
    if (!options_.check_pointers || v.size() == 0) return true;
    if (v.data() == nullptr) return false;
    cudaPointerAttributes attributes{};
    cuda::check(cudaPointerGetAttributes(&attributes, v.data()), "cudaPointerGetAttributes");
    return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  }

  /// Refuses memory of the host.
  /// \throws Error when v is not memory of a card
  template <class T, index_t... E>
  void require_device_memory(const View<T, E...>& v, std::string_view what) const {
    if (!is_reachable(v)) throw Error(what, v.data() == nullptr ? "a null pointer" : "host memory", "device memory");
  }

 private:
  static constexpr unsigned long long no_row = std::numeric_limits<unsigned long long>::max();

  struct Free {
    void operator()(std::byte* p) const { cudaFree(p); }
  };
  struct DestroyBlas {
    void operator()(cublasHandle_t h) const { cublasDestroy(h); }
  };

  /// Whatever sizes are asked for, each part of the workspace begins at an address as good as cudaMalloc's.
  static constexpr std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  std::size_t panel_offset() const { return padded(options_.blas_workspace); }
  std::size_t faults_offset() const { return panel_offset() + padded(options_.panel_workspace); }

  void select() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count <= options_.ordinal || options_.ordinal < 0) {
      const std::string found = status != cudaSuccess ? cudaGetErrorString(status) : std::to_string(count) + " devices";
      throw Error("CUDA", found, "device " + std::to_string(options_.ordinal));
    }
    cuda::check(cudaSetDevice(options_.ordinal), "cudaSetDevice");
    cuda::check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, options_.ordinal),
                "cudaDeviceGetAttribute");
  }

  static std::unique_ptr<std::byte, Free> allocate(std::size_t bytes) {
    void* p = nullptr;
    cuda::check(cudaMalloc(&p, bytes), "cudaMalloc");
    return std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(p));
  }

  void forget_faults() const {
    cuda::check(cudaMemsetAsync(faults(), 0xff, sizeof(no_row), stream()), "cudaMemsetAsync");
  }

  void prepare_blas() const {
    cuda::check(cublasSetStream(blas(), stream()), "cublasSetStream");
    cuda::check(cublasSetWorkspace(blas(), workspace_.get(), options_.blas_workspace), "cublasSetWorkspace");
    // Sums of bfloat16 products stay in float until their one rounding, also where a sum is split over blocks.
    const auto mode = static_cast<cublasMath_t>(static_cast<int>(CUBLAS_DEFAULT_MATH) |
                                                static_cast<int>(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
    cuda::check(cublasSetMathMode(blas(), mode), "cublasSetMathMode");
  }

  CudaOptions options_;
  int multiprocessors_ = 0;
  std::unique_ptr<cuda::Stream> stream_;
  std::unique_ptr<std::byte, Free> workspace_;
  cuda::PinnedMemory found_;  // where synchronize reads what kernels left in faults()
  std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, DestroyBlas> blas_;
};

template <>
inline constexpr bool is_device<Cuda> = true;

/// A card has no kernels for a whole target yet: it runs on the host.
template <>
struct TargetPlace<Cuda> {
  using type = Cpu;
  static Cpu of(const Cuda& cuda) { return {cuda.host_threads()}; }
};

}  // namespace K3SPEC_NAMESPACE
