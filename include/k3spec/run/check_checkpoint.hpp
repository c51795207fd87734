#pragma once
/// \file
/// Whether a checkpoint is one of the run that wants to go on with it.
/// defines: check_checkpoint

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <k3spec/run/own_draft.hpp>
#include <k3spec/run/trainer_checkpoint.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

template <class Conventions>
void check_same_conventions(const std::string& file, const Conventions& found, const Conventions& own) {
  io::json wanted;
  Conventions::visit(own, [&](const char* name, auto value) { wanted[name] = io::detail::value_name(value); });
  Conventions::visit(found, [&](const char* name, auto value) {
    const io::json there = io::detail::value_name(value);
    if (there != wanted[name]) throw Error(file + ": " + name, there.dump(), wanted[name].dump());
  });
}

template <class Draft, class Conventions>
  requires(!OwnDraft<Draft>)
void check_same_config(const std::filesystem::path& path, const std::vector<index_t>& layer_ids,
                       const Conventions& conventions) {
  using Config = typename Draft::config;
  const std::string file = path.string();
  const io::json config = io::read_json(path);
  io::check_draft_config<Draft::kind, Config>(config, file);
  check_same_conventions(file, io::draft_conventions<Draft::kind>(config, file), conventions);
  const auto found = io::draft_layer_ids<Draft::kind, Config>(config, file);
  if (found == layer_ids) return;
  throw Error(file + ": " + DraftForm<Draft::kind>::layers_field, io::json(found).dump(), io::json(layer_ids).dump());
}

template <OwnDraft Draft, class Conventions>
void check_same_config(const std::filesystem::path& path, const std::vector<index_t>& layer_ids,
                       const Conventions& conventions) {
  check_draft_config_of<Draft>(path, draft_config_of<Draft>(layer_ids, DType::F32, conventions));
}

template <class Draft>
void check_same_vocabulary(const std::filesystem::path& directory, const DraftVocabulary& own) {
  const auto found =
      DraftVocabulary::read(io::ModelTensors::open(directory), Draft::draft_vocabulary, Draft::vocabulary);
  const auto a = found.target_ids(), b = own.target_ids();
  if (std::equal(a.data(), a.data() + a.size(), b.data(), b.data() + b.size())) return;
  throw Error(directory.string() + ": d2t", "another vocabulary", "the one the trainer was made with");
}

/// Both tensor files must be of the step that trainer.json names.
inline void check_same_step(const std::filesystem::path& directory, index_t next_step) {
  const std::string wanted = std::to_string(next_step);
  for (const char* name : {io::ModelTensors::single_name, trainer_tensors_name}) {
    const auto file = io::SafetensorsFile::open(directory / name);
    const auto step = file.metadata().find("step");
    const std::string found = step == file.metadata().end() ? "nothing" : step->second;
    if (found != wanted) throw Error(file.path() + ": step", found, wanted + ", as in " + trainer_json_name);
  }
}

}  // namespace detail

/// Compares what a checkpoint says of its run with a run's own; of the weights only the vocabulary is read.
/// \param data   the run's own texts, which must be the checkpoint's unless `other` takes others
/// \returns where the checkpoint stands
/// \throws Error naming the file, and the first of settings, texts, config.json, conventions, layers and vocabulary
///         that is not the run's; on files that are not of one step
template <class Draft, class Conventions>
TrainerProgress check_checkpoint(const std::filesystem::path& directory, const TrainSettings& settings,
                                 const std::vector<index_t>& layer_ids, const Conventions& conventions,
                                 const DraftVocabulary& vocabulary, const std::optional<DataFingerprints>& data = {},
                                 OtherData other = OtherData::refuse) {
  TrainerProgress saved = read_trainer_progress(directory);
  if (settings_json(saved.settings) != settings_json(settings)) {
    throw Error((directory / detail::trainer_json_name).string() + ": settings", settings_json(saved.settings).dump(),
                settings_json(settings).dump());
  }
  detail::check_same_step(directory, saved.next_step);
  if (other == OtherData::refuse) saved.sources.check_data(data, (directory / detail::trainer_json_name).string());
  detail::check_same_config<Draft>(directory / draft_config_name, layer_ids, conventions);
  detail::check_same_vocabulary<Draft>(directory, vocabulary);
  return saved;
}

}  // namespace K3SPEC_NAMESPACE
