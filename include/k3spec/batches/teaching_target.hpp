#pragma once
/// \file
/// The target that a draft learns from: frozen, or what it left in a cache; and the host's tables of it that drafts
/// begin with.
/// defines: TeachingTarget

#include <optional>
#include <utility>

#include <k3spec/batches/stored_features.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/core/target_device.hpp>
#include <k3spec/target/forward.hpp>

namespace K3SPEC_NAMESPACE {

/// Owns a target, or a cache of what one said. Of a target made of weights that are still to be read, only embedding
/// and head are numbers in the host's memory besides.
template <ForTarget Given, Element T, Device D = Cpu>
class TeachingTarget {
  using Config = complete_target_t<Given>;
  using Model = K3Target<Given>;
  using Table = View<const T, Config::vocab_size, Config::hidden_size>;
  using HeldTable = Held<Cpu, T, Config::vocab_size, Config::hidden_size>;

 public:
  using Stored = StoredFeatures<Given, T>;
  /// The host's, [vocabulary, hidden] each.
  struct Tables {
    Table embed_tokens, lm_head;
  };

  TeachingTarget(const D& device, Parameters<Model, T> parameters)
      : parameters_(std::move(parameters)),
        frozen_(std::in_place, device, parameters_->weights()),
        embed_tokens_(on_host(parameters_->weights().embed_tokens)),
        lm_head_(on_host(parameters_->weights().lm_head)) {}
  TeachingTarget(const D& device, const typename Model::template Weights<Unread<T>>& weights)
      : frozen_(std::in_place, device, weights),
        embed_tokens_(embedding(weights)),
        lm_head_(on_host(weights.lm_head)) {}
  /// No target runs.
  TeachingTarget(const D&, const Stored& stored)
      : stored_(stored),
        embed_tokens_(on_host(stored.tables().embed_tokens)),
        lm_head_(on_host(stored.tables().lm_head)) {}

  /// The cache that is there instead of a target; none: a target runs.
  const std::optional<Stored>& stored() const { return stored_; }
  /// The target, which there is where there is no cache.
  const FrozenTarget<Given, T, D>& frozen() const { return *frozen_; }
  Tables tables() const { return {embed_tokens_.view(), lm_head_.view()}; }

 private:
  HeldTable embedding(const typename Model::template Weights<Unread<T>>& weights) const {
    if constexpr (shares_memory<D>) {
      return on_host(Table(frozen_->embedding().data()));
    } else {
      return on_host(weights.embed_tokens);
    }
  }

  std::optional<Parameters<Model, T>> parameters_;  // that the others view, if it was made of such
  std::optional<FrozenTarget<Given, T, D>> frozen_;
  std::optional<Stored> stored_;
  HeldTable embed_tokens_, lm_head_;
};

}  // namespace K3SPEC_NAMESPACE
