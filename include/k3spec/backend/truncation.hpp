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
/// What all three keep is drawn from, renormalised once. Top-k does not change what top-p counts. A device's kernels do
/// it (backend/cpu/truncate.hpp).
/// defines: Truncation

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
};
static_assert(std::is_trivially_copyable_v<Truncation>);

}  // namespace K3SPEC_NAMESPACE
