#include <k3spec/run/block_methods.hpp>

#include "run.hpp"

namespace k3spec::examples {

int train_dspark(const Job& job) {
  using Config = configs::KimiK3TinyDSpark;
  using Trainer = DSparkTrainer<TargetConfig, Config, float>;
  return run<Trainer>(job, [&](const TokenData&) {
    const auto conventions = conventions_of<DraftKind::dspark>(job);
    auto layers = layers_of<typename Trainer::Draft>(job, conventions, [] {
      // The embedding, the middle, and the state that the target's head reads.
      return std::vector<index_t>{-1, TargetConfig::num_hidden_layers / 2 - 1, TargetConfig::num_hidden_layers - 1};
    });
    return typename Trainer::Setup{std::move(layers), conventions};
  });
}

}  // namespace k3spec::examples
