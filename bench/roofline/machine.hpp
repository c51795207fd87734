#pragma once
/// \file
/// The machine's peaks: multiply-adds of the widest packets, and bytes a second of memory and of the second-level
/// cache. Of several ways to read or to copy the fastest counts.
/// defines: bench::Probe, bench::Roof, bench::probes, bench::roofs_of

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/backend/cpu/unroll.hpp>

#include "case.hpp"
#include "operands.hpp"

namespace k3spec::bench {

/// What a probe is a measure of.
using Roof = double Roofs::*;

/// One way to find a roof.
struct Probe {
  Roof roof;
  std::function<double(const Cpu&)> call;  ///< the flops or bytes that were made
};

/// Keeps results from being left out.
inline std::atomic<float> sink{0};

/// Flops of fused multiply-adds on packets that stay in registers, in chains that do not wait for each other.
inline double fma_chains(index_t steps, float factor, float term) {
  using P = Packet<float>;
  constexpr std::size_t chains = 12;
  std::array<P, chains> x;
  detail::unroll<chains>([&](auto i) { x[i()] = P(static_cast<float>(i())); });
  const P a(factor), b(term);
  for (index_t s = 0; s < steps; ++s) detail::unroll<chains>([&](auto i) { x[i()] = fma(x[i()], a, b); });
  P sum(0.0F);
  detail::unroll<chains>([&](auto i) { sum = sum + x[i()]; });
  sink = sum.lanes()[0];
  return 2.0 * static_cast<double>(steps * static_cast<index_t>(chains) * P::width);
}

/// Reads n numbers. \param ahead  how many of them later ones are asked for; 0: not at all
template <index_t ahead>
void read_floats(const float* from, index_t n) {
  using P = Packet<float>;
  constexpr std::size_t sums = 8;
  constexpr index_t step = static_cast<index_t>(sums) * P::width, line = 16;
  std::array<P, sums> x;
  x.fill(P(0.0F));
  for (index_t i = 0; i + step <= n; i += step) {
    if constexpr (ahead != 0) {
      detail::unroll<static_cast<std::size_t>(step / line)>(
          [&](auto j) { prefetch(from + i + ahead + static_cast<index_t>(j()) * line); });
    }
    detail::unroll<sums>([&](auto j) { x[j()] = x[j()] + P::load(from + i + static_cast<index_t>(j()) * P::width); });
  }
  P sum(0.0F);
  detail::unroll<sums>([&](auto j) { sum = sum + x[j()]; });
  sink = sum.lanes()[0];
}

inline void copy_packets(const float* from, float* to, index_t n) {
  using P = Packet<float>;
  constexpr std::size_t wide = 4;
  constexpr index_t step = static_cast<index_t>(wide) * P::width;
  for (index_t i = 0; i + step <= n; i += step) {
    detail::unroll<wide>([&](auto j) {
      const index_t at = i + static_cast<index_t>(j()) * P::width;
      P::load(from + at).store(to + at);
    });
  }
}

inline void copy_bytes(const float* from, float* to, index_t n) {
  std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
}

/// A function of numbers [first, first + n) that are cut into one piece for each thread.
template <class F>
void in_pieces(const Cpu& cpu, index_t count, F&& f) {
  const index_t piece = count / cpu.threads;
  parallel_for(cpu, cpu.threads, [&](index_t i) { f(i * piece, piece); });
}

/// `times` over `count` numbers of the pool.
template <class F>
Probe reading(Roof roof, const std::shared_ptr<Pool>& pool, index_t count, index_t times, F read) {
  return {roof, [=](const Cpu& cpu) {
            in_pieces(cpu, count, [&](index_t first, index_t n) {
              for (index_t t = 0; t < times; ++t) read(pool->from.data() + first, n);
            });
            return static_cast<double>(times * count) * sizeof(float);
          }};
}
template <class F>
Probe copying(Roof roof, const std::shared_ptr<Pool>& pool, index_t count, index_t times, F copy) {
  return {roof, [=](const Cpu& cpu) {
            in_pieces(cpu, count, [&](index_t first, index_t n) {
              for (index_t t = 0; t < times; ++t) copy(pool->from.data() + first, pool->to.data() + first, n);
            });
            return 2 * static_cast<double>(times * count) * sizeof(float);
          }};
}

/// The arrays of memory have 512 MiB each, those of the cache 1 MiB together.
inline std::vector<Probe> probes(const std::shared_ptr<Pool>& pool) {
  constexpr index_t all = Pool::count, mib = (index_t{1} << 20) / 4, times = 100;
  const auto peak = [](const Cpu& cpu) {
    std::vector<double> made(static_cast<std::size_t>(cpu.threads));
    parallel_for(cpu, cpu.threads,
                 [&](index_t i) { made[static_cast<std::size_t>(i)] = fma_chains(1 << 20, 0.5F, 1.0F); });
    double sum = 0;
    for (const double x : made) sum += x;
    return sum;
  };
  return {{&Roofs::peak, peak},
          reading(&Roofs::memory_read, pool, all, 1, read_floats<0>),
          reading(&Roofs::memory_read, pool, all, 1, read_floats<1024>),
          copying(&Roofs::memory_copy, pool, all, 1, copy_packets),
          copying(&Roofs::memory_copy, pool, all, 1, copy_bytes),
          reading(&Roofs::cache_read, pool, mib, times, read_floats<0>),
          copying(&Roofs::cache_copy, pool, mib / 2, times, copy_packets),
          copying(&Roofs::cache_copy, pool, mib / 2, times, copy_bytes)};
}

/// From the rates of every probe, round by round, at one number of threads.
inline Roofs roofs_of(const std::vector<Probe>& all, const Times& rates) {
  Roofs roofs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    double& roof = roofs.*all[i].roof;
    roof = std::max(roof, median(rates[i]));
  }
  return roofs;
}

}  // namespace k3spec::bench
