#pragma once
/// \file
/// A checkpoint's weights into a target. This header of the room sees io, the others do not.
/// defines: load_target

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/io/config_json.hpp>
#include <k3spec/io/load_parameters.hpp>
#include <k3spec/io/mxfp4.hpp>
#include <k3spec/target/k3_target.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {

inline bool ends_with(std::string_view name, std::string_view end) {
  return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
}

inline std::string packed_name(const std::string& name) { return name + "_packed"; }
inline std::string scale_name(const std::string& name) { return name + "_scale"; }

/// Whether the checkpoint has an expert's weight as MXFP4: `name` + _packed and _scale instead of `name`.
inline bool is_mxfp4(const io::Checkpoint& checkpoint, const std::string& name) {
  return name.find(".experts.") != std::string::npos && !checkpoint.contains(name) &&
         (checkpoint.contains(packed_name(name)) || checkpoint.contains(scale_name(name)));
}

/// \throws Error naming the part that is absent or of another shape or type
inline void check_mxfp4(const io::Checkpoint& checkpoint, const io::TensorSlot& slot) {
  const index_t out = slot.shape[0], in = slot.shape[1];
  const auto check = [&](const std::string& name, index_t columns) {
    const std::vector<index_t> shape{out, columns};
    if (!checkpoint.contains(name)) {
      throw Error(io::detail::tensor_subject(checkpoint.path(), name), "no such tensor",
                  "U8 " + io::shape_string(shape));
    }
    checkpoint.file(name).check(checkpoint.stored_name(name), shape, DType::U8);
  };
  if (in % io::mxfp4_block != 0) {
    throw Error(io::detail::tensor_subject(checkpoint.path(), packed_name(slot.name)), "rows of " + std::to_string(in),
                "whole blocks of " + std::to_string(io::mxfp4_block));
  }
  check(packed_name(slot.name), in / 2);
  check(scale_name(slot.name), in / io::mxfp4_block);
}

template <class T>
void fill_mxfp4(const io::Checkpoint& checkpoint, const io::TensorSlot& slot) {
  const index_t out = slot.shape[0], in = slot.shape[1];
  const auto packed = checkpoint.read<std::uint8_t>(packed_name(slot.name)),
             scale = checkpoint.read<std::uint8_t>(scale_name(slot.name));
  io::dequantize_mxfp4(Matrix<const std::uint8_t>(packed.data(), out, in / 2),
                       Matrix<const std::uint8_t>(scale.data(), out, in / io::mxfp4_block),
                       Matrix<T>(static_cast<T*>(slot.data), out, in));
}

}  // namespace detail

/// Fills `parameters` from a checkpoint. A prefix "language_model." is taken off, MXFP4 experts are dequantized, of an
/// A_log longer than the heads the first entries count.
/// \param ignored  names (without the prefix) that the checkpoint may have and the target has no place for, such as
///                 those of a vision tower
/// \throws Error, with nothing written, when a tensor is absent, unknown, of another shape or does not convert
template <class Config, Element T>
void load_target(const io::Checkpoint& checkpoint, Parameters<K3Target<Config>, T>& parameters,
                 const io::NamePredicate& ignored = io::named({})) {
  auto weights = parameters.mutable_weights();
  std::vector<io::TensorSlot> plain, packed;
  std::set<std::string, std::less<>> parts;
  for (io::TensorSlot& slot : io::slots<K3Target<Config>>(weights)) {
    if (!detail::is_mxfp4(checkpoint, slot.name)) {
      plain.push_back(std::move(slot));
      continue;
    }
    detail::check_mxfp4(checkpoint, slot);
    parts.insert({detail::packed_name(slot.name), detail::scale_name(slot.name)});
    packed.push_back(std::move(slot));
  }
  io::LoadOptions options;
  options.known = [&](std::string_view name) { return parts.find(name) != parts.end() || ignored(name); };
  options.padded = [](std::string_view name) { return detail::ends_with(name, ".A_log"); };
  io::load_parameters(checkpoint, plain, options);
  for (const io::TensorSlot& slot : packed) detail::fill_mxfp4<T>(checkpoint, slot);
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
  const auto checkpoint = io::Checkpoint::open(folder, "language_model.");
  notes.insert(notes.end(), checkpoint.notes().begin(), checkpoint.notes().end());
  load_target(checkpoint, parameters, ignored);
  return notes;
}

}  // namespace K3SPEC_NAMESPACE
