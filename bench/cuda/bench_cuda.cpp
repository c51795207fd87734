/// \file
/// Bytes and operations per second of the ops on a card, beside those of a copy and of plain cuBLAS in the same run.
///
///     bench_cuda [--device N] [--smoke]
///
/// One table on standard output. --smoke: tiny sizes, once; its figures mean nothing. Without a card: one sentence and
/// exit status 1.

#include <cstdio>
#include <memory>
#include <string>

#include <bench/cuda/products.hpp>
#include <bench/cuda/traffic.hpp>

namespace {

using namespace k3spec;
using namespace k3spec::bench;
using Config = configs::KimiK3;

struct Options {
  int device = 0;
  bool smoke = false;
};

/// \throws Error for an option that is none
Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--smoke") {
      options.smoke = true;
    } else if (option == "--device" && i + 1 < argc) {
      const std::string number = argv[++i];
      if (number.empty() || number.size() > 4 || number.find_first_not_of("0123456789") != std::string::npos) {
        throw Error("--device", number, "the number of a card");
      }
      options.device = std::stoi(number);
    } else {
      throw Error("option", option, "--device N or --smoke");
    }
  }
  return options;
}

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

void print_card(const Cuda& cuda, const Options& options, const Sizes& sizes) {
  cudaDeviceProp card{};
  int driver = 0, runtime = 0, blas = 0;
  cuda::check(cudaGetDeviceProperties(&card, options.device), "cudaGetDeviceProperties");
  cuda::check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  cuda::check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  cuda::check(cublasGetVersion(cuda.blas(), &blas), "cublasGetVersion");
  fmt::print("{} (compute capability {}.{}, {} multiprocessors), driver for CUDA {}, runtime {}, cuBLAS {}\n",
             static_cast<const char*>(card.name), card.major, card.minor, card.multiProcessorCount, version(driver),
             version(runtime), blas);
  fmt::print(
      "Each time is the median of {} calls after 3 others. Caches are cold: {} MiB of other data are read before "
      "each call.\n",
      sizes.calls, sizes.read_between * 4 >> 20);
  if (options.smoke) fmt::print("A smoke test: these figures mean nothing.\n");
  fmt::print("\n");
}

void measure(Setting& s, bool smoke) {
  Setting::print_head();
  copies(s);
  for (const index_t rows : s.sizes.rows) {
    activations<bfloat16>(s, rows);
    norms<bfloat16>(s, rows);
    embeddings(s, rows);
  }
  activations<float>(s, s.sizes.rows.back());
  norms<float>(s, s.sizes.rows.back());
  if (smoke) {
    optimizer<Linear<70, 33>>(s);
  } else {
    optimizer<Linear<Config::hidden_size, Config::intermediate_size>>(s);
  }
  products(s);
}

/// Where no driver is, its absence says more than what the CUDA runtime makes of it.
std::string why(const Error& e) {
  const CudaDriver driver = find_cuda_driver();
  return driver.unavailable.empty() ? e.what() : "CUDA: found " + driver.unavailable + ", wanted a card";
}

int run(const Options& options) {
  std::unique_ptr<Cuda> cuda;
  try {
    cuda = std::make_unique<Cuda>(CudaOptions{.ordinal = options.device});
  } catch (const Error& e) {
    fmt::print(stderr, "bench_cuda: {}\n", why(e));
    return 1;
  }
  const Sizes sizes = options.smoke ? smoke_sizes() : k3_sizes();
  print_card(*cuda, options, sizes);
  Setting setting{*cuda, sizes, Stopwatch(*cuda, sizes.read_between, sizes.calls)};
  measure(setting, options.smoke);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const Error& e) {
    fmt::print(stderr, "bench_cuda: {}\n", e.what());
    return 1;
  }
}
