#pragma once
/// \file
/// Which hidden states a draft reads from the target.
/// defines: Tap, eagle3_taps, block_taps

#include <span>
#include <string>
#include <vector>

#include <k3spec/config/conventions.hpp>

namespace K3SPEC_NAMESPACE {

/// One hidden state of the target, hidden_size wide.
struct Tap {
  /// Where in a layer it is taken.
  enum class What {
    embedding,
    running_sum,       ///< the output of `layer`: the sum after its MLP
    residual_mixture,  ///< what the attention after `layer` reads, before its norm; after the last layer: what the
                       ///< final norm reads. Without attention residuals this is the running sum
    post_norm,         ///< what lm_head reads
  };
  What what = What::running_sum;
  index_t layer = 0;  ///< 0 where the state is no layer's

  friend bool operator==(const Tap&, const Tap&) = default;
};

namespace detail {

inline void check_layer(const char* field, index_t layer, index_t first, index_t layers) {
  if (layer < first || layer >= layers) {
    throw Error(field, std::to_string(layer), std::to_string(first) + " to " + std::to_string(layers - 1));
  }
}

/// The layer, counted from 0, that an id names.
inline index_t checked_layer(const char* field, index_t id, index_t first, index_t layers, LayerIds ids) {
  const index_t layer = layer_number(id, ids);
  if (layer >= first && layer < layers) return layer;
  throw Error(field, std::to_string(id),
              std::to_string(layer_id(first, ids)) + " to " + std::to_string(layer_id(layers - 1, ids)) +
                  ", counted as " + std::string(names_of<LayerIds>[static_cast<std::size_t>(ids)]));
}

/// The layers, counted from 0, that ids name, all different.
inline std::vector<index_t> checked_layers(const char* field, std::span<const index_t> layer_ids, index_t first,
                                           index_t layers, LayerIds ids) {
  std::vector<index_t> out;
  for (const index_t id : layer_ids) out.push_back(checked_layer(field, id, first, layers, ids));
  const auto repeated = repeated_id(layer_ids);
  if (repeated) throw Error(field, std::to_string(*repeated) + " more than once", "different layers");
  return out;
}

constexpr Tap::What stream_tap(AuxStream stream) {
  return stream == AuxStream::running_sum ? Tap::What::running_sum : Tap::What::residual_mixture;
}

}  // namespace detail

/// The auxiliary states of EAGLE-3, each after its layer. \param layer_ids  as the conventions count them
/// \throws Error on ids that are no layer's, and on one given twice
inline std::vector<Tap> eagle3_taps(std::span<const index_t> layer_ids, index_t num_hidden_layers,
                                    const Eagle3Conventions& conventions = {}) {
  std::vector<Tap> taps;
  for (const index_t layer :
       detail::checked_layers("aux layer id", layer_ids, 0, num_hidden_layers, conventions.layer_ids)) {
    taps.push_back({detail::stream_tap(conventions.aux_stream), layer});
  }
  return taps;
}

/// The context of block drafts: the embedding (-1 counted as after_layer_0), the last layer's post-norm state, and the
/// conventions' stream after any other layer.
/// \throws Error on ids that are neither the embedding nor a layer's, and on one given twice
template <Slot OfDraft = Slot::anchor_plus_k>
std::vector<Tap> block_taps(std::span<const index_t> layer_ids, index_t num_hidden_layers,
                            const BlockConventions<OfDraft>& conventions = {}) {
  std::vector<Tap> taps;
  for (const index_t layer :
       detail::checked_layers("target layer id", layer_ids, -1, num_hidden_layers, conventions.layer_ids)) {
    if (layer == -1) {
      taps.push_back({Tap::What::embedding});
    } else if (layer == num_hidden_layers - 1) {
      taps.push_back({Tap::What::post_norm});
    } else {
      taps.push_back({detail::stream_tap(conventions.aux_stream), layer});
    }
  }
  return taps;
}

}  // namespace K3SPEC_NAMESPACE
