#pragma once
/// \file
/// One sequence on its way through a block draft: DFlash or DSpark. Per layer, a cache has the normed latents and
/// k_rope of verified positions, which are appended, never computed again; a block's own noise stands behind them while
/// it is drafted.
///
/// The anchor is the newest token, whose target states are not known yet: the context is all positions before it, and
/// the anchor's position is their number. A block of any length may be drafted, whatever the draft was trained with: no
/// layer knows positions (NoPE).
/// defines: BlockSession

#include <array>
#include <string>
#include <vector>

#include <k3spec/config/check.hpp>
#include <k3spec/decode/block_heads.hpp>
#include <k3spec/decode/draft_session.hpp>
#include <k3spec/layers/packed.hpp>
#include <k3spec/target/absorbed_attention.hpp>

namespace k3spec {

/// \tparam Draft  DFlashDraft<Config> or DSparkDraft<Config>
template <class Draft, Element T>
class BlockSession {
  using Config = typename Draft::config;
  using Backbone = typename Draft::Backbone;
  using Attention = typename Backbone::Attention;
  using Absorbed = AbsorbedAttention<Config, T>;
  using Heads = BlockHeads<Draft, T>;

 public:
  using value_type = T;
  using S = accumulate_t<T>;
  static constexpr index_t states = Draft::target_width, target_hidden = Config::target_hidden_size;
  static constexpr index_t vocabulary = Draft::vocabulary;
  static constexpr index_t max_chain = 256;

  using Conventions = typename DraftForm<Draft::kind>::Conventions;
  static index_t default_chain(const Conventions&) { return Draft::block_size - Heads::first_slot; }
  struct Source {
    /// Must outlive the session, which views their vectors and tables.
    typename Draft::template Weights<const T> weights;
  };

  /// \throws Error on another number of layers than the draft reads, or ids that are neither the embedding nor a
  /// layer's
  static std::vector<Tap> taps(std::span<const index_t> layers, index_t num_hidden_layers,
                               const Conventions& conventions) {
    require_layers("target layers", layers, Config::num_target_layers);
    return block_taps(layers, num_hidden_layers, conventions);
  }

  /// \param target  whose embedding and head DFlash uses; must outlive the session
  /// \throws Error on a mask token that is none, a chain longer than max_chain, and a min_confidence without a
  ///         confidence head
  template <class Target>
  BlockSession(const Target& target, const Source& source, const SessionSize& size)
      : mask_(check_mask_token<Config>()),
        size_(require_size(size, max_chain, Heads::has_confidence)),
        weights_(pack_weights<Draft, T>(source.weights)),
        heads_(target, weights_) {
    for (const auto& layer : Draft::backbone(source.weights).layers) {
      absorbed_.emplace_back(layer.self_attn.kv_b_proj.weight.matrix());
    }
    memory_ = Arena(plan_bytes([&](ArenaPlan& a) { plan(a), Block::allocate(a, slots(size_.chain)); }));
    plan(memory_);
  }

  void reset() { length_ = 0; }
  /// Positions of the context.
  index_t length() const { return length_; }

  /// Appends n = 1 … rows verified positions: their target states [n, states], packed; ids [n] the tokens one position
  /// later, the last of which is the new anchor.
  /// \throws Error on other shapes, when the cache is full, or for an id outside the vocabulary
  void append(const Cpu& cpu, const Matrix<const T>& target_states, std::span<const index_t> ids) {
    const auto n = static_cast<index_t>(ids.size());
    require_append(target_states, ids, states, vocabulary, length_, size_);
    const auto& w = Draft::backbone(weights_);
    const auto context = context_.rows(0, n);
    Backbone::template project_context<T>(cpu, w, Rows<const T, states>(target_states.data(), n), fc_.rows(0, n),
                                          context);
    for (std::size_t i = 0; i < cache_.size(); ++i) {
      const Rows<T, latent> to = cache_[i].rows(length_, n);
      typename Attention::template Keys<T> keys;
      keys.kv_a = kv_a_.rows(0, n), keys.kv_latent = latents(to);
      Attention::template project_latents<T>(cpu, w.layers[i].self_attn, context, keys);
      evaluate(cpu, expr::arg<0>, k_rope(to), keys.k_rope());
    }
    length_ += n;
    anchor_ = ids.back();
  }

  /// A block of at most `count` tokens, 0 to the planned chain, behind the anchor: fewer where the product of the
  /// draft's confidences falls below min_confidence, or logits have no finite largest one.
  /// \throws Error when nothing was appended or the chain or the sampling was not planned for
  Proposal<S> draft(const Cpu& cpu, index_t count, const Sampling& sampling) {
    require_draft(count, sampling, length_, size_);
    index_t drafted = 0;
    if (count > 0) {
      Scope scope(memory_);
      const Block block = Block::allocate(memory_, slots(count));
      run_layers(cpu, block);
      const Rows<const T, Draft::hidden> out = block.backbone.out.rows(Heads::first_slot, count);
      heads_.begin(cpu, weights_, out, logits_.rows(0, count).matrix(), block.heads);
      double reach = 1;
      while (drafted < count && draft_slot(cpu, drafted, out, sampling, block, reach)) ++drafted;
    }
    const std::span<const index_t> tokens{tokens_.data() + 1, static_cast<std::size_t>(drafted)};
    if (sampling.is_greedy()) return {tokens};
    return {tokens, logits_.rows(0, drafted).matrix()};
  }

 private:
  static constexpr index_t latent = Absorbed::latent;
  static constexpr index_t slots(index_t count) { return count + Heads::first_slot; }

  /// What one call of draft works with.
  struct Block {
    typename Backbone::template Activations<T> backbone;
    typename Absorbed::Scratch attention;
    typename Heads::Block heads;
    Vector<index_t> ids;
    Rows<T, Draft::hidden> noise;

    template <Allocator A>
    static constexpr Block allocate(A& a, index_t slots) {
      Block b{Backbone::template Activations<T>::allocate(a, 0, slots),
              Absorbed::Scratch::allocate(a, slots),
              Heads::Block::allocate(a, slots - Heads::first_slot),
              {},
              {}};
      take_rows(a, slots, b.ids), take_rows(a, slots, b.noise);
      return b;
    }
  };

  template <Allocator A>
  void plan(A& a) {
    for (auto& c : cache_) take_rows(a, size_.capacity + slots(size_.chain), c);
    take_rows(a, size_.rows, fc_), take_rows(a, size_.rows, context_), take_rows(a, size_.rows, kv_a_);
    take_rows(a, size_.chain, logits_), take_rows(a, size_.chain + 1, tokens_);
  }

  static auto latents(const Rows<T, latent>& rows) { return rows.template columns<0, Absorbed::kv_lora>(); }
  static auto k_rope(const Rows<T, latent>& rows) { return rows.template columns<Absorbed::kv_lora, Absorbed::rope>(); }

  /// The anchor and masks -> block.backbone.out
  void run_layers(const Cpu& cpu, const Block& block) {
    std::fill_n(block.ids.data(), block.ids.extent(0), mask_);
    block.ids(0) = anchor_;
    embedding_forward<T>(cpu, block.ids, heads_.embedding(), block.noise);
    Backbone::template forward_noise<T>(cpu, Draft::backbone(weights_), block.noise, block.backbone,
                                        [&](index_t i, const auto& layer) {
                                          attend(cpu, static_cast<std::size_t>(i), layer.attention, block.attention);
                                        });
  }

  /// The block's queries see the context and the block, as in training.
  void attend(const Cpu& cpu, std::size_t i, const typename Attention::template Saved<T>& s,
              const typename Absorbed::Scratch& scratch) const {
    const index_t n = s.q.extent(0), keys = length_ + n;
    const Rows<T, latent> cache = cache_[i].rows(0, keys), noise = cache.rows(length_, n);
    evaluate(cpu, expr::arg<0>, latents(noise), s.kv_latent);
    evaluate(cpu, expr::arg<0>, k_rope(noise), s.k_rope());
    const BlockSpan span{1, length_, 1, n};
    const BlockVisibility visible{&length_, nullptr, nullptr, Config::sliding_window, Config::block_causal};
    const auto sees = [&](index_t, index_t offset) {
      const Interval context = visible.context(span, 0, 0, offset);
      return Interval{std::min(context.begin, length_), length_ + visible.noise(span, offset)};
    };
    absorbed_[i].forward(
        cpu, 1, keys, [&](index_t) { return cache; }, sees, s.q, s.o, scratch);
  }

  /// \returns whether token k was drafted
  bool draft_slot(const Cpu& cpu, index_t k, const Rows<const T, Draft::hidden>& out, const Sampling& sampling,
                  const Block& block, double& reach) {
    const auto logits = logits_.rows(k, 1).matrix();
    tokens_(0) = anchor_;
    if (!heads_.finish(cpu, weights_, out, k, tokens_.rows(k, 1), size_.min_confidence, reach, logits, block.heads)) {
      return false;
    }
    const auto token = sampling.choose(cpu, logits, Decision::draft, length_ + 1 + k, length_ + 1);
    if (token) tokens_(k + 1) = *token;
    return token.has_value();
  }

  index_t mask_;
  SessionSize size_;
  typename Draft::template Weights<Packed<T>> weights_;
  Heads heads_;
  std::vector<Absorbed> absorbed_;
  index_t length_ = 0, anchor_ = 0;
  Arena memory_;
  std::array<Rows<T, latent>, static_cast<std::size_t>(Backbone::num_layers)> cache_;
  Rows<T, Draft::hidden> fc_, context_;
  Rows<T, latent> kv_a_;
  Rows<S, vocabulary> logits_;  // and, at a temperature, weights
  Vector<index_t> tokens_;      // the anchor and what was drafted behind it
};

}  // namespace k3spec
