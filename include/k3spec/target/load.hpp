#pragma once
/// \file
/// A checkpoint's weights into a target. This header of the room sees io, the others do not.
/// defines: load_target

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/io/config_json.hpp>
#include <k3spec/io/load_parameters.hpp>
#include <k3spec/target/k3_target.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

inline bool ends_with(std::string_view name, std::string_view end) {
  return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
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
  io::LoadOptions options;
  options.known = ignored;
  options.padded = [](std::string_view name) { return detail::ends_with(name, ".A_log"); };
  options.mxfp4 = [](std::string_view name) { return name.find(".experts.") != std::string_view::npos; };
  io::load_parameters(tensors, io::slots<K3Target<Config>>(weights), options);
}

/// The same from a model's folder, whose config.json must agree with Config.
/// \returns notes for the user, as messages may show them: fields of config.json that are not known here, and what is
///          odd about the files but does not matter
/// \throws Error listing all fields that differ
template <class Config, Element T>
std::vector<std::string> load_target(const std::filesystem::path& folder, Parameters<K3Target<Config>, T>& parameters,
                                     const io::NamePredicate& ignored = io::named({})) {
  const std::filesystem::path config = folder / "config.json";
  std::vector<std::string> notes = io::check_target_config<Config>(io::read_json(config), config.string());
  const auto tensors = io::ModelTensors::open(folder, "language_model.");
  notes.insert(notes.end(), tensors.notes().begin(), tensors.notes().end());
  load_target(tensors, parameters, ignored);
  return notes;
}

}  // namespace K3SPEC_NAMESPACE
