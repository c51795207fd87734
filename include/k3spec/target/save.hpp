#pragma once
/// \file
/// A target's checkpoint, written: model.safetensors and config.json, as load_target reads them.
/// defines: save_target

#include <filesystem>
#include <string>
#include <utility>

#include <k3spec/core/parameters.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/load_parameters.hpp>
#include <k3spec/io/target_config.hpp>
#include <k3spec/target/k3_target.hpp>

namespace K3SPEC_NAMESPACE {

/// Writes both files, each at once; the weights first, with what else `metadata` says of them.
/// \param directory  which is there
/// \throws Error naming the file that cannot be written
template <class Config, Element T>
void save_target(const std::filesystem::path& directory, const Parameters<K3Target<Config>, T>& parameters,
                 io::Metadata metadata = {}) {
  const io::json config = io::target_config_json<Config>(dtype_of<T>);
  metadata["format"] = "pt";
  const auto weights = parameters.weights();
  io::write_safetensors(directory / io::ModelTensors::single_name, io::sources<K3Target<Config>>(weights), metadata);
  io::write_text(directory / "config.json", config.dump(2) + "\n");
}

}  // namespace K3SPEC_NAMESPACE
