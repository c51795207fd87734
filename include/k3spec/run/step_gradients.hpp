#pragma once
/// \file
/// The gradients of a step, of its batches and of all ranks.
/// defines: StepWindows, add_gradients

#include <optional>

#include <k3spec/batches/target_states.hpp>
#include <k3spec/comm/summable.hpp>
#include <k3spec/run/method.hpp>
#include <k3spec/run/train_settings.hpp>
#include <k3spec/run/trained_draft.hpp>

namespace K3SPEC_NAMESPACE {

/// A rank's windows of a step.
struct StepWindows {
  const TextWindows& windows;
  index_t step;
  index_t batches;  ///< of this rank
};

/// Gradients of this rank's batches, one after the other, and then of all ranks, added to the draft's.
/// \param sums  what is counted, of all ranks
/// \returns false where nothing is supervised in any
template <class Method, class Draft, class Comm>
bool add_gradients(const typename Method::device_type& device, const TrainSettings& settings, const StepWindows& own,
                   Method& method, Draft& draft, Comm& comm, typename Method::Metrics& sums) {
  const auto w = draft.parameters().weights();
  const auto part = [&](index_t i) { return own.windows.part(i * settings.batch, settings.batch); };
  const auto at = [&](index_t i) { return MicroBatch{own.step, comm.rank() * own.batches + i, i}; };
  std::optional<typename Method::Totals> totals;
  if (settings.accumulate > 1) {
    totals.emplace();
    for (index_t i = 0; i < own.batches; ++i) *totals += method.count(device, w, part(i), at(i));
    sum(comm, *totals);
  }
  for (index_t i = 0; i < own.batches; ++i) {
    sums += method.forward_backward(device, w, draft.gradients().weights(), part(i), at(i), totals);
  }
  sum(comm, sums);
  if (sums.supervised() == 0) return false;
  comm.sum(device, draft.gradients().flat());
  return true;
}

}  // namespace K3SPEC_NAMESPACE
