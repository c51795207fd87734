#pragma once
/// \file
/// A random order of any number of things, place by place: nothing is stored, and nothing drawn before is remembered.
/// A Feistel network over Philox permutes the smallest even number of bits that has room for all; what falls outside
/// goes through it again (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
/// defines: Permutation

#include <bit>
#include <cstdint>
#include <string>

#include <k3spec/core/error.hpp>
#include <k3spec/core/rng.hpp>

namespace K3SPEC_NAMESPACE {

/// Of 0 to count - 1, which (seed, stream) chooses.
class Permutation {
 public:
  /// An order of so many things.
  /// \throws Error unless there is something to order
  Permutation(std::uint64_t seed, std::uint64_t stream, std::uint64_t count) : random_(seed, stream), count_(count) {
    if (count == 0) throw Error("permutation", "nothing to order", "one thing or more");
    half_ = (static_cast<int>(std::bit_width(count - 1)) + 1) / 2;
  }

  /// What comes at a place.
  /// \throws Error when there is no such place
  std::uint64_t operator()(std::uint64_t place) const {
    if (place >= count_) {
      throw Error("permutation: place", std::to_string(place), "below " + std::to_string(count_));
    }
    std::uint64_t x = place;
    do x = network(x);
    while (x >= count_);
    return x;
  }

 private:
  static constexpr std::uint64_t rounds = 8;

  /// One to one on 2 · half_ bits.
  std::uint64_t network(std::uint64_t x) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_) - 1;
    std::uint64_t left = x >> half_, right = x & mask;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t next = left ^ (random_.block(round << 32U | right)[0] & mask);
      left = right, right = next;
    }
    return left << half_ | right;
  }

  Philox random_;
  std::uint64_t count_;
  int half_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
