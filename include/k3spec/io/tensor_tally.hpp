#pragma once
/// \file
/// The numbers that a checkpoint's tensors hold, for a model whose type does not exist yet.
/// defines: io::TensorTally, io::tally_target, io::tally_draft

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <k3spec/io/draft_vocabulary.hpp>
#include <k3spec/io/model_tensors.hpp>

namespace K3SPEC_NAMESPACE::io {

/// What was counted, and what was left out.
struct TensorTally {
  std::uint64_t parameters = 0;
  std::uint64_t others = 0, other_bytes = 0;  ///< tensors that the model has no place for
  std::string example = {};                   ///< the name of one of them
};

namespace detail {

/// Whether a name is one of a target with so many layers. Layers behind them predict further tokens.
inline bool is_of_target(std::string_view name, index_t layers) {
  constexpr std::string_view layer = "model.layers.";
  if (!name.starts_with(layer)) return name.starts_with("model.") || name.starts_with("lm_head.");
  std::string_view number = name.substr(layer.size());
  number = number.substr(0, number.find('.'));
  while (number.size() > 1 && number[0] == '0') number.remove_prefix(1);
  const std::string below = std::to_string(layers);
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos &&
         (number.size() < below.size() || (number.size() == below.size() && number < below));
}

inline void count_other(TensorTally& tally, const std::string& name, const TensorInfo& info) {
  if (tally.others++ == 0) tally.example = name;
  tally.other_bytes += info.end - info.begin;
}

/// The numbers of a target's tensor: a packed expert holds two in a byte, its scales none, and an A_log longer than the
/// heads counts for these.
inline std::uint64_t numbers_of_target(const ModelTensors& tensors, const std::string& name, index_t kda_heads) {
  const TensorInfo& info = tensors.info(name);
  const std::uint64_t stored = (info.end - info.begin) / size_of(info.dtype);
  const bool expert = name.find(".experts.") != std::string::npos && info.dtype == DType::U8;
  if (expert && name.ends_with("_packed")) return 2 * stored;
  if (expert && name.ends_with("_scale") && tensors.contains(name.substr(0, name.size() - 6) + "_packed")) return 0;
  if (name.ends_with(".A_log")) return std::min(stored, static_cast<std::uint64_t>(kda_heads));
  return stored;
}

}  // namespace detail

/// Of a target. \param tensors  with their prefix taken off \param layers, kda_heads  as its config.json has them
inline TensorTally tally_target(const ModelTensors& tensors, index_t layers, index_t kda_heads) {
  TensorTally tally;
  for (const std::string& name : tensors.names()) {
    if (detail::is_of_target(name, layers)) {
      tally.parameters += detail::numbers_of_target(tensors, name, kda_heads);
    } else {
      detail::count_other(tally, name, tensors.info(name));
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

}  // namespace K3SPEC_NAMESPACE::io
