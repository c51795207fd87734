#pragma once
/// \file
/// DSpark draft: predicts a block at once, corrects each slot's logits by the token before it (Markov head) and says
/// how likely each slot is to be accepted (confidence head). Slot k of a block predicts the token at anchor + k + 1. It
/// owns embedding and head, which begin as copies of the target's and are frozen unless asked.
/// defines: DSparkDraft

#include <type_traits>

#include <k3spec/config/complete.hpp>
#include <k3spec/config/draft_kind.hpp>
#include <k3spec/drafts/block_backbone.hpp>
#include <k3spec/layers/confidence_head.hpp>
#include <k3spec/layers/markov_head.hpp>

namespace K3SPEC_NAMESPACE {

/// The DSpark draft: a block backbone with embedding, head, Markov head and confidence head of its own.
template <ForDSpark Given>
struct DSparkDraft : CheckedDSpark<Given> {
  using Config = complete_dspark_t<Given>;
  using config = Config;
  static_assert(
      Config::hidden_size == Config::target_hidden_size || Config::train_embeddings,
      "DSparkDraft: hidden_size must be target_hidden_size, or train_embeddings true: else embedding and head "
      "are the target's");
  static constexpr DraftKind kind = DraftKind::dspark;
  using Backbone = BlockBackbone<Config>;
  static constexpr index_t hidden = Backbone::hidden, block_size = Backbone::block_size;
  static constexpr index_t target_width = Backbone::target_width;
  /// The target's tokens, all of which the draft can say.
  static constexpr index_t vocabulary = Config::vocab_size, draft_vocabulary = vocabulary;
  static constexpr bool has_markov = Config::markov_rank > 0, has_confidence = Config::enable_confidence_head;

  using Head = Linear<hidden, vocabulary>;
  using Markov = MarkovHead<Config>;
  using Confidence = std::conditional_t<has_confidence, ConfidenceHead<Config>, Absent>;

  /// The draft's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    View<stored_t<T>, vocabulary, hidden> embed_tokens;
    typename Head::template Weights<T> lm_head;
    typename Backbone::template Weights<T> backbone;
    typename Markov::template Weights<T> markov_head;
    typename Confidence::template Weights<T> confidence_head;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    if constexpr (Config::train_embeddings) {
      v(at / "embed_tokens" / "weight", w.embed_tokens, Init::normal);
      v(at / "lm_head" / "weight", w.lm_head.weight, Init::normal);
    } else {
      v(at / "embed_tokens" / "weight", w.embed_tokens, Frozen{Init::normal});
      v(at / "lm_head" / "weight", w.lm_head.weight, Frozen{Init::normal});
    }
    Backbone::visit(w.backbone, at, v);
    Markov::visit(w.markov_head, at / "markov_head", v);
    Confidence::visit(w.confidence_head, at / "confidence_head", v);
  }

  /// The backbone's part of the weights.
  template <class W>
  static constexpr const auto& backbone(const W& w) {
    return w.backbone;
  }
};

}  // namespace K3SPEC_NAMESPACE
