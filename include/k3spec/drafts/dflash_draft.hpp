#pragma once
/// \file
/// DFlash draft: predicts a whole block at once; slot k of a block predicts the token at anchor + k.
/// It owns neither embedding nor head: the frozen target's are used where they lie.
/// defines: DFlashDraft

#include <k3spec/config/complete.hpp>
#include <k3spec/config/draft_kind.hpp>
#include <k3spec/drafts/block_backbone.hpp>

namespace K3SPEC_NAMESPACE {

/// The DFlash draft: a block backbone that reads the target's embedding and head.
template <ForDFlash Given>
struct DFlashDraft {
  using Config = complete_dflash_t<Given>;
  using config = Config;
  static_assert(Config::hidden_size == Config::target_hidden_size,
                "DFlashDraft: hidden_size must be target_hidden_size: embedding and head are the target's");
  static constexpr DraftKind kind = DraftKind::dflash;
  using Backbone = BlockBackbone<Config>;
  static constexpr index_t hidden = Backbone::hidden, block_size = Backbone::block_size;
  static constexpr index_t target_width = Backbone::target_width;
  /// The target's tokens, all of which the draft can say.
  static constexpr index_t vocabulary = Config::vocab_size, draft_vocabulary = vocabulary;

  template <class T>
  using Weights = typename Backbone::template Weights<T>;

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Backbone::visit(w, at, v);
  }

  /// The backbone's part of the weights, which is all of them.
  template <class W>
  static constexpr const W& backbone(const W& w) {
    return w;
  }
};

}  // namespace K3SPEC_NAMESPACE
