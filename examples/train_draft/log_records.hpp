#pragma once
/// \file
/// The lines of a run's log, train.jsonl. One of a step is
/// ```text
/// {"step": 7, "loss": x, "accept_length": x, "accuracy": x, …, "lr": x, "grad_norm": x, "skipped": n, "seconds": x}
/// ```
/// with what else the kind of draft counts (`visit` of its metrics), and one of a look at held-out text
/// ```text
/// {"step": 7, "heldout": {"loss": x, "accept_length": x, "accuracy": x, …, "acceptance": [x, x, …],
///   "calibration": {"ece": x, "bins": [{"count": n, "confidence": x, "accuracy": x}, …]}}}
/// ```
/// and behind that `"ema": DECAY` where it is one with averaged weights (a step's line is of those that it moves) and,
/// where there are several sets of it, `"heldout_name": NAME` of this first set and `"heldout_sets": {NAME: {…}, …}`
/// with the same of each further one. acceptance: of the drafted tokens of each depth (a TTT step, a block's slot)
/// whose predecessors are accepted, the share that is, too. calibration, where a draft has a confidence head: the
/// expected calibration error of its confidence and the reliability curve (objectives/reliability_curve.hpp): of each
/// bin of confidence that has predictions how many they are, their mean confidence and their mean true acceptance, in
/// the order of confidence.
/// defines: is_log_record, numbers_record, look_record

#include <string>
#include <utility>

#include <k3spec/io/json_log.hpp>
#include <k3spec/objectives/reliability_curve.hpp>

namespace k3spec::examples {

/// Whether a line is of a log that Run writes: of a step, or of a look at held-out text.
inline bool is_log_record(const io::json& record) {
  const auto heldout = record.find("heldout");
  const io::json& numbers = heldout == record.end() ? record : *heldout;
  if (!JsonLog::has_step(record) || !numbers.is_object()) return false;
  return numbers.contains("loss") && numbers.contains("accept_length") && numbers.contains("accuracy");
}

/// What a step and a look have in common.
template <class Metrics>
JsonLog::Record numbers_record(const Metrics& sums) {
  JsonLog::Record record{
      {"loss", sums.loss()}, {"accept_length", sums.simulated_accept_length()}, {"accuracy", sums.accuracy().value()}};
  sums.visit([&](const std::string& name, double value) { record.add(name, value); });
  return record;
}

/// A reliability curve, without the bins that have nothing.
inline io::json calibration_json(const ReliabilityCurve& curve) {
  io::json::array_t bins;
  for (const ReliabilityBin& bin : curve.bins) {
    if (bin.count == 0) continue;
    bins.push_back({{"count", bin.count}, {"confidence", bin.confidence()}, {"accuracy", bin.accuracy()}});
  }
  return {{"ece", curve.expected_calibration_error()}, {"bins", std::move(bins)}};
}

/// Of a look at held-out text.
template <class Metrics>
JsonLog::Record look_record(const Metrics& sums) {
  JsonLog::Record record = numbers_record(sums);
  io::json::array_t acceptance;
  for (index_t depth = 0; depth < sums.depths(); ++depth) {
    acceptance.emplace_back(sums.depth_acceptance(depth).value());
  }
  record.add("acceptance", io::json(std::move(acceptance)));
  if constexpr (requires { sums.calibration(); }) {
    if (sums.calibration().count() > 0) record.add("calibration", calibration_json(sums.calibration()));
  }
  return record;
}

}  // namespace k3spec::examples
