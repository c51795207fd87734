#pragma once
/// \file
/// The numbers that a checkpoint's tensors hold, for a model whose type does not exist yet.
/// defines: io::TensorTally, io::tally_target, io::tally_draft, io::tally_notes

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/io/draft_vocabulary.hpp>
#include <k3spec/io/model_tensors.hpp>
#include <k3spec/io/target_roster.hpp>

namespace K3SPEC_NAMESPACE::io {

/// What was counted, what was left out, and what differs from the members.
struct TensorTally {
  std::uint64_t parameters = 0;               ///< of the tensors
  std::uint64_t others = 0, other_bytes = 0;  ///< tensors that the model has no place for
  std::string example = {};                   ///< the name of one of them
  std::uint64_t differing = 0;                ///< tensors that are absent or of another size than the members say
  std::string first_difference = {};          ///< as messages may show it
};

namespace detail {

/// Whether a name is one of a target with so many layers. Layers behind them predict further tokens.
inline bool is_of_target(std::string_view name, index_t layers) {
  constexpr std::string_view layer = "model.layers.";
  if (!name.starts_with(layer)) return name.starts_with("model.") || name.starts_with("lm_head.");
  std::string_view number = name.substr(layer.size());
  number = number.substr(0, number.find('.'));
  const std::string below = std::to_string(layers);
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos &&
         (number.size() < below.size() || (number.size() == below.size() && number < below));
}

/// The names under which a target's tensor is stored: an expert may be packed, beside its scales; none: it is not
/// there.
inline std::vector<std::string> target_names(const ModelTensors& tensors, const std::string& name) {
  if (tensors.contains(name)) return {name};
  const std::string packed = name + "_packed", scale = name + "_scale";
  const bool expert = name.find(".experts.") != std::string::npos && tensors.contains(packed);
  if (!expert) return {};
  return tensors.contains(scale) ? std::vector{packed, scale} : std::vector{packed};
}

/// The numbers of a tensor: packed ones are two in a byte, and an A_log longer than the heads counts for these.
inline std::uint64_t numbers_of(const ModelTensors& tensors, const std::string& name, std::uint64_t wanted) {
  const TensorInfo& info = tensors.info(name);
  const std::uint64_t stored = (info.end - info.begin) / size_of(info.dtype);
  if (name.ends_with("_packed")) return 2 * stored;
  return name.ends_with(".A_log") ? std::min(stored, wanted) : stored;
}

inline void count_difference(TensorTally& tally, const std::string& name, const std::string& found,
                             const std::string& wanted) {
  if (tally.differing++ > 0) return;
  tally.first_difference = printable("'" + name + "' has " + found + ", wanted " + wanted, 400);
}

/// Whether so many layers and experts can be among the tensors: else they are not worth going through.
inline bool can_have_layers(const ModelTensors& tensors, const ConfigMembers& members) {
  const auto most = static_cast<index_t>(tensors.names().size());
  return members.number("num_hidden_layers") <= most && members.number("num_experts") <= most;
}

}  // namespace detail

/// Of a target. \param tensors  with their prefix taken off
inline TensorTally tally_target(const ModelTensors& tensors, const ConfigMembers& members) {
  TensorTally tally;
  std::set<std::string> counted;
  const auto count = [&](const std::string& name, std::uint64_t wanted) {
    const auto stored = detail::target_names(tensors, name);
    if (stored.empty()) return detail::count_difference(tally, name, "nothing", std::to_string(wanted));
    counted.insert(stored.begin(), stored.end());
    const std::uint64_t found = detail::numbers_of(tensors, stored[0], wanted);
    tally.parameters += found;
    if (found != wanted)
      detail::count_difference(tally, name, std::to_string(found) + " numbers", std::to_string(wanted));
  };
  if (detail::can_have_layers(tensors, members)) {
    detail::walk_target_tensors(members, count);
  } else {
    detail::count_difference(tally, "model.layers", "fewer tensors than layers or experts", "more");
  }
  for (const std::string& name : tensors.names()) {
    if (counted.count(name) != 0) continue;
    const std::uint64_t bytes = tensors.info(name).end - tensors.info(name).begin;
    if (detail::is_of_target(name, members.number("num_hidden_layers").value_or(0))) {
      // A part that config.json does not speak of: the count must not agree without it.
      const std::uint64_t found = bytes / size_of(tensors.dtype(name));
      tally.parameters += found;
      detail::count_difference(tally, name, std::to_string(found) + " numbers", "no such tensor");
    } else {
      if (tally.others++ == 0) tally.example = name;
      tally.other_bytes += bytes;
    }
  }
  return tally;
}

/// Of a draft as this library writes it: all but its vocabulary's tables.
inline TensorTally tally_draft(const ModelTensors& tensors) {
  TensorTally tally;
  for (const std::string& name : tensors.names()) {
    if (name == DraftVocabulary::d2t_name || name == DraftVocabulary::t2d_name) continue;
    const TensorInfo& info = tensors.info(name);
    tally.parameters += (info.end - info.begin) / size_of(info.dtype);
  }
  return tally;
}

/// What is to be said of a tally, a sentence each.
inline std::vector<std::string> tally_notes(const TensorTally& tally) {
  std::vector<std::string> notes;
  if (tally.others > 0) {
    notes.push_back(std::to_string(tally.others) + " tensors of " + std::to_string(tally.other_bytes) +
                    " bytes are not the target's, so not counted: '" + printable(tally.example, 200) +
                    (tally.others > 1 ? "' and others" : "'"));
  }
  if (tally.differing > 0) {
    notes.push_back("config.json and the tensors disagree, so that the header is not going to compile: " +
                    std::to_string(tally.differing) + " differ, first " + tally.first_difference);
  }
  return notes;
}

}  // namespace K3SPEC_NAMESPACE::io
