#pragma once
/// \file
/// config.json of Kimi K3's drafts as NeMo Automodel writes them: the target's text_config with what the draft adds.
/// What its code fixes does not stand there: of EAGLE-3 eight of the fields that this library asks for, of DFlash and
/// DSpark as many or more. Whoever says that a file is NeMo's has them filled in, each by name.
///
/// EAGLE-3's names LlamaEagle3DraftModel whatever the draft, keeps the target's num_hidden_layers, and does not say
/// which layers it reads, be they the default ones or not. DFlash's has its mask token and layers in dflash_config.
/// defines: WrittenBy, io::nemo_kind, io::CompletedConfig, io::complete_nemo_config
/// \see https://github.com/NVIDIA-NeMo/Automodel, nemo_automodel/recipes/llm/train_eagle3.py and
/// components/speculative

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/config/draft_kind.hpp>
#include <k3spec/io/draft_conventions.hpp>
#include <k3spec/io/field_comparison.hpp>

namespace K3SPEC_NAMESPACE {

/// Who wrote a draft's file. k3spec: this library, or an engine's tools, whose files name what they are.
enum class WrittenBy { k3spec, nemo };
template <>
inline constexpr std::array<std::string_view, 2> names_of<WrittenBy>{"k3spec", "nemo"};

namespace io {

/// The kind of Kimi K3's draft that NeMo Automodel wrote; none where it did not write the file.
inline std::optional<DraftKind> nemo_kind(const json& root) {
  if (detail::find_in_model(root, "model_type") != "kimi_linear") return std::nullopt;
  const auto is = [&](std::string_view name) { return detail::has_architecture(root, name); };
  if (is("LlamaEagle3DraftModel") || is("KimiK3Eagle3DraftModel")) return DraftKind::eagle3;
  if (is("KimiK3DFlashDraftModel")) return DraftKind::dflash;
  return is("KimiK3DSparkModel") ? std::optional(DraftKind::dspark) : std::nullopt;
}

/// A file with what it did not say.
struct CompletedConfig {
  json config;
  /// What was filled in, one sentence, as messages may show it.
  std::string assumed;
};

namespace detail {

/// Fills in what a file lacks, and keeps in mind what that was.
class NemoCompletion {
 public:
  explicit NemoCompletion(json root) : root_(std::move(root)) {}

  json find(std::string_view field) const { return find_in_model(root_, field); }
  bool lacks(std::string_view field) const { return find(field).is_null(); }
  /// Where it counts, whatever the file says elsewhere.
  void set(const char* field, const json& value) {
    json& model = &text_config(root_) == &root_ ? root_ : root_["text_config"];
    model[field] = value;
  }
  /// What NeMo's code fixes.
  void assume(const char* field, const json& value) {
    if (!lacks(field)) return;
    set(field, value);
    assumed_.append(assumed_.empty() ? "" : ", ").append(field).append(" ").append(excerpt(value));
  }
  /// What the file says at another place, or in another way.
  void move(const char* field, const char* from) {
    if (lacks(field) && !lacks(from)) set(field, find(from));
  }

  CompletedConfig take(std::string_view subject) && {
    std::string note;
    if (!assumed_.empty()) {
      note = printable(subject, 6000) + ": it does not say, so assumed as NeMo Automodel has it: " + assumed_;
    }
    return {std::move(root_), std::move(note)};
  }

 private:
  json root_;
  std::string assumed_;
};

/// The default layers where none are given. \throws Error where the target has too few, or its depth is not said
inline std::vector<index_t> nemo_aux_layers(const NemoCompletion& file, LayerIds counting, std::string_view subject) {
  const json depth = file.find("num_hidden_layers");
  const auto layers = as_index(depth);
  if (!layers || *layers < 1) {
    throw Error(std::string(subject) + ": num_hidden_layers", field_text(depth), "the number of the target's layers");
  }
  try {
    std::vector<index_t> ids = default_aux_layer_ids(*layers);
    for (index_t& id : ids) id = layer_id(id, counting);
    return ids;
  } catch (const Error& e) {
    throw e.within(subject);
  }
}

/// \throws Error naming the file, when it is none that NeMo Automodel writes of this kind
template <DraftKind Kind>
void require_nemo_kind(const json& root, std::string_view subject) {
  if (nemo_kind(root) == Kind) return;
  const auto found = [&](const char* field) { return field_text(find_in_model(root, field)); };
  throw Error(std::string(subject) + ": architectures and model_type",
              found("architectures") + " and " + found("model_type"),
              std::string(DraftForm<Kind>::architectures.front()) + " and kimi_linear, as NeMo Automodel writes them");
}

/// \param layer_ids  those that the recipe chose; empty: the default
inline void complete_eagle3_draft(NemoCompletion& file, const std::vector<index_t>& layer_ids, LayerIds counting,
                                  std::string_view subject) {
  constexpr auto layers_field = DraftForm<DraftKind::eagle3>::layers_field;
  const bool silent = file.lacks(layers_field);
  if (silent && !layer_ids.empty()) file.set(layers_field, layer_ids);
  if (silent && layer_ids.empty()) file.assume(layers_field, nemo_aux_layers(file, counting, subject));
  file.set("num_hidden_layers", 1);
  file.assume("num_aux_hidden_states", 3);
  file.assume("fc_norm", false);
  file.assume("norm_output", false);
  file.assume("draft_vocab_size", file.find("vocab_size"));
}

inline void complete_block_draft(NemoCompletion& file) {
  file.move("mask_token_id", "dflash_config.mask_token_id");
  file.move("target_layer_ids", "dflash_config.target_layer_ids");
  file.move("block_size", "dflash_config.block_size");
  file.move("block_causal", "is_causal");
  file.assume("block_causal", false);
}

}  // namespace detail

/// A NeMo file as one of this library's.
/// \param conventions  instead of NeMo's own, where the file names none
/// \param layer_ids    EAGLE-3: the layers that the recipe chose, counted as the conventions have it; empty: the
///                     default
/// \throws Error naming the file, when it is none that NeMo Automodel writes of this kind, and on an EAGLE-3 draft
///         whose target has no default layers, when none are given
template <DraftKind Kind>
CompletedConfig complete_nemo_config(const json& root, std::string_view subject,
                                     const std::optional<typename DraftForm<Kind>::Conventions>& conventions = {},
                                     const std::vector<index_t>& layer_ids = {}) {
  using Form = DraftForm<Kind>;
  detail::require_nemo_kind<Kind>(root, subject);
  detail::NemoCompletion file(root);
  auto own = conventions.value_or(typename Form::Conventions{});
  if (const auto named = detail::named_value<LayerIds>(file.find("layer_ids"))) own.layer_ids = *named;
  if constexpr (Kind == DraftKind::eagle3) {
    detail::complete_eagle3_draft(file, layer_ids, own.layer_ids, subject);
  } else {
    detail::complete_block_draft(file);
  }
  if constexpr (Kind == DraftKind::dspark) {
    file.assume("confidence_head_with_markov", false);
    file.assume("markov_head_type", "vanilla");
  }
  if constexpr (Kind != DraftKind::dflash) file.assume("train_embeddings", false);
  file.assume("target_hidden_size", file.find("hidden_size"));
  // KimiMLAAttention norms its latents with its own default, the other drafts with the config's.
  file.assume("mla_norm_eps", Kind == DraftKind::dflash ? json(1e-6) : file.find("rms_norm_eps"));
  Form::Conventions::visit(own, [&](const char* name, auto value) { file.assume(name, detail::value_name(value)); });
  if constexpr (requires { own.ttt_steps; }) {
    if (own.ttt_steps && file.lacks(detail::ttt_steps_field)) file.set(detail::ttt_steps_field, *own.ttt_steps);
  }
  file.set("architectures", json::array({std::string(Form::architectures.front())}));
  file.set("model_type", "kimi_k3");
  return std::move(file).take(subject);
}

}  // namespace io
}  // namespace K3SPEC_NAMESPACE
