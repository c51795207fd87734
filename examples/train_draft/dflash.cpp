#include <k3spec/run/block_methods.hpp>

#include "run.hpp"

namespace k3spec::examples {

int train_dflash(const Job& job) {
  using Config = configs::KimiK3TinyDFlash;
  using Trainer = DFlashTrainer<TargetConfig, Config, float>;
  return run<Trainer>(job, [&](const TokenData&) {
    const auto conventions = conventions_of<DraftKind::dflash>(job);
    auto layers = layers_of<typename Trainer::Draft>(job, conventions, [] {
      return default_target_layer_ids(TargetConfig::num_hidden_layers, Config::num_target_layers);
    });
    return typename Trainer::Setup{std::move(layers), conventions};
  });
}

}  // namespace k3spec::examples
