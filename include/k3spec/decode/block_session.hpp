#pragma once
/// \file
/// Sequences on their way through a block draft: DFlash or DSpark. Per layer and sequence, a cache has the normed
/// latents and k_rope of verified positions, which are appended, never computed again; a block's own noise stands
/// behind them while it is drafted. Blocks of all sequences go through the layers together.
///
/// The anchor is the newest token, whose target states are not known yet: the context is all positions before it, and
/// the anchor's position is their number. A block of any length may be drafted, whatever the draft was trained with: no
/// layer knows positions (NoPE).
/// defines: BlockSession

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <k3spec/config/check.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/scalar_math.hpp>
#include <k3spec/decode/adaptive_length.hpp>
#include <k3spec/decode/block_memory.hpp>
#include <k3spec/decode/drafted_blocks.hpp>
#include <k3spec/decode/drafting_lists.hpp>
#include <k3spec/decode/sampling.hpp>
#include <k3spec/decode/token_confidences.hpp>
#include <k3spec/layers/prepacked.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/ops/move_rows.hpp>

namespace K3SPEC_NAMESPACE {

/// Texts on their way through a block draft, see DraftSession.
/// \tparam Draft  DFlashDraft<Config> or DSparkDraft<Config>
template <class Draft, Element T, Device D = Cpu>
class BlockSession {
  using E = element_t<D, T>;
  using Config = typename Draft::config;
  using Backbone = typename Draft::Backbone;
  using Attention = typename Backbone::Attention;
  using Absorbed = AbsorbedAttention<Config, E>;
  using Heads = BlockHeads<Draft, T, D>;
  using Memory = BlockMemory<Draft, T, D>;
  using Block = BlockDraftScratch<Draft, T, D>;
  using Lists = DraftingLists<D>;
  using Confidences = TokenConfidences<D, accumulate_t<T>>;

 public:
  using value_type = T;
  using S = accumulate_t<E>;
  static constexpr index_t states = Draft::target_width, target_hidden = Config::target_hidden_size;
  static constexpr index_t vocabulary = Draft::vocabulary;
  static constexpr index_t max_chain = 256;

  using Conventions = typename DraftForm<Draft::kind>::Conventions;
  static index_t default_chain(const Conventions&) { return Draft::block_size - Heads::first_slot; }
  /// A trained draft.
  struct Source {
    /// The host's. They must outlive a session on the host, which views their vectors and tables.
    typename Draft::template Weights<const T> weights;
  };

  /// The target's states that the draft reads.
  /// \throws Error on another number of layers than the draft reads, or ids that are neither the embedding nor a
  /// layer's
  static std::vector<Tap> taps(std::span<const index_t> layers, index_t num_hidden_layers,
                               const Conventions& conventions) {
    require_layers("target layers", layers, Config::num_target_layers);
    return block_taps(layers, num_hidden_layers, conventions);
  }

  /// Bytes that a session of a chain up to max_chain holds beside its weights.
  static std::size_t bytes(const SessionSize& size) {
    require_size(size, max_chain, Heads::has_confidence);
    return memory_bytes(size) + Lists::bytes(size, Heads::first_slot) + TokenChoices<D>::bytes(size.sequences) +
           Confidences::bytes(confident(size));
  }

  /// A session without a text.
  /// \param target  whose embedding and head DFlash uses; must outlive the session
  /// \throws Error on a mask token that is none, a chain longer than max_chain, and a min_confidence without a
  ///         confidence head
  template <class Target>
  BlockSession(const Target& target, const Source& source, const SessionSize& size, const D& device = D{})
      : mask_(check_mask_token<Config>()),
        size_(require_size(size, max_chain, Heads::has_confidence)),
        weights_(device, source.weights),
        heads_(target, weights_.weights()),
        lengths_(at(size.sequences)),
        blocks_(size.sequences, size.chain),
        latents_(lengths_.size()),
        head_confidences_(lengths_.size()),
        arena_(device, memory_bytes(size_)),
        m_(Memory::allocate(arena_, size_)),
        lists_(device, size_, Heads::first_slot),
        choices_(device, size.sequences),
        confidences_(device, confident(size)) {
    for (const auto& layer : Draft::backbone(source.weights).layers) {
      absorbed_.emplace_back(device, layer.self_attn.kv_b_proj.weight.matrix());
    }
  }

  // ---- Each throws Error on a sequence that is not there

  void reset(index_t sequence = 0) { lengths_[checked(sequence)] = 0; }
  /// Positions of a context.
  index_t length(index_t sequence = 0) const { return lengths_[checked(sequence)]; }

  /// Appends n = 1 … rows verified positions, counts[b] of sequence b: their target states [n, states], packed; ids [n]
  /// the tokens one position later, the last of which are the new anchors.
  /// \throws Error on other shapes, when a cache is full, or for an id outside the vocabulary
  void append(const D& device, const Matrix<const E>& target_states, std::span<const index_t> ids,
              std::span<const index_t> counts) {
    const auto n = static_cast<index_t>(ids.size());
    require_append(target_states, ids, counts, states, vocabulary, lengths_, size_);
    const auto& places = lists_.append(device, counts, lengths_);
    const auto& w = Draft::backbone(weights_.weights());
    const auto context = m_.context.rows(0, n);
    Backbone::template project_context<E>(device, w, Rows<const E, states>(target_states.data(), n), m_.fc.rows(0, n),
                                          context);
    typename Attention::template Keys<E> keys;
    keys.kv_a = m_.kv_a.rows(0, n), keys.kv_latent = m_.kv_latent.rows(0, n);
    for (std::size_t i = 0; i < m_.cache.size(); ++i) {
      Attention::template project_latents<E>(device, w.layers[i].self_attn, context, keys);
      store_latents(device, places, n, keys, i);
    }
    index_t row = 0;
    for (index_t b = 0; b < size_.sequences; ++b) {
      if (counts[at(b)] == 0) continue;
      row += counts[at(b)], lengths_[at(b)] += counts[at(b)];
      blocks_.of_sequence(b).anchor = ids[at(row - 1)];
    }
  }
  /// The same of one sequence.
  void append(const D& device, const Matrix<const E>& target_states, std::span<const index_t> ids) {
    const auto n = static_cast<index_t>(ids.size());
    append(device, target_states, ids, std::span(&n, 1));
  }

  /// Of each sequence a block of at most counts[b] tokens, 0 to the planned chain, behind the anchor: fewer where the
  /// product of the draft's confidences falls below min_confidence, logits have no finite largest one, or more do not
  /// pay.
  /// \param lengths  which of them pay; none: all
  /// \throws Error when nothing was appended or the chain, the sampling or the lengths were not planned for
  void draft(const D& device, std::span<const index_t> counts, std::span<const Sampling> samplings,
             AdaptiveLength* lengths = nullptr) {
    require_draft(counts, samplings, lengths_, size_, lengths != nullptr);
    blocks_.begin(counts, Heads::first_slot);
    const index_t n = blocks_.size(), most = blocks_.most();
    if (n == 0) return;
    Scope scope(arena_);
    const Block block = Block::allocate(arena_, n, most, blocks_.rows());
    run_layers(device, block);
    heads_.begin(device, weights_.weights(), block.hidden, most, m_.logits.rows(0, n * most).matrix(), block.heads);
    for (index_t k = 0; k < most && draft_slots(device, k, samplings, block, lengths); ++k) {
    }
  }
  Proposal<S> proposal(index_t sequence) const {
    const auto drafted = blocks_.tokens(static_cast<index_t>(checked(sequence)));
    return {drafted, m_.logits.rows(blocks_.first(sequence), static_cast<index_t>(drafted.size())).matrix()};
  }
  /// The same of one sequence.
  Proposal<S> draft(const D& device, index_t count, const Sampling& sampling) {
    draft(device, std::span(&count, 1), std::span(&sampling, 1));
    return proposal(0);
  }

 private:
  static constexpr index_t slots(index_t count) { return Memory::slots(count); }
  static constexpr index_t window = Config::sliding_window.value_or(std::numeric_limits<index_t>::max());

  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  std::size_t checked(index_t sequence) const {
    require_index("draft: sequence", sequence, size_.sequences);
    return at(sequence);
  }

  /// Rows of logits whose confidences are wanted.
  static index_t confident(const SessionSize& size) {
    return size.adaptive && !Heads::has_confidence ? size.sequences : 0;
  }
  static std::size_t memory_bytes(const SessionSize& size) {
    return plan_bytes([&](ArenaPlan& a) {
      Memory::allocate(a, size);
      Block::allocate(a, size.sequences, size.chain, size.sequences * slots(size.chain));
    });
  }
  /// Latents and rotated keys of n rows -> their places in the cache of layer i.
  template <class Keys>
  void store_latents(const D& device, const Mirrored<D, RowMove>& places, index_t n, const Keys& keys,
                     std::size_t i) const {
    const auto& cache = m_.cache[i];
    move_rows(device, places, n, keys.kv_latent, cache.template columns<0, Absorbed::kv_lora>());
    move_rows(device, places, n, keys.k_rope(), cache.template columns<Absorbed::kv_lora, Absorbed::rope>());
  }

  /// Anchors and masks -> block.hidden
  void run_layers(const D& device, const Block& block) {
    for (index_t i = 0; i < blocks_.size(); ++i) {
      const index_t b = blocks_.sequence(i);
      lists_.add_block({b, blocks_[i].anchor, length(b), blocks_[i].count, blocks_[i].row}, i, blocks_.most(), mask_);
    }
    const auto& slots = lists_.upload_slots(device);
    const index_t rows = blocks_.rows();
    embedding_forward<E>(device, slots.ids.device.rows(0, rows), heads_.embedding(), block.noise);
    Backbone::template forward_noise<E>(
        device, Draft::backbone(weights_.weights()), block.noise, block.backbone,
        [&](index_t i, const auto& layer) { attend(device, static_cast<std::size_t>(i), layer.attention, block); });
    zero(device, block.hidden);
    move_rows(device, slots.predicting, rows - blocks_.size() * Heads::first_slot, block.backbone.out, block.hidden);
  }

  /// The queries of a block see its context and the block, as in training.
  void attend(const D& device, std::size_t layer, const typename Attention::template Saved<E>& saved,
              const Block& block) {
    store_latents(device, lists_.slots().noise, blocks_.rows(), saved, layer);
    const index_t n = blocks_.size(), positions = Memory::positions(size_);
    for (index_t i = 0; i < n; ++i) {
      const index_t b = blocks_.sequence(i), rows = slots(blocks_[i].count);
      latents_[at(i)] = {m_.cache[layer].rows(lists_.place(b, 0), positions).matrix(),
                         blocks_[i].row,
                         rows,
                         {length(b), rows, Config::block_causal, window}};
    }
    absorbed_[layer].forward(device, std::span<const LatentSequence<E>>(latents_).first(at(n)), saved.q, saved.o,
                             block.attention);
  }

  /// Token k of the blocks. \returns whether any goes on
  bool draft_slots(const D& device, index_t k, std::span<const Sampling> samplings, const Block& block,
                   AdaptiveLength* lengths) {
    const index_t n = blocks_.size(), most = blocks_.most();
    for (index_t i = 0; i < n; ++i) lists_.previous().host(i) = blocks_.before(i, k);
    lists_.upload_previous(device);
    heads_.step(device, weights_.weights(), most, k, lists_.previous().device.rows(0, n), block.heads);
    if constexpr (Heads::has_confidence) {
      const bool asked = size_.min_confidence > 0 || lengths != nullptr;
      if (asked && !stop_unsure(device, k, block, lengths)) return false;
    }
    const Matrix<S> logits(m_.logits.row(k), Extents<dyn, dyn>(n, vocabulary), most * vocabulary);
    heads_.correct(device, weights_.weights(), most, k, logits, block.heads);
    if constexpr (!Heads::has_confidence) {
      if (lengths != nullptr && !stop_not_worth(device, logits, *lengths)) return false;
    }
    choices_.clear();
    for (index_t i = 0; i < n; ++i) {
      const index_t b = blocks_.sequence(i), first = length(b) + 1;
      if (blocks_[i].goes_on) choices_.add({i, samplings[at(b)], Decision::draft, first + k, first});
    }
    blocks_.keep(k, choices_.choose(device, logits));
    return blocks_.any_goes_on();
  }

  /// Ends blocks before token k where the draft is not sure enough of it, by its head. \returns whether any goes on
  bool stop_unsure(const D& device, index_t k, const Block& block, AdaptiveLength* lengths) {
    const auto logits = heads_.confidence(device, weights_.weights(), block.hidden, blocks_.most(), k, block.heads);
    const index_t n = blocks_.size();
    download(device, Vector<const S>(logits.data(), n), Vector<value_t<S>>(head_confidences_.data(), n));
    for (index_t i = 0; i < n; ++i) {
      auto& b = blocks_[i];
      // The head gives the chance that a token stays given that those before it do.
      const double confidence = sigmoid(static_cast<double>(head_confidences_[at(i)]));
      b.reach *= confidence;
      b.goes_on = b.goes_on && b.reach >= size_.min_confidence &&
                  (lengths == nullptr || lengths->verifies(blocks_.sequence(i), confidence));
    }
    return blocks_.any_goes_on();
  }
  /// Ends blocks whose next token, of these logits [blocks, V], is not worth being verified. \returns as above
  bool stop_not_worth(const D& device, const Matrix<S>& logits, AdaptiveLength& lengths) {
    const auto confidences = confidences_.of(device, logits);
    for (index_t i = 0; i < blocks_.size(); ++i) {
      auto& b = blocks_[i];
      b.goes_on = b.goes_on && lengths.verifies(blocks_.sequence(i), static_cast<double>(confidences[at(i)]));
    }
    return blocks_.any_goes_on();
  }

  index_t mask_;
  SessionSize size_;
  PrepackedModel<Draft, T, D> weights_;
  Heads heads_;
  std::vector<Absorbed> absorbed_;
  std::vector<index_t> lengths_;  // of each context
  DraftedBlocks blocks_;
  std::vector<LatentSequence<E>> latents_;    // of each block
  std::vector<value_t<S>> head_confidences_;  // of each block
  arena_t<D> arena_;
  Memory m_;
  Lists lists_;
  TokenChoices<D> choices_;
  Confidences confidences_;
};

}  // namespace K3SPEC_NAMESPACE
