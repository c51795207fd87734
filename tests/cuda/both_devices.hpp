#pragma once
/// \file
/// Tests that run the same calls on both devices and compare all bits.
/// defines: test::check_both, test::check_both_within, test::check_launches, test::numbers, test::as_doubles

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include <tests/cuda/device.hpp>
#include <tests/support/same_bits.hpp>

namespace k3spec::test {

/// run(std::type_identity<D>) returns numbers: Cuda's must be Cpu's.
template <class F>
void check_both(F&& run) {
  const auto found = run(std::type_identity<Cuda>{}), wanted = run(std::type_identity<Cpu>{});
  CHECK(same_bits(found, wanted));
}

/// The same where a card has functions of its own, such as cos: there, numbers apart by no more than `within` of the
/// largest.
template <class F>
void check_both_within(double within, F&& run) {
  if (stands_in) return check_both(run);
  const std::vector<double> found = run(std::type_identity<Cuda>{}), wanted = run(std::type_identity<Cpu>{});
  REQUIRE(found.size() == wanted.size());
  double most = 0;
  for (const double w : wanted) most = std::max(most, std::isfinite(w) ? std::abs(w) : 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool same = found[i] == wanted[i] || (std::isnan(found[i]) && std::isnan(wanted[i]));
    CHECK((same || std::abs(found[i] - wanted[i]) <= within * most));
  }
}

/// The call queues so many kernels and waits for none of them: where a host stands in, they run when somebody waits.
template <class F>
void check_launches(long wanted, F&& call) {
  if (!stands_in) return;
  const Cuda& cuda = device<Cuda>();
  cuda.synchronize();
  const long before = device_launches();
  call();
  CHECK(device_launches() == before);
  cuda.synchronize();
  CHECK(device_launches() == before + wanted);
}

/// n numbers near 1 of both signs, all different.
template <class T>
std::vector<T> numbers(index_t n, std::uint64_t seed = 1) {
  std::vector<T> x;
  const Philox random(seed);
  for (index_t i = 0; i < n; ++i) {
    x.push_back(static_cast<T>(static_cast<accumulate_t<T>>(random.normal(static_cast<std::uint64_t>(i)))));
  }
  return x;
}

template <class T>
std::vector<double> as_doubles(const std::vector<T>& x) {
  std::vector<double> y;
  for (const T v : x) y.push_back(static_cast<double>(v));
  return y;
}

}  // namespace k3spec::test
