#pragma once
/// \file
/// Counter-based random numbers (Philox4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
/// A number depends on (seed, stream, index) alone, never on the order or the thread it is drawn by.
/// defines: Philox, streams

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include <k3spec/core/host_device.hpp>
#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

/// The random numbers of a seed and a stream.
class Philox {
 public:
  K3SPEC_HOST_DEVICE constexpr explicit Philox(std::uint64_t seed, std::uint64_t stream = 0)
      : seed_(seed), stream_(stream) {}

  /// Four independent 32-bit words for a counter.
  K3SPEC_HOST_DEVICE constexpr std::array<std::uint32_t, 4> block(std::uint64_t counter) const {
    std::array<std::uint32_t, 4> x{low(counter), high(counter), low(stream_), high(stream_)};
    std::uint32_t k0 = low(seed_), k1 = high(seed_);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t{0xD2511F53U} * x[0], b = std::uint64_t{0xCD9E8D57U} * x[2];
      x = {high(b) ^ x[1] ^ k0, low(b), high(a) ^ x[3] ^ k1, low(a)};
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return x;
  }

  /// Uniform in [0, 1), 53 bits.
  K3SPEC_HOST_DEVICE constexpr double uniform(std::uint64_t index) const {
    const auto x = block(index);
    return static_cast<double>(word(x, 0) >> 11U) * 0x1p-53;
  }

  /// Uniform integer in [0, bound); bound > 0. Bias below 2^-32 for bounds up to 2^32.
  K3SPEC_HOST_DEVICE constexpr std::uint64_t below(std::uint64_t index, std::uint64_t bound) const {
    return word(block(index), 0) % bound;
  }

  /// Standard normal (Box-Muller, the cosine branch).
  double normal(std::uint64_t index) const {
    const auto x = block(index);
    const double u = (static_cast<double>(word(x, 0) >> 11U) + 0.5) * 0x1p-53;
    const double v = static_cast<double>(word(x, 2) >> 11U) * 0x1p-53;
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }

 private:
  K3SPEC_HOST_DEVICE static constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  K3SPEC_HOST_DEVICE static constexpr std::uint32_t high(std::uint64_t x) {
    return static_cast<std::uint32_t>(x >> 32U);
  }
  K3SPEC_HOST_DEVICE static constexpr std::uint64_t word(const std::array<std::uint32_t, 4>& x, std::size_t i) {
    return std::uint64_t{x[i + 1]} << 32U | x[i];
  }

  std::uint64_t seed_, stream_;
};

/// Where the streams of each kind of training's draws begin, all of one seed. Each kind has the 2^32 streams from there
/// on to itself: one a tensor, or one a step. (A decoder draws from the first few streams of its own seed.)
namespace streams {
inline constexpr std::uint64_t parameters = 0, held_out_anchors = 0x616e646800000000U, anchors = 0x616e636800000000U,
                               prefixes = 0x7072656600000000U, windows = 0x7465787400000000U,
                               orders = 0x6f72646500000000U;
inline constexpr std::array all{parameters, held_out_anchors, anchors, prefixes, windows, orders};
}  // namespace streams

}  // namespace K3SPEC_NAMESPACE
