#pragma once
/// \file
/// Drafts of Kimi K3's own block as NeMo Automodel writes them, written anew as this library does.
/// defines: NemoDraft, convert_nemo_draft

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <k3spec/core/finite.hpp>
#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/io/draft_checkpoint.hpp>

#include "compiled_in.hpp"
#include "notes.hpp"

namespace k3spec::examples {

struct NemoDraft {
  std::filesystem::path draft, out;
  /// Instead of NeMo's own where given.
  std::optional<AuxStream> aux_stream = {};
  std::optional<LayerIds> counting = {};
  /// Of an EAGLE-3 draft that does not read the default ones.
  std::vector<index_t> layer_ids = {};
  io::Metadata metadata = {};
};

namespace detail {

/// NeMo's blocks: all slots see each other, and the context is not cut.
template <class Draft>
struct Uncut : Draft {
  static constexpr bool block_causal = false;
  static constexpr std::optional<index_t> sliding_window = std::nullopt;
};

template <class Draft>
void convert_nemo_draft(const NemoDraft& o) {
  using Config = typename Draft::config;
  LoadGiven<Draft, bfloat16> given;
  given.from = WrittenBy::nemo;
  given.layer_ids = o.layer_ids;
  given.conventions = DraftForm<Draft::kind>::template conventions<Config>();
  given.conventions->aux_stream = o.aux_stream.value_or(given.conventions->aux_stream);
  given.conventions->layer_ids = o.counting.value_or(given.conventions->layer_ids);
  const auto draft = load_draft<Draft, bfloat16>(o.draft, given);
  say_notes(draft.notes);
  require_finite<Draft>(draft.parameters.weights(), o.draft.string());
  std::error_code failed;
  std::filesystem::create_directories(o.out, failed);
  if (failed) throw Error(o.out.string(), failed.message(), "a directory that can be created");
  save_draft(o.out, draft.parameters, draft.vocabulary,
             io::draft_config_json<Draft::kind, Config>(draft.layer_ids, DType::BF16, draft.conventions), o.metadata);
}

}  // namespace detail

/// \throws Error on a file that NeMo Automodel did not write, or of a draft that is none of those compiled in
inline void convert_nemo_draft(const NemoDraft& o) {
  const std::string file = (draft_folder(o.draft).path / draft_config_name).string();
  const io::json config = io::read_json(file);
  const auto kind = io::nemo_kind(config);
  if (!kind) {
    throw Error(file, "no draft of Kimi K3's that NeMo Automodel wrote",
                "LlamaEagle3DraftModel, KimiK3DFlashDraftModel or KimiK3DSparkModel, of model_type kimi_linear");
  }
  std::optional<std::string_view> version;
  if (kind == DraftKind::eagle3) version = io::detail::find_in_model(config, "fc_norm") == true ? "3.1" : "3";
  with_draft(draft_type_of(config, file, version), [&]<class Config> {
    constexpr DraftKind own = draft_kind_of<Config>();
    if constexpr (own == DraftKind::dflash) {
      detail::convert_nemo_draft<DFlashDraft<detail::Uncut<Config>>>(o);
    } else if constexpr (own == DraftKind::dspark) {
      detail::convert_nemo_draft<DSparkDraft<detail::Uncut<Config>>>(o);
    } else if constexpr (Config::backbone == Backbone::kimi_k3) {  // the only one that NeMo's have
      detail::convert_nemo_draft<Eagle3Draft<Config>>(o);
    }
  });
}

}  // namespace k3spec::examples
