#pragma once
/// \file
/// What decides a run's numbers, apart from data and model. A checkpoint carries it, so that a resumed run goes on with
/// the same.
/// defines: TrainSettings

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include <k3spec/io/json.hpp>
#include <k3spec/train/adamw.hpp>
#include <k3spec/train/schedule.hpp>

namespace k3spec {

struct TrainSettings {
  index_t batch = 8;       ///< windows a step
  index_t length = 192;    ///< tokens a window
  index_t ttt_steps = 5;   ///< drafted tokens the unroll trains
  std::uint64_t seed = 1;  ///< of fresh parameters and of the choice of windows
  WarmupCosine schedule;
  AdamWOptions optimizer;

  /// \throws Error naming the setting
  void check() const {
    const auto at_least = [](const char* name, index_t found, index_t least) {
      if (found < least) throw Error(name, fmt::format("{}", found), fmt::format("at least {}", least));
    };
    at_least("batch", batch, 1);
    at_least("length", length, 2);
    at_least("ttt_steps", ttt_steps, 1);
    schedule.check();
    optimizer.check();
  }

  io::json to_json() const {
    return {{"batch", batch},
            {"length", length},
            {"ttt_steps", ttt_steps},
            {"seed", seed},
            {"lr", schedule.lr},
            {"warmup_steps", schedule.warmup_steps},
            {"total_steps", schedule.total_steps},
            {"min_lr_ratio", schedule.min_lr_ratio},
            {"beta1", optimizer.beta1},
            {"beta2", optimizer.beta2},
            {"eps", optimizer.eps},
            {"weight_decay", optimizer.weight_decay},
            {"max_grad_norm", optimizer.max_grad_norm},
            {"max_skipped_in_a_row", optimizer.max_skipped_in_a_row}};
  }

  /// \param subject  what the JSON is, for messages
  /// \throws Error when a setting is absent, of another type or out of range
  static TrainSettings from_json(const io::json& j, const std::string& subject) {
    TrainSettings s;
    const auto read = [&](const char* name, auto& value) {
      try {
        value = j.at(name).get<std::remove_reference_t<decltype(value)>>();
      } catch (const io::json::exception& e) {
        throw Error(subject + ": " + name, e.what(), "the setting it was written with");
      }
    };
    read("batch", s.batch);
    read("length", s.length);
    read("ttt_steps", s.ttt_steps);
    read("seed", s.seed);
    read("lr", s.schedule.lr);
    read("warmup_steps", s.schedule.warmup_steps);
    read("total_steps", s.schedule.total_steps);
    read("min_lr_ratio", s.schedule.min_lr_ratio);
    read("beta1", s.optimizer.beta1);
    read("beta2", s.optimizer.beta2);
    read("eps", s.optimizer.eps);
    read("weight_decay", s.optimizer.weight_decay);
    read("max_grad_norm", s.optimizer.max_grad_norm);
    read("max_skipped_in_a_row", s.optimizer.max_skipped_in_a_row);
    s.check();
    return s;
  }
};

}  // namespace k3spec
