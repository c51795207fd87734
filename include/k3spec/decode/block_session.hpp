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
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <k3spec/config/check.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/decode/block_memory.hpp>
#include <k3spec/decode/draft_session.hpp>
#include <k3spec/layers/prepacked.hpp>
#include <k3spec/target/absorbed_attention.hpp>

namespace K3SPEC_NAMESPACE {

/// Texts on their way through a block draft, see DraftSession.
/// \tparam Draft  DFlashDraft<Config> or DSparkDraft<Config>
template <class Draft, Element T>
class BlockSession {
  using Config = typename Draft::config;
  using Backbone = typename Draft::Backbone;
  using Attention = typename Backbone::Attention;
  using Absorbed = AbsorbedAttention<Config, T>;
  using Heads = BlockHeads<Draft, T>;
  using Memory = BlockMemory<Draft, T>;
  using Block = BlockDraftScratch<Draft, T>;

 public:
  using value_type = T;
  using S = accumulate_t<T>;
  static constexpr index_t states = Draft::target_width, target_hidden = Config::target_hidden_size;
  static constexpr index_t vocabulary = Draft::vocabulary;
  static constexpr index_t max_chain = 256;

  using Conventions = typename DraftForm<Draft::kind>::Conventions;
  static index_t default_chain(const Conventions&) { return Draft::block_size - Heads::first_slot; }
  /// A trained draft.
  struct Source {
    /// Must outlive the session, which views their vectors and tables.
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
    return plan_bytes([&](ArenaPlan& a) {
      Memory::allocate(a, size);
      Block::allocate(a, size.sequences, size.chain, size.sequences * slots(size.chain));
    });
  }

  /// A session without a text.
  /// \param target  whose embedding and head DFlash uses; must outlive the session
  /// \throws Error on a mask token that is none, a chain longer than max_chain, and a min_confidence without a
  ///         confidence head
  template <class Target>
  BlockSession(const Target& target, const Source& source, const SessionSize& size)
      : mask_(check_mask_token<Config>()),
        size_(require_size(size, max_chain, Heads::has_confidence)),
        weights_(prepack_weights<Draft, T>(source.weights)),
        heads_(target, weights_),
        sequences_(static_cast<std::size_t>(size.sequences)),
        lengths_(sequences_.size()),
        active_(sequences_.size()) {
    for (const auto& layer : Draft::backbone(source.weights).layers) {
      absorbed_.emplace_back(layer.self_attn.kv_b_proj.weight.matrix());
    }
    arena_ = Arena(bytes(size_));
    m_ = Memory::allocate(arena_, size_);
  }

  // ---- Each throws Error on a sequence that is not there

  void reset(index_t sequence = 0) { lengths_[checked(sequence)] = 0; }
  /// Positions of a context.
  index_t length(index_t sequence = 0) const { return lengths_[checked(sequence)]; }

  /// Appends n = 1 … rows verified positions, counts[b] of sequence b: their target states [n, states], packed; ids [n]
  /// the tokens one position later, the last of which are the new anchors.
  /// \throws Error on other shapes, when a cache is full, or for an id outside the vocabulary
  void append(const Cpu& cpu, const Matrix<const T>& target_states, std::span<const index_t> ids,
              std::span<const index_t> counts) {
    const auto n = static_cast<index_t>(ids.size());
    require_append(target_states, ids, counts, states, vocabulary, lengths_, size_);
    const auto& w = Draft::backbone(weights_);
    const auto context = m_.context.rows(0, n);
    Backbone::template project_context<T>(cpu, w, Rows<const T, states>(target_states.data(), n), m_.fc.rows(0, n),
                                          context);
    typename Attention::template Keys<T> keys;
    keys.kv_a = m_.kv_a.rows(0, n), keys.kv_latent = m_.kv_latent.rows(0, n);
    for (std::size_t i = 0; i < m_.cache.size(); ++i) {
      Attention::template project_latents<T>(cpu, w.layers[i].self_attn, context, keys);
      index_t row = 0;
      for (index_t b = 0; b < size_.sequences; ++b) {
        const index_t m = counts[at(b)];
        if (m == 0) continue;
        remember(cpu, keys.kv_latent.rows(row, m), keys.k_rope().rows(row, m), of(i, b).rows(length(b), m));
        row += m;
      }
    }
    index_t row = 0;
    for (index_t b = 0; b < size_.sequences; ++b) {
      if (counts[at(b)] == 0) continue;
      row += counts[at(b)], lengths_[at(b)] += counts[at(b)];
      sequences_[at(b)].anchor = ids[at(row - 1)];
    }
  }
  /// The same of one sequence.
  void append(const Cpu& cpu, const Matrix<const T>& target_states, std::span<const index_t> ids) {
    const auto n = static_cast<index_t>(ids.size());
    append(cpu, target_states, ids, std::span(&n, 1));
  }

  /// Of each sequence a block of at most counts[b] tokens, 0 to the planned chain, behind the anchor: fewer where the
  /// product of the draft's confidences falls below min_confidence, or logits have no finite largest one.
  /// \throws Error when nothing was appended or the chain or the sampling was not planned for
  void draft(const Cpu& cpu, std::span<const index_t> counts, std::span<const Sampling> samplings) {
    require_draft(counts, samplings, lengths_, size_);
    index_t n = 0, rows = 0, most = 0;
    for (index_t b = 0; b < size_.sequences; ++b) {
      Sequence& s = sequences_[at(b)];
      s.count = counts[at(b)], s.drafted = 0, s.reach = 1;
      s.goes_on = s.count > 0;
      if (s.count == 0) continue;
      s.block = n, s.row = rows;
      active_[at(n++)] = b;
      rows += slots(s.count), most = std::max(most, s.count);
    }
    most_ = most;
    if (n == 0) return;
    Scope scope(arena_);
    const Block block = Block::allocate(arena_, n, most, rows);
    run_layers(cpu, n, block);
    heads_.begin(cpu, weights_, block.hidden, most, m_.logits.rows(0, n * most).matrix(), block.heads);
    for (index_t k = 0; k < most && draft_slots(cpu, n, k, samplings, block); ++k) {
    }
  }
  Proposal<S> proposal(index_t sequence) const {
    const Sequence& s = sequences_[checked(sequence)];
    const index_t first = s.block * most_;
    const std::span<const index_t> drafted{m_.tokens.data() + first, at(s.drafted)};
    return {drafted, m_.logits.rows(first, s.drafted).matrix()};
  }
  /// The same of one sequence.
  Proposal<S> draft(const Cpu& cpu, index_t count, const Sampling& sampling) {
    draft(cpu, std::span(&count, 1), std::span(&sampling, 1));
    return proposal(0);
  }

 private:
  static constexpr index_t latent = Absorbed::latent;
  static constexpr index_t slots(index_t count) { return Memory::slots(count); }
  static constexpr index_t window = Config::sliding_window.value_or(std::numeric_limits<index_t>::max());

  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  std::size_t checked(index_t sequence) const {
    require_index("draft: sequence", sequence, size_.sequences);
    return at(sequence);
  }

  struct Sequence {
    index_t anchor = 0;
    // Of the last call of draft: tokens asked for and drafted, the place among the blocks, the block's first row.
    index_t count = 0, drafted = 0, block = 0, row = 0;
    double reach = 1;  ///< the chance that all that is drafted stays, as far as the draft says
    bool goes_on = false;
  };

  /// A sequence's cache in layer i.
  Rows<T, latent> of(std::size_t i, index_t sequence) const {
    const index_t n = Memory::positions(size_);
    return m_.cache[i].rows(sequence * n, n);
  }
  template <AnyView L, AnyView R>
  static void remember(const Cpu& cpu, const L& kv_latent, const R& k_rope, const Rows<T, latent>& to) {
    evaluate(cpu, expr::arg<0>, to.template columns<0, Absorbed::kv_lora>(), kv_latent);
    evaluate(cpu, expr::arg<0>, to.template columns<Absorbed::kv_lora, Absorbed::rope>(), k_rope);
  }

  const Sequence& active(index_t block) const { return sequences_[at(active_[at(block)])]; }

  /// Anchors and masks -> block.hidden
  void run_layers(const Cpu& cpu, index_t n, const Block& block) {
    std::fill_n(block.ids.data(), block.ids.extent(0), mask_);
    for (index_t i = 0; i < n; ++i) block.ids(active(i).row) = active(i).anchor;
    embedding_forward<T>(cpu, block.ids, heads_.embedding(), block.noise);
    Backbone::template forward_noise<T>(
        cpu, Draft::backbone(weights_), block.noise, block.backbone,
        [&](index_t i, const auto& layer) { attend(cpu, static_cast<std::size_t>(i), n, layer.attention, block); });
    std::fill_n(block.hidden.data(), block.hidden.size(), T{});
    const index_t most = block.hidden.extent(0) / n;
    for (index_t i = 0; i < n; ++i) {
      const Sequence& s = active(i);
      evaluate(cpu, expr::arg<0>, block.hidden.rows(i * most, s.count),
               block.backbone.out.rows(s.row + Heads::first_slot, s.count));
    }
  }

  /// The queries of a block see its context and the block, as in training.
  void attend(const Cpu& cpu, std::size_t layer, index_t n, const typename Attention::template Saved<T>& saved,
              const Block& block) const {
    for (index_t i = 0; i < n; ++i) {
      const index_t rows = slots(active(i).count), row = active(i).row, before = length(active_[at(i)]);
      const Rows<T, latent> cache = of(layer, active_[at(i)]);
      remember(cpu, saved.kv_latent.rows(row, rows), saved.k_rope().rows(row, rows), cache.rows(before, rows));
      block.sequences(i) = {cache, row, rows, {before, rows, Config::block_causal, window}};
    }
    absorbed_[layer].forward(cpu, std::span<const LatentSequence<T>>(block.sequences.data(), at(n)), saved.q, saved.o,
                             block.attention);
  }

  /// Token k of the blocks. \returns whether any goes on
  bool draft_slots(const Cpu& cpu, index_t n, index_t k, std::span<const Sampling> samplings, const Block& block) {
    const index_t most = most_;
    for (index_t i = 0; i < n; ++i) {
      const Sequence& s = active(i);
      block.previous(i) = k == 0 || !s.goes_on ? s.anchor : m_.tokens(i * most + k - 1);
    }
    heads_.step(cpu, weights_, most, k, block.previous, block.heads);
    if constexpr (Heads::has_confidence) {
      if (size_.min_confidence > 0 && !stop_unsure(cpu, n, k, block)) return false;
    }
    const Matrix<S> logits(m_.logits.row(k), Extents<dyn, dyn>(n, vocabulary), most * vocabulary);
    heads_.correct(cpu, weights_, most, k, logits, block.heads);
    bool any = false;
    for (index_t i = 0; i < n; ++i) {
      Sequence& s = sequences_[at(active_[at(i)])];
      if (!s.goes_on) continue;
      const index_t first = length(active_[at(i)]) + 1;
      const std::optional<index_t> token =
          samplings[at(active_[at(i)])].choose(cpu, logits.rows(i, 1), Decision::draft, first + k, first);
      if (token) m_.tokens(i * most + k) = *token, s.drafted = k + 1;
      s.goes_on = token.has_value() && s.drafted < s.count;
      any = any || s.goes_on;
    }
    return any;
  }

  /// Ends blocks before token k where the draft is not sure enough of it. \returns whether any goes on
  bool stop_unsure(const Cpu& cpu, index_t n, index_t k, const Block& block) {
    bool any = false;
    const auto logits = heads_.confidence(cpu, weights_, block.hidden, most_, k, block.heads);
    for (index_t i = 0; i < n; ++i) {
      Sequence& s = sequences_[at(active_[at(i)])];
      // The head learns the chance that a token stays given that those before it do.
      s.reach *= 1 / (1 + std::exp(-static_cast<double>(logits(i, 0))));
      s.goes_on = s.goes_on && s.reach >= size_.min_confidence;
      any = any || s.goes_on;
    }
    return any;
  }

  index_t mask_;
  SessionSize size_;
  typename Draft::template Weights<Prepacked<T>> weights_;
  Heads heads_;
  std::vector<Absorbed> absorbed_;
  std::vector<Sequence> sequences_;
  std::vector<index_t> lengths_;
  std::vector<index_t> active_;  // the sequence of each block
  index_t most_ = 0;             // tokens of the longest block
  Arena arena_;
  Memory m_;
};

}  // namespace K3SPEC_NAMESPACE
