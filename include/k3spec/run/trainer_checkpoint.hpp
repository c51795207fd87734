#pragma once
/// \file
/// What a run needs beside the draft's weights to go on bit for bit: trainer.safetensors with moments and masters, and
/// with what an average of the parameters leaves to be said, trainer.json with the settings, the counts and
/// fingerprints of what the run learns from. The choice of training windows depends on seed and step alone.
/// defines: TrainerProgress, step_metadata, ema_sources, ema_slots, save_trainer, read_trainer_progress, load_trainer

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/core/finite.hpp>
#include <k3spec/io/load_parameters.hpp>
#include <k3spec/optimiser/ema.hpp>
#include <k3spec/run/heldout_progress.hpp>
#include <k3spec/run/run_sources.hpp>
#include <k3spec/run/settings_json.hpp>

namespace K3SPEC_NAMESPACE {

/// Where a run stands.
struct TrainerProgress {
  TrainSettings settings;
  index_t next_step = 0;     ///< the step that comes next; also how many windows were used, divided by the batch
  index_t unsupervised = 0;  ///< steps that found nothing to supervise
  RunSources sources = {};
  HeldoutProgress heldout = {};  ///< not in checkpoints made before there was any

  /// Fixes the number of steps of a run whose speed had to be measured first.
  /// \throws Error once the rate of a step made would be another
  void set_total_steps(index_t steps) {
    const TrainSettings changed = with_total_steps(steps);
    for (index_t i = 0; i < next_step; ++i) {
      if (changed.schedule(i) == settings.schedule(i)) continue;
      throw Error("total steps", std::to_string(steps) + " set after step " + std::to_string(i), "set during warmup");
    }
    settings = changed;
  }

  /// Lets a run go on to another number of steps, or end sooner. The steps made keep their rates; those to come have
  /// the rates of a run that was to have so many.
  /// \throws Error when more steps are made already
  void change_total_steps(index_t steps) {
    const TrainSettings changed = with_total_steps(steps);
    if (steps < next_step) {
      throw Error("total steps", std::to_string(steps), std::to_string(next_step) + " or more, the steps made");
    }
    settings = changed;
  }

 private:
  TrainSettings with_total_steps(index_t steps) const {
    TrainSettings changed = settings;
    changed.schedule.total_steps = steps;
    changed.check();
    return changed;
  }
};

/// What both tensor files of a checkpoint say of their step, so that no two of different steps go for one checkpoint.
inline io::Metadata step_metadata(index_t next_step) { return {{"step", std::to_string(next_step)}}; }

namespace detail {

inline constexpr const char* trainer_tensors_name = "trainer.safetensors";
inline constexpr const char* trainer_json_name = "trainer.json";
inline constexpr int trainer_format = 4;

/// Calls f(prefix, views) for each part of an optimizer's state.
template <class Model, Element T, class F>
void for_optimizer_state(AdamW<Model, T>& optimizer, F&& f) {
  f("first_moment", optimizer.first_moments());
  f("second_moment", optimizer.second_moments());
  if constexpr (AdamW<Model, T>::has_masters) f("master", optimizer.masters());
}

/// Calls f(prefix, views) for what is not said where model.safetensors is an average: parameters with masters are
/// these, rounded, but their average is rounded there; of others it is the average, and they are another thing.
template <class Model, Element T, class P, class F>
void for_ema_state(P& parameters, Ema<Model, T>& average, F&& f) {
  if constexpr (Ema<Model, T>::rounds) {
    f("ema", average.averages());
  } else {
    const auto trainable = parameters.trainable();
    using E = typename std::remove_cvref_t<decltype(trainable)>::element_type;
    f("parameter", bind_weights<Model, E>(trainable.data(), nullptr));
  }
}

/// The value of `name`, which must be a count.
inline std::int64_t count_of(const io::json& j, const char* name, const std::string& subject) {
  const auto at = j.is_object() ? j.find(name) : j.end();
  if (at != j.end() && at->is_number_integer() && at->get<std::int64_t>() >= 0) return at->get<std::int64_t>();
  throw Error(subject + ": " + name, at == j.end() ? "nothing" : at->dump(), "a count");
}

inline io::json read_trainer_json(const std::filesystem::path& file) {
  io::json j = io::parse_json(io::read_file(file), file.string());
  const std::int64_t format = count_of(j, "format", file.string());
  if (format < trainer_format) {
    throw Error(file.string() + ": format", std::to_string(format),
                std::to_string(trainer_format) + ": a run of an older version does not say which target and text it " +
                    "learnt from, and cannot go on; a new run can begin with its draft");
  }
  if (format > trainer_format) {
    throw Error(file.string() + ": format", std::to_string(format),
                std::to_string(trainer_format) + ": it was written by a newer version");
  }
  return j;
}

/// Every step made is one of the optimizer, or skipped, or found nothing to supervise.
struct TrainerCounts {
  std::int64_t next_step, unsupervised, optimizer_steps, skipped, skipped_in_a_row;

  /// \throws Error naming the count that no run can have
  static TrainerCounts read(const io::json& j, const std::string& file) {
    const auto count = [&](const char* name) { return count_of(j, name, file); };
    const TrainerCounts c{count("next_step"), count("unsupervised"), count("optimizer_steps"), count("skipped"),
                          count("skipped_in_a_row")};
    c.check(file);
    return c;
  }

 private:
  void check(const std::string& file) const {
    const auto at_most = [&](const char* name, std::int64_t found, std::int64_t most, const char* what) {
      if (found <= most) return;
      throw Error(file + ": " + name, std::to_string(found), fmt::format("at most {}, {}", most, what));
    };
    at_most("next_step", next_step, WarmupCosine::max_steps, "as many steps as a run can have");
    at_most("unsupervised", unsupervised, next_step, "the steps made");
    at_most("optimizer_steps", optimizer_steps, next_step, "the steps made");
    at_most("skipped", skipped, next_step, "the steps made");
    at_most("skipped_in_a_row", skipped_in_a_row, skipped, "the steps skipped");
    const std::int64_t all = optimizer_steps + skipped + unsupervised;
    if (all == next_step) return;
    throw Error(file + ": optimizer_steps + skipped + unsupervised", std::to_string(all),
                fmt::format("{}, next_step", next_step));
  }
};

/// Throws Error on an element that is not finite or, of second moments, below 0.
template <class State>
void check_state(const io::ModelTensors& checkpoint, const std::string& name, bool negative) {
  const auto bytes = checkpoint.read_bytes(name);  // not aligned
  for (std::size_t at = 0; at + sizeof(State) <= bytes.size(); at += sizeof(State)) {
    State x;
    std::memcpy(&x, bytes.data() + at, sizeof(x));
    if (std::isfinite(x) && (negative || x >= 0)) continue;
    throw Error(fmt::format("{}: '{}': element {}", checkpoint.path(), name, at / sizeof(State)),
                number_text(static_cast<double>(x)), negative ? "a finite number" : "a finite number >= 0");
  }
}

}  // namespace detail

/// What a run with an average writes beside model.safetensors, which is the average: of bfloat16 "ema.", the average in
/// float, else "parameter.", the parameters.
template <class Model, Element T>
std::vector<io::TensorSource> ema_sources(const Parameters<Model, T>& parameters, Ema<Model, T>& average) {
  std::vector<io::TensorSource> tensors;
  detail::for_ema_state(parameters, average, [&](const char* part, auto views) {
    for (io::TensorSource& t : io::sources<Model>(views, Path{} / part)) tensors.push_back(std::move(t));
  });
  return tensors;
}
/// Where that is read to.
template <class Model, Element T>
std::vector<io::TensorSlot> ema_slots(Parameters<Model, T>& parameters, Ema<Model, T>& average) {
  std::vector<io::TensorSlot> slots;
  detail::for_ema_state(parameters, average,
                        [&](const char* part, auto views) { slots = io::slots<Model>(views, Path{} / part); });
  return slots;
}

/// Writes both files, each at once.
/// \param tensors  written beside moments and masters
template <class Model, Element T>
void save_trainer(const std::filesystem::path& directory, AdamW<Model, T>& optimizer, const TrainerProgress& progress,
                  std::vector<io::TensorSource> tensors = {}) {
  detail::for_optimizer_state(optimizer, [&](const char* part, auto views) {
    for (io::TensorSource& t : io::sources<Model>(views, Path{} / part)) tensors.push_back(std::move(t));
  });
  io::write_safetensors(directory / detail::trainer_tensors_name, tensors, step_metadata(progress.next_step));
  const io::json j = {{"format", detail::trainer_format},
                      {"next_step", progress.next_step},
                      {"unsupervised", progress.unsupervised},
                      {"optimizer_steps", optimizer.steps()},
                      {"skipped", optimizer.skipped()},
                      {"skipped_in_a_row", optimizer.skipped_in_a_row()},
                      {"sources", progress.sources.to_json()},
                      {"heldout", progress.heldout.to_json()},
                      {"settings", settings_json(progress.settings)}};
  io::write_text(directory / detail::trainer_json_name, j.dump(2) + "\n");
}

/// The settings and the place of a saved run, before anything is allocated for it.
/// \throws Error naming the file and what is wrong in it
inline TrainerProgress read_trainer_progress(const std::filesystem::path& directory) {
  const auto file = directory / detail::trainer_json_name;
  const io::json j = detail::read_trainer_json(file);
  const auto settings = j.find("settings");
  if (settings == j.end()) throw Error(file.string() + ": settings", "nothing", "the run's settings");
  const auto counts = detail::TrainerCounts::read(j, file.string());
  const auto part = [&](const char* name) { return j.contains(name) ? *j.find(name) : io::json(); };
  return {settings_from_json(*settings, file.string() + ": settings"), counts.next_step, counts.unsupervised,
          RunSources::from_json(part("sources"), file.string() + ": sources"),
          HeldoutProgress::from_json(part("heldout"), file.string() + ": heldout")};
}

/// Restores moments, masters and counts.
/// \param slots  of tensors of the same type that are there beside them
/// \throws Error, with the optimizer untouched, when a tensor is absent, unknown, of another shape or of another type
///         (a run in another precision would not be the same run), or has an element that is not finite, or a second
///         moment below 0
template <class Model, Element T>
void load_trainer(const std::filesystem::path& directory, AdamW<Model, T>& optimizer,
                  std::vector<io::TensorSlot> slots = {}) {
  const auto checkpoint = io::ModelTensors::open(directory / detail::trainer_tensors_name);
  detail::for_optimizer_state(optimizer, [&](const char* part, auto views) {
    for (io::TensorSlot& slot : io::slots<Model>(views, Path{} / part)) slots.push_back(std::move(slot));
  });
  std::erase_if(slots, [](const io::TensorSlot& slot) { return slot.data == nullptr; });
  for (const io::TensorSlot& slot : slots) {
    if (!checkpoint.contains(slot.name)) continue;
    if (checkpoint.dtype(slot.name) != slot.dtype) {
      throw Error(checkpoint.path() + ": '" + slot.name + "'", name(checkpoint.dtype(slot.name)), name(slot.dtype));
    }
    const bool second = slot.name.rfind("second_moment.", 0) == 0;
    detail::check_state<typename AdamW<Model, T>::State>(checkpoint, slot.name, !second);
  }
  const std::string file = (directory / detail::trainer_json_name).string();
  const io::json j = detail::read_trainer_json(file);
  const auto counts = detail::TrainerCounts::read(j, file);
  io::load_parameters(checkpoint, slots);
  optimizer.restore_counts(counts.optimizer_steps, counts.skipped, counts.skipped_in_a_row);
}

}  // namespace K3SPEC_NAMESPACE
