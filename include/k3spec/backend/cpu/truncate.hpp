#pragma once
/// \file
/// Leaves of a row of weights what may be drawn, on the CPU (backend/truncation.hpp).
/// defines: truncate_row

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include <k3spec/backend/truncation.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

/// The last weight that is kept, and how many that are as large.
template <class S>
struct Cut {
  S last = 0;
  index_t equal = std::numeric_limits<index_t>::max();
};

/// Finds where the weights are cut. Floats that are not negative are in the order of their bits. Digit by digit from
/// the highest on, the bits of the last one kept are found: by how many there are, and how much they weigh, of each
/// value of the digit.
template <class S>
class CutSearch {
 public:
  /// \param most   how many weights are kept
  /// \param bound  what those kept weigh together, the last of them aside
  CutSearch(std::span<const S> weights, index_t most, double bound) : weights_(weights), most_(most), bound_(bound) {}

  Cut<S> find() {
    for (int shift = width - digit; shift >= 0; shift -= digit) {
      const std::size_t d = next_digit(shift);
      found_ = static_cast<Bits>((found_ | d) << (shift > 0 ? digit : 0));
    }
    Cut<S> cut{std::bit_cast<S>(found_), 0};
    do {
      ++cut.equal, mass_ += static_cast<double>(cut.last);
    } while (count_ + cut.equal < most_ && mass_ < bound_ && cut.equal < static_cast<index_t>(weights_.size()));
    return cut;
  }

 private:
  using Bits = std::conditional_t<sizeof(S) == 4, std::uint32_t, std::uint64_t>;
  static_assert(sizeof(Bits) == sizeof(S));
  static constexpr int digit = 8, width = 8 * sizeof(S);

  /// The next digit of the last weight kept; counts the weights that are larger, whatever the digits to come.
  std::size_t next_digit(int shift) {
    std::array<index_t, 1 << digit> counts{};
    std::array<double, 1 << digit> masses{};
    for (const S x : weights_) {
      const Bits bits = std::bit_cast<Bits>(x) >> shift;
      if ((bits ^ found_) >> digit != 0) continue;
      const auto d = static_cast<std::size_t>(bits & ((1 << digit) - 1));
      ++counts[d], masses[d] += static_cast<double>(x);
    }
    std::size_t d = counts.size() - 1;
    for (; d > 0 && count_ + counts[d] < most_ && mass_ + masses[d] < bound_; --d) {
      count_ += counts[d], mass_ += masses[d];
    }
    return d;
  }

  std::span<const S> weights_;
  index_t most_;
  double bound_;
  Bits found_ = 0;     // the digits so far
  index_t count_ = 0;  // weights that are larger, whatever the digits to come, and what they weigh
  double mass_ = 0;
};

/// Where top-k and top-p cut.
template <class S>
Cut<S> find_cut(const Truncation& truncation, std::span<const S> weights) {
  if (truncation.top_k == 0 && truncation.top_p == 1) return {};
  double total = 0;
  if (truncation.top_p < 1) {
    for (const S x : weights) total += static_cast<double>(x);
  }
  const double bound = truncation.top_p < 1 ? truncation.top_p * total : std::numeric_limits<double>::infinity();
  return CutSearch<S>(weights, truncation.top_k > 0 ? truncation.top_k : std::numeric_limits<index_t>::max(), bound)
      .find();
}

}  // namespace detail

/// Weights of all tokens, finite and not negative -> 0 where a token is not kept. Nothing is sorted and nothing
/// allocated: a few passes over the weights find the last one that is kept.
template <class S>
void truncate_row(const Truncation& truncation, std::span<S> weights) {
  if (truncation.keeps_all() || weights.empty()) return;
  const double least = truncation.min_p * static_cast<double>(*std::max_element(weights.begin(), weights.end()));
  // Top-p counts what all tokens have together, those below min-p included.
  detail::Cut<S> cut = detail::find_cut<S>(truncation, weights);
  for (S& x : weights) {
    if (static_cast<double>(x) >= least && (x > cut.last || (x == cut.last && cut.equal-- > 0))) continue;
    x = 0;
  }
}

}  // namespace K3SPEC_NAMESPACE
