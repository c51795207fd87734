#pragma once
/// \file
/// How much of a row's formula goes into a loss, as every backend computes it (ops/row_adjoints.hpp).
/// defines: RowAdjoint

#include <limits>
#include <type_traits>

#include <k3spec/core/host_device.hpp>
#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

/// d loss / d row: the row's weight; or, where the formula is the acceptance rate α and the loss -weight · log α, the
/// derivative of that, which an α below the smallest normal number has not.
struct RowAdjoint {
  double weight;
  bool of_log_acceptance = false;

  template <class S>
  K3SPEC_HOST_DEVICE S operator()(S alpha) const {
    if (!of_log_acceptance) return static_cast<S>(weight);
    return alpha < std::numeric_limits<S>::min() ? S(0) : static_cast<S>(-weight / static_cast<double>(alpha));
  }
};
static_assert(std::is_trivially_copyable_v<RowAdjoint>);

}  // namespace K3SPEC_NAMESPACE
