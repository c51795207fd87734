#pragma once
/// \file
/// Runs of each kind of draft. To be included where `train` is instantiated.
/// defines: train_eagle3, train_dflash, train_dspark, train

#include <string>
#include <vector>

#include <k3spec/run/block_methods.hpp>

#include "eagle3.hpp"
#include "run.hpp"

namespace k3spec::examples {

template <class Config, class T, class D>
int train_dflash(const Job& job) {
  using Trainer = DFlashTrainer<TargetConfig, Config, T, D>;
  return run<Trainer>(job, [&](const auto&) {
    const auto conventions = conventions_of<DraftKind::dflash>(job);
    auto layers = layers_of<typename Trainer::Draft>(job, conventions);
    return typename Trainer::Setup{std::move(layers), conventions};
  });
}

template <class Config, class T, class D>
int train_dspark(const Job& job) {
  using Trainer = DSparkTrainer<TargetConfig, Config, T, D>;
  return run<Trainer>(job, [&](const auto&) {
    const auto conventions = conventions_of<DraftKind::dspark>(job);
    auto layers = layers_of<typename Trainer::Draft>(job, conventions);
    return typename Trainer::Setup{std::move(layers), conventions};
  });
}

template <class Config, class T, class D>
int train(const Job& job) {
  constexpr DraftKind kind = draft_kind_of<Config>();
  if constexpr (kind == DraftKind::eagle3) {
    return train_eagle3<Config, T, D>(job);
  } else if constexpr (kind == DraftKind::dflash) {
    return train_dflash<Config, T, D>(job);
  } else {
    return train_dspark<Config, T, D>(job);
  }
}

}  // namespace k3spec::examples
