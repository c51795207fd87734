#pragma once
/// \file
/// What engines do differently under the same tensor names and shapes: a mismatch shows only as lost acceptance. Each
/// is a named value that config.json carries; a name that is not known is an error, never a guess.
/// defines: AuxStream, LayerIds, Slot, SoftmaxMscale, StateNorm, names_of, is_run_time_convention,
/// Eagle3Conventions, BlockConventions, layer_number, layer_id, repeated_id, default_aux_layer_ids,
/// default_target_layer_ids

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE {

/// What "the hidden state of a layer" is in a model with attention residuals: the running sum after the layer's MLP, or
/// the mixture that the next layer's attention reads, before its norm.
enum class AuxStream { running_sum, residual_mixture };

/// What layer id i names: the output of layer i counted from 0, or the state after i layers have run.
enum class LayerIds { after_layer_0, layers_executed };

/// Which token slot k of a block (counted from 0) predicts: the one at anchor + k, slot 0 being the anchor itself and
/// predicting nothing, or the one at anchor + k + 1.
enum class Slot { anchor_plus_k, anchor_plus_k_plus_1 };

/// Whether YaRN's factor is applied to the softmax scale.
enum class SoftmaxMscale { none, yarn_mscale_squared };

/// Whether states handed to a draft are those before or after the target's final norm.
enum class StateNorm { pre_norm, post_norm };

/// The names of an enumeration's values, in order.
template <class E>
inline constexpr std::array<std::string_view, 0> names_of{};
template <>
inline constexpr std::array<std::string_view, 2> names_of<AuxStream>{"running_sum", "residual_mixture"};
template <>
inline constexpr std::array<std::string_view, 2> names_of<LayerIds>{"after_layer_0", "layers_executed"};
template <>
inline constexpr std::array<std::string_view, 2> names_of<Slot>{"anchor_plus_k", "anchor_plus_k_plus_1"};
template <>
inline constexpr std::array<std::string_view, 2> names_of<SoftmaxMscale>{"none", "yarn_mscale_squared"};
template <>
inline constexpr std::array<std::string_view, 2> names_of<StateNorm>{"pre_norm", "post_norm"};

/// Whether a convention may be any of its values when a program runs, or must be the one that the draft's type is made
/// for.
template <class E>
inline constexpr bool is_run_time_convention = std::is_same_v<E, AuxStream> || std::is_same_v<E, LayerIds>;

/// How an EAGLE-3 draft was trained. The defaults are this library's own.
struct Eagle3Conventions {
  AuxStream aux_stream = AuxStream::running_sum;
  LayerIds layer_ids = LayerIds::after_layer_0;
  SoftmaxMscale softmax_mscale = SoftmaxMscale::none;
  StateNorm state_norm = StateNorm::pre_norm;
  /// Steps that training unrolled the draft for, and so the tokens it drafts unless told otherwise; none: not known.
  std::optional<index_t> ttt_steps = std::nullopt;

  /// `v(name, value)` for each that is a name; with a mutable `c` the values can be set.
  template <class C, class V>
  static constexpr void visit(C& c, V&& v) {
    v("aux_stream", c.aux_stream);
    v("layer_ids", c.layer_ids);
    v("softmax_mscale", c.softmax_mscale);
    v("state_norm", c.state_norm);
  }
  friend bool operator==(const Eagle3Conventions&, const Eagle3Conventions&) = default;
};

/// The same of a block draft, whose kind decides the slot.
template <Slot OfDraft>
struct BlockConventions {
  AuxStream aux_stream = AuxStream::running_sum;
  LayerIds layer_ids = LayerIds::after_layer_0;
  Slot slot = OfDraft;
  StateNorm state_norm = StateNorm::post_norm;  ///< of the last layer's state, as context and as teacher

  template <class C, class V>
  static constexpr void visit(C& c, V&& v) {
    v("aux_stream", c.aux_stream);
    v("layer_ids", c.layer_ids);
    v("slot", c.slot);
    v("state_norm", c.state_norm);
  }
  friend bool operator==(const BlockConventions&, const BlockConventions&) = default;
};

/// The layer, counted from 0, whose output an id names; -1 is the embedding. The smallest number, no layer's in either
/// way of counting, stays what it is.
constexpr index_t layer_number(index_t id, LayerIds ids) {
  return ids == LayerIds::layers_executed && id > std::numeric_limits<index_t>::min() ? id - 1 : id;
}

/// The id that names the output of a layer counted from 0. The largest number stays what it is.
constexpr index_t layer_id(index_t layer, LayerIds ids) {
  return ids == LayerIds::layers_executed && layer < std::numeric_limits<index_t>::max() ? layer + 1 : layer;
}

/// An id that is given more than once; none when all differ.
inline std::optional<index_t> repeated_id(std::span<const index_t> ids) {
  std::vector<index_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  const auto at = std::adjacent_find(sorted.begin(), sorted.end());
  return at == sorted.end() ? std::nullopt : std::optional(*at);
}

/// The layers (counted from 0) an EAGLE-3 draft reads unless told otherwise: 1, L/2 - 1 and L - 4.
/// \throws Error when they are not three different layers
inline std::vector<index_t> default_aux_layer_ids(index_t num_hidden_layers) {
  const std::vector<index_t> ids{1, num_hidden_layers / 2 - 1, num_hidden_layers - 4};
  if (ids[0] < ids[1] && ids[1] < ids[2]) return ids;
  throw Error("num_hidden_layers", std::to_string(num_hidden_layers),
              "enough for three different layers 1, L/2 - 1 and L - 4, or the layer ids to be given");
}

/// The layers a block draft's context is made of unless told otherwise: `count` at equal distances from layer 1 to
/// layer L - 3.
/// \throws Error when they are not different ones
inline std::vector<index_t> default_target_layer_ids(index_t num_hidden_layers, index_t count) {
  std::vector<index_t> ids;
  for (index_t i = 0; i < count; ++i) {
    ids.push_back(count == 1 ? num_hidden_layers - 3 : 1 + i * (num_hidden_layers - 4) / (count - 1));
    if (ids.back() >= 0 && (i == 0 || ids[ids.size() - 2] < ids.back())) continue;
    throw Error(
        "num_hidden_layers", std::to_string(num_hidden_layers),
        "enough for " + std::to_string(count) + " different layers from 1 to L - 3, or the layer ids to be given");
  }
  return ids;
}

}  // namespace K3SPEC_NAMESPACE
