#pragma once
/// \file
/// What a run needs beside the draft's weights to go on bit for bit: trainer.safetensors with moments and masters,
/// trainer.json with the settings and counts. The choice of training windows depends on seed and step alone.
/// defines: TrainerProgress, save_trainer, read_trainer_progress, load_trainer

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <k3spec/io/load_parameters.hpp>
#include <k3spec/train/adamw.hpp>
#include <k3spec/train/train_settings.hpp>

namespace k3spec {

/// Where a run stands.
struct TrainerProgress {
  TrainSettings settings;
  index_t next_step = 0;     ///< the step that comes next; also how many windows were used, divided by the batch
  index_t unsupervised = 0;  ///< steps that found nothing to supervise
};

namespace detail {

inline constexpr const char* trainer_tensors_name = "trainer.safetensors";
inline constexpr const char* trainer_json_name = "trainer.json";
inline constexpr int trainer_format = 3;

/// Calls f(prefix, views) for each part of an optimizer's state.
template <class Model, Element T, class F>
void for_optimizer_state(AdamW<Model, T>& optimizer, F&& f) {
  f("first_moment", optimizer.first_moments());
  f("second_moment", optimizer.second_moments());
  if constexpr (AdamW<Model, T>::has_masters) f("master", optimizer.masters());
}

/// The value of `name`, which must be a count.
inline std::int64_t count_of(const io::json& j, const char* name, const std::string& subject) {
  const auto at = j.is_object() ? j.find(name) : j.end();
  if (at != j.end() && at->is_number_integer() && at->get<std::int64_t>() >= 0) return at->get<std::int64_t>();
  throw Error(subject + ": " + name, at == j.end() ? "nothing" : at->dump(), "a count");
}

inline io::json read_trainer_json(const std::filesystem::path& file) {
  const io::MappedFile mapped(file);
  const auto bytes = mapped.bytes();
  io::json j = io::parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string());
  const std::int64_t format = count_of(j, "format", file.string());
  if (format != trainer_format) {
    throw Error(file.string() + ": format", std::to_string(format), std::to_string(trainer_format));
  }
  return j;
}

}  // namespace detail

/// Writes both files, each at once.
template <class Model, Element T>
void save_trainer(const std::filesystem::path& directory, AdamW<Model, T>& optimizer, const TrainerProgress& progress) {
  std::vector<io::TensorSource> tensors;
  detail::for_optimizer_state(optimizer, [&](const char* part, auto views) {
    for (io::TensorSource& t : io::sources<Model>(views, Path{} / part)) tensors.push_back(std::move(t));
  });
  io::write_safetensors(directory / detail::trainer_tensors_name, tensors);
  const io::json j = {{"format", detail::trainer_format},       {"next_step", progress.next_step},
                      {"unsupervised", progress.unsupervised},  {"optimizer_steps", optimizer.steps()},
                      {"skipped", optimizer.skipped()},         {"skipped_in_a_row", optimizer.skipped_in_a_row()},
                      {"settings", progress.settings.to_json()}};
  io::write_text(directory / detail::trainer_json_name, j.dump(2) + "\n");
}

/// The settings and the place of a saved run, before anything is allocated for it.
/// \throws Error naming the file and what is wrong in it
inline TrainerProgress read_trainer_progress(const std::filesystem::path& directory) {
  const auto file = directory / detail::trainer_json_name;
  const io::json j = detail::read_trainer_json(file);
  const auto settings = j.find("settings");
  if (settings == j.end()) throw Error(file.string() + ": settings", "nothing", "the run's settings");
  return {TrainSettings::from_json(*settings, file.string() + ": settings"),
          detail::count_of(j, "next_step", file.string()), detail::count_of(j, "unsupervised", file.string())};
}

/// Restores moments, masters and counts.
/// \throws Error, with the optimizer untouched, when a tensor is absent, unknown, of another shape or of another type:
///         a run in another precision would not be the same run
template <class Model, Element T>
void load_trainer(const std::filesystem::path& directory, AdamW<Model, T>& optimizer) {
  const auto checkpoint = io::Checkpoint::open(directory / detail::trainer_tensors_name);
  std::vector<io::TensorSlot> slots;
  detail::for_optimizer_state(optimizer, [&](const char* part, auto views) {
    for (io::TensorSlot& slot : io::slots<Model>(views, Path{} / part)) {
      if (slot.data != nullptr) slots.push_back(std::move(slot));
    }
  });
  for (const io::TensorSlot& slot : slots) {
    if (!checkpoint.contains(slot.name) || checkpoint.dtype(slot.name) == slot.dtype) continue;
    throw Error(checkpoint.path() + ": '" + slot.name + "'", name(checkpoint.dtype(slot.name)), name(slot.dtype));
  }
  const std::string file = (directory / detail::trainer_json_name).string();
  const io::json j = detail::read_trainer_json(file);
  const auto steps = detail::count_of(j, "optimizer_steps", file), skipped = detail::count_of(j, "skipped", file),
             in_a_row = detail::count_of(j, "skipped_in_a_row", file);
  io::load_parameters(checkpoint, slots);
  optimizer.restore_counts(steps, skipped, in_a_row);
}

}  // namespace k3spec
