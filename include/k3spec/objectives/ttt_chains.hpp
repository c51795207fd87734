#pragma once
/// \file
/// Chains of drafted tokens in an EAGLE-3 batch: how many there could have been, and how many are right so far.
/// defines: count_chains

#include <algorithm>

#include <k3spec/batches/ttt_batch.hpp>
#include <k3spec/objectives/ttt_metrics.hpp>

namespace K3SPEC_NAMESPACE {

/// Adds the chain at row r to the sums. It counts while the loss mask allows, whatever the draft vocabulary; it hits
/// while every prediction so far was right. \param right  [steps][R]: whether step k is right at row r
/// \throws Error on a row that the batch or `right` has not
template <class Batch, class Right>
void count_chains(const Batch& batch, index_t steps, index_t r, const Right& right, TttMetrics& sums) {
  require_steps("count_chains: steps", steps);
  const index_t reach = std::min(steps, predicted_steps(batch, r)), rows = batch.loss_mask.extent(0);
  require_part("count_chains: rows", r, std::max<index_t>(reach, 1), rows);
  require_count("count_chains: right: steps", std::min(steps, static_cast<index_t>(right.size())), steps);
  for (index_t k = 0; k < reach; ++k) {
    require_rows("count_chains: right", right[static_cast<std::size_t>(k)], rows);
  }
  bool counts = true, hit = true;
  for (index_t k = 0; k < reach; ++k) {
    counts = counts && batch.loss_mask(r + k) != 0;
    sums[k].reached += counts && hit ? 1 : 0;
    hit = hit && right[static_cast<std::size_t>(k)](r) != 0;
    sums[k].chains += counts ? 1 : 0;
    sums[k].prefix_hits += hit ? 1 : 0;
  }
}

}  // namespace K3SPEC_NAMESPACE
