#pragma once
/// \file
/// A range of positions.
/// defines: Interval

#include <algorithm>

#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// Positions [begin, end); none if end <= begin.
struct Interval {
  index_t begin, end;

  K3SPEC_HOST_DEVICE constexpr index_t size() const { return std::max<index_t>(0, end - begin); }
  K3SPEC_HOST_DEVICE constexpr bool contains(const Interval& other) const {
    return begin <= other.begin && other.end <= end;
  }
  K3SPEC_HOST_DEVICE constexpr Interval operator&(const Interval& other) const {
    return {std::max(begin, other.begin), std::min(end, other.end)};
  }
};

}  // namespace K3SPEC_NAMESPACE
