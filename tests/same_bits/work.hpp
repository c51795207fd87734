#pragma once
// The source that all units are compiled from: everything that could depend on how many numbers a register holds. Three
// steps of training, of the target's states, objective, gradients and optimiser, in widths of no register's size and
// with two documents a row: EAGLE-3 in float, DSpark in double.

#include <algorithm>
#include <vector>

#include <tests/same_bits/bits.hpp>
#include <tests/support/golden_bits.hpp>
#include <tests/support/small_target.hpp>
#include <k3spec/backend/cpu/cpu_check.hpp>
#include <k3spec/run/block_methods.hpp>
#include <k3spec/run/eagle3_method.hpp>

namespace {

using namespace k3spec;
using SmallTarget = test::SmallTarget;

struct SmallDSpark : configs::DSpark<SmallTarget> {
  static constexpr index_t block_size = 4;
  static constexpr std::optional<index_t> mask_token_id = 47;
  static constexpr index_t markov_rank = 6;
};

constexpr index_t batch = 2, length = 37;

std::vector<index_t> text(index_t seed) {
  std::vector<index_t> ids;
  for (index_t i = 0; i < batch * length; ++i) ids.push_back((i * i * 7 + i * 3 + seed) % 47);
  return ids;
}

template <class Trainer, class Setup>
std::uint64_t train(const Setup& setup) {
  using T = typename Trainer::T;
  TrainSettings settings;
  settings.batch = batch, settings.length = length, settings.ttt_steps = 3;
  settings.packing = Packing::apart;
  Parameters<K3Target<SmallTarget>, T> target = test::small_target<T>();
  Trainer trainer(Cpu{2}, std::move(target), setup(), settings);
  test::BitHash bits;
  const std::vector<index_t> lens{20, 17, 9, 28};
  for (index_t step = 0; step < 3; ++step) {
    const auto ids = text(step);
    TextWindows windows{Matrix<const index_t>(ids.data(), batch, length)};
    windows.seq_lens = Matrix<const index_t>(lens.data(), batch, 2);
    const auto report = trainer.step(windows);
    bits.number(report.metrics.loss()).number(report.grad_norm);
  }
  const auto all = trainer.parameters().all();
  for (index_t i = 0; i < all.size(); ++i) bits.number(static_cast<double>(all(i)));
  return bits.value();
}

BitsByName work() {
  const auto eagle3 = [] {
    std::vector<index_t> ids;
    for (index_t i = 0; i < SmallTarget::draft_vocab_size; ++i) ids.push_back(2 + 2 * i);
    using Setup = typename Eagle3Trainer<SmallTarget, SmallTarget, float>::Setup;
    return Setup{DraftVocabulary(ids, SmallTarget::vocab_size), {1, 2, 4}};
  };
  const auto block = [] { return typename DSparkTrainer<SmallTarget, SmallDSpark, double>::Setup{{1, 2, 4}}; };
  BitsByName found;
  found["EAGLE-3, float"] = train<Eagle3Trainer<SmallTarget, SmallTarget, float>>(eagle3);
  found["DSpark, double"] = train<DSparkTrainer<SmallTarget, SmallDSpark, double>>(block);
  return found;
}

/// All that could be asked of this processor.
bool runs() {
  const auto needed = needed_cpu_features();
  return std::all_of(needed.begin(), needed.end(), [](const CpuFeature& f) { return f.present; });
}

#define K3SPEC_TEXT_OF(x) #x
#define K3SPEC_TEXT(...) K3SPEC_TEXT_OF((__VA_ARGS__))
CompiledFor compiled_for() { return {K3SPEC_TEXT(K3SPEC_NAMESPACE), runs, work}; }

}  // namespace
