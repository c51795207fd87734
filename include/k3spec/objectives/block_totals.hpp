#pragma once
/// \file
/// What the losses of a block draft's step are divided by.
/// defines: BlockTotals

#include <optional>
#include <string>

#include <k3spec/core/error.hpp>

namespace K3SPEC_NAMESPACE {

/// What a step's losses are divided by: summed over all its batches, and over all ranks.
struct BlockTotals {
  double weight = 0;  ///< of all slots

  BlockTotals& operator+=(const BlockTotals& other) {
    weight += other.weight;
    return *this;
  }
  /// Calls v(number) for each sum.
  template <class V>
  void visit_sums(V&& v) {
    v(weight);
  }
  /// Those of this batch's step. \param given  what was summed; none: the batch is alone
  /// \throws Error unless this batch can be one of those summed; a sum of weights never rounds below one of them
  BlockTotals of_step(const std::optional<BlockTotals>& given) const {
    if (!given || given->weight >= weight) return given.value_or(*this);
    throw Error("totals: weight", std::to_string(given->weight), "at least the batch's own " + std::to_string(weight));
  }
};

}  // namespace K3SPEC_NAMESPACE
