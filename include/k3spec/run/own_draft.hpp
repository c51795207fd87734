#pragma once
/// \file
/// What a run writes of a draft into its config.json, and compares on resuming: of the library's kinds what io has, of
/// a draft of one's own what it says itself.
/// defines: OwnDraft, NoConventions, draft_config_of, check_draft_config_of

#include <concepts>
#include <filesystem>
#include <string>
#include <vector>

#include <k3spec/io/draft_checkpoint.hpp>

namespace K3SPEC_NAMESPACE {

/// A draft that is none of DraftKind. It is a layer (Weights, visit; core/parameters.hpp) and has
/// ```text
/// vocabulary, draft_vocabulary                 tokens of the target, and those that it can say
/// architecture                                 its name in config.json
/// visit_config(v)                              static: calls v(name, number or word) for each of its sizes
/// ```
template <class Draft>
concept OwnDraft = !requires {
  Draft::kind;
}
&&requires {
  { Draft::vocabulary + Draft::draft_vocabulary } -> std::convertible_to<index_t>;
  { Draft::architecture } -> std::convertible_to<std::string>;
  Draft::visit_config([](const char*, const auto&) {});
};

/// The conventions of a draft that has none.
struct NoConventions {};

/// config.json of a run's draft.
/// \param layer_ids  the target layers it reads
/// \throws Error as io::draft_config_json does
template <class Draft, class Conventions>
io::json draft_config_of(const std::vector<index_t>& layer_ids, DType dtype, const Conventions& conventions) {
  if constexpr (OwnDraft<Draft>) {
    io::json root;
    Draft::visit_config([&](const char* name, const auto& value) { root[name] = value; });
    const std::vector<std::string> architectures{Draft::architecture};
    root["architectures"] = architectures;
    root["target_layer_ids"] = layer_ids;
    root["dtype"] = dtype == DType::F64 ? "float64" : dtype == DType::F32 ? "float32" : "bfloat16";
    return root;
  } else {
    return io::draft_config_json<Draft::kind, typename Draft::config>(layer_ids, dtype, conventions);
  }
}

/// Refuses the config.json of another draft of one's own.
/// \throws Error naming the first field that is another or is not there
template <OwnDraft Draft>
void check_draft_config_of(const std::filesystem::path& path, const io::json& wanted) {
  const io::json found = io::read_json(path);
  for (const auto& [name, value] : wanted.items()) {
    const io::json there = found.contains(name) ? found[name] : io::json(nullptr);
    if (name != "dtype" && there != value) throw Error(path.string() + ": " + name, there.dump(), value.dump());
  }
}

}  // namespace K3SPEC_NAMESPACE
