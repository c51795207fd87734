#include <k3spec/train/block_methods.hpp>

#include "run.hpp"

namespace k3spec::examples {

void train_dflash(const Job& job) {
  using Config = configs::KimiK3TinyDFlash;
  using Trainer = DFlashTrainer<TargetConfig, Config, float>;
  run<Trainer>(job, [&](const ByteText&) {
    return typename Trainer::Setup{layers_of<typename Trainer::Draft>(
        job, [] { return default_target_layer_ids(TargetConfig::num_hidden_layers, Config::num_target_layers); })};
  });
}

}  // namespace k3spec::examples
