#pragma once
/// \file
/// defines: test::check_target_cases

#include <string>
#include <vector>

#include "configs.hpp"
#include "tests/support/reference_case.hpp"

#include "runner.hpp"

namespace k3spec::test {

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
void compare_taps(ReferenceCase& ref, const std::string& name, const R& runner, const Run<T>& run,
                  const std::vector<Tap>& taps) {
  std::vector<double> joined;
  for (index_t r = 0; r < run.rows; ++r) {
    for (const Tap& t : taps) {
      const T* x = runner.tapped(run, t).row(r);
      joined.insert(joined.end(), x, x + R::hidden);
    }
  }
  ref.compare(name, joined, parity_tolerance<T>);
}

template <class Config, class T>
void check_case(const std::string& name) {
  CAPTURE(name);
  auto ref = ReferenceCase::load(Config::folder + name);
  Runner<Config, T> runner;
  auto weights = runner.parameters.mutable_weights();
  ref.template fill<K3Target<Config>>(weights);
  runner.freeze();
  const auto ids = ref.template values<index_t>("input.input_ids");
  TargetState<Config, T> state({2, 21});
  const auto run = runner(state, ids);

  constexpr index_t layers = Config::num_hidden_layers;
  for (index_t i = 0; i < layers; ++i) {
    compare_taps(ref, "output.layers." + std::to_string(i), runner, run, {{Tap::What::running_sum, i}});
  }
  ref.compare("output.last", run.last.data(), static_cast<index_t>(run.last.size()), parity_tolerance<T>);
  ref.compare("output.logits", run.logits.data(), static_cast<index_t>(run.logits.size()), parity_tolerance<T>);
  compare_taps(ref, "output.eagle3.aux_hidden_states", runner, run,
               eagle3_taps(std::array<index_t, 3>{1, 2, 4}, layers));
  ref.compare("output.eagle3.target_logits", shifted(run.logits, 2), parity_tolerance<T>);
  ref.compare("output.eagle3.input_ids", shifted(ids, 2), 0);
  ref.compare("output.eagle3.loss_mask", shifted(std::vector<index_t>(ids.size(), 1), 2), 0);
  compare_taps(ref, "output.block.target_hidden", runner, run,
               block_taps(std::array<index_t, 3>{-1, 2, layers - 1}, layers));
  ref.compare("output.block.target_last_hidden", run.last.data(), static_cast<index_t>(run.last.size()),
              parity_tolerance<T>);
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
