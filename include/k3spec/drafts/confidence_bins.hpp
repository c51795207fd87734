#pragma once
/// \file
/// Bins of equal width over the confidences from 0 to 1, by which a draft's confidence is held against what became of
/// its tokens.
/// defines: confidence_bins, clamped_confidence, confidence_bin

#include <algorithm>
#include <cstddef>

#include <k3spec/core/extents.hpp>
#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

/// How many there are.
inline constexpr index_t confidence_bins = 16;

/// From 0 to 1; what is no number is 0.
inline double clamped_confidence(double confidence) { return confidence > 0 ? std::min(confidence, 1.0) : 0; }

/// The bin of a confidence: bin i has those from i / 16 on up to (i + 1) / 16, the last one also 1.
inline std::size_t confidence_bin(double confidence) {
  const double at = clamped_confidence(confidence) * confidence_bins;
  return static_cast<std::size_t>(std::min(at, static_cast<double>(confidence_bins - 1)));
}

}  // namespace K3SPEC_NAMESPACE
