#pragma once
/// \file
/// A checkpoint's weights into a target: by way of parameters, or straight from its files, so that each weight exists
/// once. This header and save.hpp see io, the others of the room do not.
/// defines: TargetCheckpoint, LoadedTarget, load_target, load_frozen_target

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/io/config_json.hpp>
#include <k3spec/io/stored_tensor.hpp>
#include <k3spec/target/forward.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

inline bool ends_with(std::string_view name, std::string_view end) {
  return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
}

/// \param ignored  see load_target
inline io::LoadOptions target_options(const io::NamePredicate& ignored) {
  io::LoadOptions options;
  options.known = ignored;
  options.padded = [](std::string_view name) { return ends_with(name, ".A_log"); };
  options.mxfp4 = [](std::string_view name) { return name.find(".experts.") != std::string_view::npos; };
  return options;
}

/// A target's files, when its config.json agrees with Config.
struct TargetFiles {
  io::ModelTensors tensors;
  std::vector<std::string> notes;
};
template <class Config>
TargetFiles open_target(const std::filesystem::path& folder) {
  const std::filesystem::path config = folder / "config.json";
  std::vector<std::string> notes = io::check_target_config<Config>(io::read_json(config), config.string());
  auto tensors = io::ModelTensors::open(folder, "language_model.");
  notes.insert(notes.end(), tensors.notes().begin(), tensors.notes().end());
  return {std::move(tensors), std::move(notes)};
}

}  // namespace detail

/// Fills `parameters` from a checkpoint. A prefix "language_model." is taken off, MXFP4 experts are dequantized, of an
/// A_log longer than the heads the first entries count.
/// \param ignored  names (without the prefix) that the checkpoint may have and the target has no place for, such as
///                 those of a vision tower
/// \throws Error, with nothing written, when a tensor is absent, unknown, of another shape or does not convert
template <class Config, Element T>
void load_target(const io::ModelTensors& tensors, Parameters<K3Target<Config>, T>& parameters,
                 const io::NamePredicate& ignored = io::named({})) {
  auto weights = parameters.mutable_weights();
  io::load_parameters(tensors, io::slots<K3Target<Config>>(weights), detail::target_options(ignored));
}

/// The same from a model's folder, whose config.json must agree with Config.
/// \returns notes for the user, as messages may show them: fields of config.json that are not known here, and what is
///          odd about the files but does not matter
/// \throws Error listing all fields that differ
template <class Config, Element T>
std::vector<std::string> load_target(const std::filesystem::path& folder, Parameters<K3Target<Config>, T>& parameters,
                                     const io::NamePredicate& ignored = io::named({})) {
  auto files = detail::open_target<Config>(folder);
  load_target(files.tensors, parameters, ignored);
  return std::move(files.notes);
}

/// A target in a model's folder, its weights still to be read.
template <class Config, Element T>
class TargetCheckpoint {
 public:
  /// Reads headers and config.json. \param ignored, keep  see load_target, KeepWeights
  /// \throws Error as load_target of a folder
  explicit TargetCheckpoint(const std::filesystem::path& folder, const io::NamePredicate& ignored = io::named({}),
                            KeepWeights keep = KeepWeights::native)
      : files_(detail::open_target<Config>(folder)), stored_(files_.tensors, detail::target_options(ignored), keep) {}

  /// This must outlive them.
  const typename K3Target<Config>::template Weights<Unread<T>>& weights() const { return stored_.weights(); }
  /// What load_target notes.
  const std::vector<std::string>& notes() const { return files_.notes; }

 private:
  detail::TargetFiles files_;
  io::StoredWeights<K3Target<Config>, T> stored_;
};

/// A target that has its weights for itself, and what load_target notes.
template <class Config, Element T, Device D = Cpu>
struct LoadedTarget {
  FrozenTarget<Config, T, D> target;
  std::vector<std::string> notes;
};

/// A frozen target straight from a checkpoint, the same bits as from load_target's parameters. One matrix at a time (of
/// experts, one for each thread) is read and laid out; where the device prepacks them, those of MXFP4 and bfloat16 a
/// part at a time, by their own bits.
/// \param ignored, keep  see load_target, KeepWeights
/// \throws Error as load_target
template <class Config, Element T, Device D>
FrozenTarget<Config, T, D> load_frozen_target(const D& device, const io::ModelTensors& tensors,
                                              const io::NamePredicate& ignored = io::named({}),
                                              KeepWeights keep = KeepWeights::native) {
  const io::StoredWeights<K3Target<Config>, T> stored(tensors, detail::target_options(ignored), keep);
  return FrozenTarget<Config, T, D>(device, stored.weights());
}

/// The same from a model's folder, whose config.json must agree with Config.
/// \throws Error listing all fields that differ
template <class Config, Element T, Device D>
LoadedTarget<Config, T, D> load_frozen_target(const D& device, const std::filesystem::path& folder,
                                              const io::NamePredicate& ignored = io::named({}),
                                              KeepWeights keep = KeepWeights::native) {
  const TargetCheckpoint<Config, T> files(folder, ignored, keep);
  return {FrozenTarget<Config, T, D>(device, files.weights()), files.notes()};
}

}  // namespace K3SPEC_NAMESPACE
