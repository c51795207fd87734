#pragma once
/// \file
/// Which tokens may be drawn at all: top-k, top-p and min-p.
///
/// Tokens stand in one order, the likelier first and of equal ones the one with the lower id. Each rule keeps the first
/// so many of them, by the probabilities that all tokens together have at the temperature:
/// ```text
/// min-p  those at least min_p times as likely as the likeliest
/// top-p  as few as have top_p of all the probability together, the one that reaches it included
/// top-k  top_k
/// ```
/// What all three keep is drawn from, renormalised once. Top-k does not change what top-p counts.
/// defines: Truncation

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include <k3spec/core/extents.hpp>
#include <k3spec/core/range.hpp>

namespace K3SPEC_NAMESPACE {

/// Which tokens may be drawn at all.
struct Truncation {
  index_t top_k = 0;  ///< 0: all
  double top_p = 1;   ///< 1: all
  double min_p = 0;   ///< 0: all

  bool operator==(const Truncation&) const = default;
  bool keeps_all() const { return top_k == 0 && top_p == 1 && min_p == 0; }

  static constexpr Range<index_t> top_k_range{.least = 0, .meaning = "0: all"};
  static constexpr Range<double> top_p_range{.least = 0, .most = 1, .above = true}, min_p_range{0, 1};

  /// Refuses limits out of range.
  /// \throws Error naming what is out of range
  void check() const {
    top_k_range.check("top_k", top_k);
    top_p_range.check("top_p", top_p);
    min_p_range.check("min_p", min_p);
  }

  /// Weights of all tokens, finite and not negative -> 0 where a token is not kept. Nothing is sorted and nothing
  /// allocated: a few passes over the weights find the last one that is kept.
  template <class S>
  void apply(std::span<S> weights) const {
    if (keeps_all() || weights.empty()) return;
    const double least = min_p * static_cast<double>(*std::max_element(weights.begin(), weights.end()));
    // Top-p counts what all tokens have together, those below min-p included.
    Cut<S> cut = find_cut<S>(weights);
    for (S& x : weights) {
      if (static_cast<double>(x) >= least && (x > cut.last || (x == cut.last && cut.equal-- > 0))) continue;
      x = 0;
    }
  }

 private:
  /// The last weight that top-p and top-k keep, and how many that are as large.
  template <class S>
  struct Cut {
    S last = 0;
    index_t equal = std::numeric_limits<index_t>::max();
  };

  /// Floats that are not negative are in the order of their bits. Digit by digit from the highest on, the bits of the
  /// last one kept are found: by how many there are, and how much they weigh, of each value of the digit.
  template <class S>
  Cut<S> find_cut(std::span<const S> weights) const {
    if (top_k == 0 && top_p == 1) return {};
    using Bits = std::conditional_t<sizeof(S) == 4, std::uint32_t, std::uint64_t>;
    static_assert(sizeof(Bits) == sizeof(S));
    constexpr int digit = 8, width = 8 * sizeof(S);
    const double bound = top_p < 1 ? top_p * sum(weights) : std::numeric_limits<double>::infinity();
    const index_t most = top_k > 0 ? top_k : std::numeric_limits<index_t>::max();
    Bits found = 0;     // the digits so far
    index_t count = 0;  // weights that are larger, whatever the digits to come, and what they weigh
    double mass = 0;
    for (int shift = width - digit; shift >= 0; shift -= digit) {
      std::array<index_t, 1 << digit> counts{};
      std::array<double, 1 << digit> masses{};
      for (const S x : weights) {
        const Bits bits = std::bit_cast<Bits>(x) >> shift;
        if ((bits ^ found) >> digit != 0) continue;
        const auto d = static_cast<std::size_t>(bits & ((1 << digit) - 1));
        ++counts[d], masses[d] += static_cast<double>(x);
      }
      std::size_t d = counts.size() - 1;
      for (; d > 0 && count + counts[d] < most && mass + masses[d] < bound; --d) {
        count += counts[d], mass += masses[d];
      }
      found = static_cast<Bits>((found | d) << (shift > 0 ? digit : 0));
    }
    Cut<S> cut{std::bit_cast<S>(found), 0};
    do {
      ++cut.equal, mass += static_cast<double>(cut.last);
    } while (count + cut.equal < most && mass < bound && cut.equal < static_cast<index_t>(weights.size()));
    return cut;
  }

  template <class S>
  static double sum(std::span<const S> weights) {
    double total = 0;
    for (const S x : weights) total += static_cast<double>(x);
    return total;
  }
};

}  // namespace K3SPEC_NAMESPACE
