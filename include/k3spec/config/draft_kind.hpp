#pragma once
/// \file
/// The kinds of draft, and for each what its config.json is made of.
/// defines: DraftKind, DraftForm

#include <k3spec/config/check.hpp>
#include <k3spec/config/conventions.hpp>
#include <k3spec/config/fields.hpp>

namespace K3SPEC_NAMESPACE {

/// The kinds of draft.
enum class DraftKind { eagle3, dflash, dspark };
template <>
inline constexpr std::array<std::string_view, 3> names_of<DraftKind>{"eagle3", "dflash", "dspark"};

/// `architecture`: the name transformers knows the draft by, `architectures`: all of that kind. `layers_field`: the
/// field with the ids of the target layers it reads; how many there are, and the first it can read, counted from 0 (-1:
/// the embedding). `visit`: its fields; `Checked`: what they must not say. `conventions`: this library's own, and what
/// the config decides.
template <DraftKind Kind>
struct DraftForm;

/// EAGLE-3's config.json.
template <>
struct DraftForm<DraftKind::eagle3> {
  /// One for each Backbone, and the one that other engines know DeepSeek-V3's by (io/engine_config.hpp).
  static constexpr std::array<std::string_view, 3> architectures{"KimiK3Eagle3DraftModel", "DeepseekV3Eagle3DraftModel",
                                                                 "Eagle3DeepseekV2ForCausalLM"};
  static constexpr std::string_view engine_architecture = architectures[2];
  template <class Config>
  static constexpr std::string_view architecture = architectures[static_cast<std::size_t>(Config::backbone)];
  static constexpr const char* layers_field = "aux_layer_ids";
  static constexpr index_t first_layer = 0;
  using Conventions = Eagle3Conventions;
  template <class Config>
  using Checked = CheckedEagle3<Config>;
  template <class Config>
  static constexpr index_t target_layers = Config::num_aux_hidden_states;

  template <class Config, class V>
  static constexpr void visit(V&& v) {
    visit_eagle3_fields<Config>(v);
    v("num_hidden_layers", index_t{1});
  }
  template <class Config>
  static constexpr Conventions conventions() {
    Conventions own;
    own.softmax_mscale = Config::softmax_mscale;
    return own;
  }
};

/// DFlash's config.json.
template <>
struct DraftForm<DraftKind::dflash> {
  static constexpr std::array<std::string_view, 1> architectures{"KimiK3DFlashDraftModel"};
  template <class Config>
  static constexpr std::string_view architecture = architectures[0];
  static constexpr const char* layers_field = "target_layer_ids";
  static constexpr index_t first_layer = -1;
  using Conventions = BlockConventions<Slot::anchor_plus_k>;
  template <class Config>
  using Checked = CheckedDFlash<Config>;
  template <class Config>
  static constexpr index_t target_layers = Config::num_target_layers;

  template <class Config, class V>
  static constexpr void visit(V&& v) {
    visit_dflash_fields<Config>(v);
  }
  template <class Config>
  static constexpr Conventions conventions() {
    return {};
  }
};

/// DSpark's config.json.
template <>
struct DraftForm<DraftKind::dspark> {
  static constexpr std::array<std::string_view, 1> architectures{"KimiK3DSparkModel"};
  template <class Config>
  static constexpr std::string_view architecture = architectures[0];
  static constexpr const char* layers_field = "target_layer_ids";
  static constexpr index_t first_layer = -1;
  using Conventions = BlockConventions<Slot::anchor_plus_k_plus_1>;
  template <class Config>
  using Checked = CheckedDSpark<Config>;
  template <class Config>
  static constexpr index_t target_layers = Config::num_target_layers;

  template <class Config, class V>
  static constexpr void visit(V&& v) {
    visit_dspark_fields<Config>(v);
  }
  template <class Config>
  static constexpr Conventions conventions() {
    return {};
  }
};

}  // namespace K3SPEC_NAMESPACE
