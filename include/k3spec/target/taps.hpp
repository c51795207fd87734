#pragma once
/// \file
/// Which hidden states a draft reads from the target.
/// defines: Tap, eagle3_taps, block_taps

#include <span>
#include <string>
#include <vector>

#include <k3spec/config/conventions.hpp>

namespace k3spec {

/// One hidden state of the target, hidden_size wide.
struct Tap {
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
}  // namespace detail

/// The auxiliary states of EAGLE-3: layer ids counted from 0, each after its layer.
/// \throws Error on ids that are no layer's
inline std::vector<Tap> eagle3_taps(std::span<const index_t> layer_ids, index_t num_hidden_layers,
                                    AuxStream stream = AuxStream::running_sum) {
  std::vector<Tap> taps;
  for (const index_t id : layer_ids) {
    detail::check_layer("aux layer id", id, 0, num_hidden_layers);
    taps.push_back({stream == AuxStream::running_sum ? Tap::What::running_sum : Tap::What::residual_mixture, id});
  }
  return taps;
}

/// The context of block drafts: -1 is the embedding, the last layer the post-norm state.
/// \throws Error on ids that are neither -1 nor a layer's
inline std::vector<Tap> block_taps(std::span<const index_t> layer_ids, index_t num_hidden_layers) {
  std::vector<Tap> taps;
  for (const index_t id : layer_ids) {
    detail::check_layer("target layer id", id, -1, num_hidden_layers);
    if (id == -1) {
      taps.push_back({Tap::What::embedding});
    } else if (id == num_hidden_layers - 1) {
      taps.push_back({Tap::What::post_norm});
    } else {
      taps.push_back({Tap::What::running_sum, id});
    }
  }
  return taps;
}

}  // namespace k3spec
