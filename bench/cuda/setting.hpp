#pragma once
/// \file
/// What all measurements share: the card, sizes, data and the table.
/// defines: bench::Sizes, k3_sizes, smoke_sizes, type_name, Setting, shape, fill, numbers, matrix, vector

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <bench/cuda/stopwatch.hpp>
#include <k3spec/core/format.hpp>

namespace k3spec::bench {

struct Sizes {
  index_t copied, read_between;  ///< floats
  index_t hidden, inner, vocabulary;
  std::vector<index_t> rows;
  int calls;
};

/// Kimi K3's, and so small that a CPU plays all threads in no time.
inline Sizes k3_sizes() {
  using Config = configs::KimiK3;
  return {index_t{1} << 28,
          index_t{1} << 27,
          Config::hidden_size,
          Config::intermediate_size,
          Config::vocab_size,
          {1, 64, 4096},
          25};
}
inline Sizes smoke_sizes() { return {5000, 5000, 70, 33, 11, {1, 3}, 1}; }

template <class T>
inline constexpr const char* type_name = "float";
template <>
inline constexpr const char* type_name<bfloat16> = "bf16";

struct Setting {
  const Cuda& cuda;
  Sizes sizes;
  Stopwatch watch;
  double copy_rate = 0;  ///< bytes per second, once measured

  static void print_head() {
    fmt::print("| {:<22} | {:<22} | {:<20} | {:>10} | {:>14} | {:>14} | {:>5} |\n", "what", "types", "shape",
               "median, us", "rate", "yardstick", "share");
    fmt::print("| --- | --- | --- | ---: | ---: | ---: | ---: |\n");
  }
  static void print(const std::string& what, const std::string& types, const std::string& shape, double seconds,
                    const std::string& rate, const std::string& yardstick, double share) {
    fmt::print("| {:<22} | {:<22} | {:<20} | {:>10.1f} | {:>14} | {:>14} | {:>3.0f} % |\n", what, types, shape,
               seconds * 1e6, rate, yardstick, share * 100);
    std::fflush(stdout);
  }

  /// Measures `call`, which must move `bytes` at least, against the copy.
  template <class F>
  void moves(const std::string& what, const std::string& types, const std::string& shape, double bytes, F&& call) {
    const double seconds = watch.seconds(call), rate = bytes / seconds;
    print(what, types, shape, seconds, in_gigabytes(rate), in_gigabytes(copy_rate), rate / copy_rate);
  }
  static std::string in_gigabytes(double rate) { return fmt::format("{:.1f} GB/s", rate * 1e-9); }
};

inline std::string shape(index_t rows, index_t columns) { return fmt::format("{} x {}", rows, columns); }

/// Numbers in [-1, 1) that fill all digits of a type (a card runs faster on zeros), and depend on place and seed alone.
template <class T>
__global__ void __launch_bounds__(256) fill(T* x, index_t n, std::uint64_t seed) {
  for (index_t i = index_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += index_t{gridDim.x} * blockDim.x) {
    std::uint64_t h = (static_cast<std::uint64_t>(i) + (seed << 48U)) * 0x9e3779b97f4a7c15U;
    h = (h ^ (h >> 32U)) * 0xd6e8feb86659fd93U;
    x[i] = static_cast<T>(static_cast<float>(static_cast<std::int32_t>(h >> 32U)) * 0x1p-31f);
  }
}

template <class T>
CudaBuffer<T> numbers(const Cuda& cuda, index_t n, std::uint64_t seed) {
  CudaBuffer<T> x(cuda, n);
  if (n > 0) cuda::launch(cuda, {dim3(cuda::blocks_for(cuda, n, 256)), dim3(256)}, fill<T>, bare(x.data()), n, seed);
  return x;
}

template <class T>
Matrix<element_t<Cuda, T>> matrix(CudaBuffer<T>& x, index_t columns) {
  return Matrix<element_t<Cuda, T>>(x.data(), x.size() / columns, columns);
}
template <class T>
Vector<element_t<Cuda, T>> vector(CudaBuffer<T>& x) {
  return Vector<element_t<Cuda, T>>(x.data(), x.size());
}

}  // namespace k3spec::bench
