#pragma once
/// \file
/// How a run is spread over ranks: what is asked for must be what there is, and is checked before anything starts.
/// defines: ParallelOptions

#include <string>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// How a run is to be spread over ranks.
struct ParallelOptions {
  index_t expert_parallel = 1;  ///< ranks over which the experts of a layer are placed
  bool uneven_experts = false;  ///< they may have different numbers of them
  // Not implemented, and refused rather than passed over.
  index_t tensor_parallel = 1, context_parallel = 1, pipeline_parallel = 1;
  bool parallel_drafting = false;  ///< all tokens of a chain at once

  /// Refuses what is not there.
  /// \throws Error naming the option: one that is not implemented, or experts that cannot be placed as asked
  template <class TargetConfig>
  void check() const {
    check_experts(TargetConfig::num_experts);
    check_implemented("tensor_parallel", tensor_parallel);
    check_implemented("context_parallel", context_parallel);
    check_implemented("pipeline_parallel", pipeline_parallel);
    require(!parallel_drafting, "parallel_drafting", "true", "false: a draft's tokens come one after the other");
  }

 private:
  void check_experts(index_t experts) const {
    const std::string found = std::to_string(expert_parallel), all = std::to_string(experts);
    require(expert_parallel >= 1 && expert_parallel <= experts, "expert_parallel", found,
            "1 to " + all + ", the experts of a layer");
    require(uneven_experts || experts % expert_parallel == 0, "expert_parallel", found,
            "a divisor of " + all + ", the experts of a layer, or uneven_experts");
  }
  static void check_implemented(const char* name, index_t found) {
    require(found == 1, name, std::to_string(found), "1: it is not implemented");
  }
};

}  // namespace K3SPEC_NAMESPACE
