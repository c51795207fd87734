#pragma once
/// \file
/// defines: test::check_target_cases

#include <map>
#include <string>
#include <vector>

#include <k3spec/core/rng.hpp>

#include "configs.hpp"
#include "tests/support/reference_case.hpp"

#include "runner.hpp"

namespace k3spec::test {

/// A case's results by their names.
using Outputs = std::map<std::string, std::vector<double>>;

/// [rows, columns] of rows [2][21], moved to the left by one token, zeros at the end.
template <class T>
std::vector<double> shifted(const std::vector<T>& x, index_t sequences) {
  const std::size_t each = x.size() / static_cast<std::size_t>(sequences), columns = each / 21;
  std::vector<double> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % each + columns < each) out[i] = static_cast<double>(x[i + columns]);
  }
  return out;
}

/// The columns of several taps side by side, shaped [2, 21, ..].
template <class R, class T>
std::vector<double> joined_taps(const R& runner, const Run<T>& run, const std::vector<Tap>& taps) {
  std::vector<double> joined;
  for (index_t r = 0; r < run.rows; ++r) {
    for (const Tap& t : taps) {
      const T* x = runner.tapped(run, t).row(r);
      joined.insert(joined.end(), x, x + R::hidden);
    }
  }
  return joined;
}

template <class Config, class T>
Outputs run_case(Runner<Config, T>& runner, const std::vector<index_t>& ids) {
  runner.freeze();
  TargetState<Config, T> state({2, 21});
  const auto run = runner(state, ids);
  const auto taps = [&](const std::vector<Tap>& wanted) { return joined_taps(runner, run, wanted); };
  constexpr index_t layers = Config::num_hidden_layers;
  Outputs out;
  for (index_t i = 0; i < layers; ++i) out["output.layers." + std::to_string(i)] = taps({{Tap::What::running_sum, i}});
  out["output.last"] = out["output.block.target_last_hidden"] = {run.last.begin(), run.last.end()};
  out["output.logits"] = {run.logits.begin(), run.logits.end()};
  out["output.eagle3.aux_hidden_states"] = taps(eagle3_taps(std::array<index_t, 3>{1, 2, 4}, layers));
  out["output.eagle3.target_logits"] = shifted(run.logits, 2);
  out["output.block.target_hidden"] = taps(block_taps(std::array<index_t, 3>{-1, 2, layers - 1}, layers));
  return out;
}

/// How far each result moves in double when every weight moves by at most one rounding of float, at random: the largest
/// relative error of four draws. That is the conditioning of this very case; it grows two- to threefold a layer, and
/// from one set of random weights to the next by a factor of ten.
template <class Config>
std::map<std::string, double> response_to_rounding(ReferenceCase& ref, const std::vector<index_t>& ids) {
  std::map<std::string, double> response;
  for (std::uint64_t draw = 0; draw < 4; ++draw) {
    Runner<Config, double> runner;
    auto weights = runner.parameters.mutable_weights();
    ref.template fill<K3Target<Config>>(weights);
    const auto all = runner.parameters.all();
    for (index_t i = 0; i < all.size(); ++i) {
      all(i) *= 1 + 0x1p-24 * (2 * Philox(draw, 1).uniform(static_cast<std::uint64_t>(i)) - 1);
    }
    for (const auto& [name, moved] : run_case(runner, ids)) {
      response[name] = std::max(response[name], relative_error(moved, ref.values<double>(name)));
    }
  }
  return response;
}

/// What each result of a whole target in float is held to. A float run is an exact run of nearby weights, every product
/// of n terms with weights that moved by up to n roundings, some sqrt(n) as they fall. So its error is the response to
/// one rounding, times a number that does not depend on how a case is conditioned. The reference in PyTorch's own
/// float32 says which: with all sums in random orders, in blocks of random sizes, over 256 cases of these kinds (sizes
/// even and odd; 48 of one layer, 80 of six, 128 of seven; four orders each) its error was below 3 times the response
/// in the median, 6.1 times in 99 of 100, 8.9 times at most, while the error itself was at most 2.7e-6 after one layer
/// and up to 4.3e-4 after seven. The next power of two is the bound, or 2e-5 where that is more; a first layer is held
/// to 2e-5 whatever its response.
template <class Config>
std::map<std::string, double> float_tolerances(ReferenceCase& ref, const std::vector<index_t>& ids) {
  std::map<std::string, double> bounds = response_to_rounding<Config>(ref, ids);
  for (auto& [name, bound] : bounds) bound = std::max(16 * bound, parity_tolerance<float>);
  bounds["output.layers.0"] = parity_tolerance<float>;
  // One tensor rounded to bfloat16 on the way would not pass.
  for (const auto& [name, bound] : bounds) CHECK(bound < 0x1p-10);
  return bounds;
}

template <class Config, class T>
void check_case(const std::string& name) {
  CAPTURE(name);
  auto ref = ReferenceCase::load(Config::folder + name);
  Runner<Config, T> runner;
  auto weights = runner.parameters.mutable_weights();
  ref.template fill<K3Target<Config>>(weights);
  const auto ids = ref.template values<index_t>("input.input_ids");
  std::map<std::string, double> bounds;
  if constexpr (std::is_same_v<T, float>) bounds = float_tolerances<Config>(ref, ids);
  for (const auto& [output, found] : run_case(runner, ids)) {
    ref.compare(output, found, bounds.empty() ? parity_tolerance<T> : bounds.at(output));
  }
  ref.compare("output.eagle3.input_ids", shifted(ids, 2), 0);
  ref.compare("output.eagle3.loss_mask", shifted(std::vector<index_t>(ids.size(), 1), 2), 0);
  ref.finish();
}

/// All cases of one set of sizes in storage type T.
template <class Base, class T>
void check_target_cases() {
  check_case<Base, T>("target");
  check_case<NoResidualMixing<Base>, T>("target_no_residual_mixing");
  check_case<LowRankGateSoftplus<Base>, T>("target_low_rank_gate_softplus");
  check_case<GroupedRouting<Base>, T>("target_grouped_routing");
}

}  // namespace k3spec::test
