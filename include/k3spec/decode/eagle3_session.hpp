#pragma once
/// \file
/// Sequences on their way through an EAGLE-3 draft: keys and values of verified positions are appended, never computed
/// again; a chain of drafted tokens hangs on the last of them. Positions of all sequences are appended together, and
/// step k of all chains is one pass, with attention over each one's own cache.
///
/// Position t of the draft reads the target's states at t and the token at t + 1, and predicts the token at t + 2.
/// defines: Eagle3Session

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <k3spec/core/require_shape.hpp>
#include <k3spec/decode/adaptive_length.hpp>
#include <k3spec/decode/draft_session.hpp>
#include <k3spec/decode/eagle3_lists.hpp>
#include <k3spec/decode/eagle3_memory.hpp>
#include <k3spec/decode/sampling.hpp>
#include <k3spec/decode/token_confidences.hpp>
#include <k3spec/io/draft_vocabulary.hpp>
#include <k3spec/layers/prepacked.hpp>
#include <k3spec/ops/chain_attention.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/ops/move_rows.hpp>

namespace K3SPEC_NAMESPACE {

/// Texts on their way through an EAGLE-3 draft, see DraftSession.
template <class Draft, Element T, Device D = Cpu>
class Eagle3Session {
  using E = element_t<D, T>;
  using Memory = Eagle3Memory<Draft, E>;
  using Lists = Eagle3Lists<D>;
  using Step = typename Memory::Step;
  using Confidences = TokenConfidences<D, accumulate_t<T>>;

 public:
  using value_type = T;
  using S = accumulate_t<E>;
  static constexpr index_t states = Draft::aux_width, target_hidden = Draft::aux_size, vocabulary = Draft::vocabulary;
  static constexpr index_t max_chain = Draft::max_steps;

  using Conventions = Eagle3Conventions;
  /// Of a draft whose file does not say for how many steps it was trained.
  static constexpr index_t usual_chain = 5;
  static index_t default_chain(const Conventions& conventions) {
    return std::min(conventions.ttt_steps.value_or(usual_chain), max_chain);
  }
  /// A trained draft, with its vocabulary.
  struct Source {
    /// The host's. They must outlive a session on the host, which views their vectors and embedding.
    typename Draft::template Weights<const T> weights;
    /// [draft vocabulary] the target's id of each draft token
    std::vector<index_t> to_target;
  };

  /// The target's states that the draft reads.
  /// \throws Error on another number of layers than the draft reads, or ids that are no layer's
  static std::vector<Tap> taps(std::span<const index_t> layers, index_t num_hidden_layers,
                               const Conventions& conventions) {
    require_layers("aux layers", layers, Draft::num_aux);
    return eagle3_taps(layers, num_hidden_layers, conventions);
  }

  /// Bytes that a session of a chain up to max_chain holds beside its weights.
  static std::size_t bytes(const SessionSize& size) {
    require_size(size, max_chain, false);
    return memory_bytes(size) + Lists::bytes(size) + TokenChoices<D>::bytes(size.sequences) +
           Confidences::bytes(confident(size));
  }

  /// A session without a text.
  /// \throws Error on another number of draft tokens, ids that are no token's or given twice, or a chain longer than
  ///         max_chain
  template <class Target>
  Eagle3Session(const Target&, Source source, const SessionSize& size, const D& device = D{})
      : weights_(device, source.weights),
        to_target_(std::move(source.to_target)),
        size_(require_size(size, max_chain, false)),
        lengths_(static_cast<std::size_t>(size.sequences)),
        drafted_(lengths_.size()),
        limits_(lengths_.size()),
        order_(lengths_.size()),
        tokens_(static_cast<std::size_t>(size.sequences * size.chain)),
        arena_(device, memory_bytes(size_)),
        m_(Memory::allocate(arena_, size_)),
        lists_(device, size_),
        choices_(device, size.sequences),
        confidences_(device, confident(size)) {
    if (static_cast<index_t>(to_target_.size()) != Draft::draft_vocabulary) {
      throw Error("draft vocabulary", std::to_string(to_target_.size()), std::to_string(Draft::draft_vocabulary));
    }
    // Range and repetition are the vocabulary's to refuse.
    (void)DraftVocabulary(to_target_, vocabulary);
    if (!size_.sampled) return;
    zero(device, m_.spread);
    columns_ = buffer_t<D, index_t>(device, Draft::draft_vocabulary);
    upload(device, Vector<const index_t>(to_target_.data(), Draft::draft_vocabulary), columns());
  }

  // ---- Each throws Error on a sequence that is not there

  void reset(index_t sequence = 0) { lengths_[checked(sequence)] = 0; }
  index_t length(index_t sequence = 0) const { return lengths_[checked(sequence)]; }

  /// Appends n = 1 … rows verified positions, counts[b] of sequence b: aux [n, A] packed, the target's states there;
  /// ids [n] the tokens one position later. \throws Error on other shapes, when a cache is full, or for an id outside
  /// the vocabulary
  void append(const D& device, const Matrix<const E>& aux, std::span<const index_t> ids,
              std::span<const index_t> counts) {
    require_append(aux, ids, counts, states, vocabulary, lengths_, size_);
    const auto n = static_cast<index_t>(ids.size());
    const index_t tips = lists_.append(device, ids, counts, lengths_);
    typename Draft::template Activations<E> acts{};
    acts.fc = m_.fc.rows(0, n);
    if constexpr (Draft::config::fc_norm) acts.aux_normed = m_.aux_normed.rows(0, n);
    Draft::template project_hidden_states<E>(device, weights_.weights(), Rows<const E, Draft::aux_width>(aux.data(), n),
                                             acts);
    Step s = m_.first.rows(0, n);
    const auto& lists = lists_.appended();
    s.ids = lists.ids.device.rows(0, n);
    Draft::template before_attention<E>(device, weights_.weights(), s, acts.fc, positions_of(lists.positions));
    move_rows(device, lists.places, n, s.attention.kv, m_.kv);
    move_rows(device, lists.places, n, s.attention.k_rope(), m_.k_rope);
    move_tips(device, lists.tips, tips, {s, acts.fc}, {m_.tips, m_.tip_hidden});
    for (index_t b = 0; b < size_.sequences; ++b) lengths_[at(b)] += counts[at(b)];
  }
  /// The same of one sequence.
  void append(const D& device, const Matrix<const E>& aux, std::span<const index_t> ids) {
    const auto n = static_cast<index_t>(ids.size());
    append(device, aux, ids, std::span(&n, 1));
  }

  /// A chain of counts[b] tokens, 0 to the planned chain, behind the last appended position of sequence b; fewer where
  /// logits have no finite largest one, or more do not pay.
  /// \param lengths  which of them pay; none: all
  /// \throws Error when nothing was appended or the chain, the sampling or the lengths were not planned for
  void draft(const D& device, std::span<const index_t> counts, std::span<const Sampling> samplings,
             AdaptiveLength* lengths = nullptr) {
    require_draft(counts, samplings, lengths_, size_, lengths != nullptr);
    std::fill(drafted_.begin(), drafted_.end(), 0);
    std::copy(counts.begin(), counts.end(), limits_.begin());
    if (lengths != nullptr) end_chains(*lengths, 0);
    index_t n = order_chains();
    Rows<const E, Draft::hidden> in = m_.chain_hidden;
    for (index_t k = 0; n > 0; ++k) {
      Step s = m_.steps[at(k)].rows(0, n);
      in = in.rows(0, n);
      lists_.step(device, std::span(order_).first(at(n)), lengths_, tokens_, k);
      const auto& lists = lists_.chains();
      if (k == 0) {
        move_tips(device, lists.tips, n, {m_.tips, m_.tip_hidden}, {s, m_.chain_hidden});
      } else {
        s.ids = lists.ids.device.rows(0, n);
        Draft::template before_attention<E>(device, weights_.weights(), s, in,
                                            positions_of(lists.positions).shifted(k));
      }
      attend(device, s, k);
      Draft::template after_attention<E>(device, weights_.weights(), s, in);
      choose(device, s, samplings, k, lengths);
      if (lengths != nullptr) end_chains(*lengths, k + 1);
      in = s.out;
      // Longest chains first: those that go on stand where they stood.
      while (n > 0 && limits_[at(order_[at(n - 1)])] <= k + 1) --n;
    }
  }
  Proposal<S> proposal(index_t sequence) const {
    const index_t first = sequence * size_.chain, n = drafted_[checked(sequence)];
    const std::span<const index_t> drafted{tokens_.data() + first, at(n)};
    return {drafted, size_.sampled ? m_.spread.rows(first, n).matrix() : Matrix<const S>{}};
  }
  /// The same of one sequence.
  Proposal<S> draft(const D& device, index_t count, const Sampling& sampling) {
    draft(device, std::span(&count, 1), std::span(&sampling, 1));
    return proposal(0);
  }

 private:
  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  std::size_t checked(index_t sequence) const {
    require_index("draft: sequence", sequence, size_.sequences);
    return at(sequence);
  }

  /// Rows of logits whose confidences are wanted.
  static index_t confident(const SessionSize& size) { return size.adaptive ? size.sequences : 0; }
  static std::size_t memory_bytes(const SessionSize& size) {
    return plan_bytes([&](ArenaPlan& a) { Memory::allocate(a, size); });
  }
  Vector<element_t<D, index_t>> columns() { return Vector<element_t<D, index_t>>(columns_.data(), columns_.size()); }
  static RotaryPositions positions_of(const Mirrored<D, index_t>& positions) { return {bare(positions.device.data())}; }

  /// What a chain's first step needs of a position: everything before its attention but keys, which are in the cache.
  struct Tips {
    const Step& step;
    Rows<E, Draft::hidden> hidden;
  };
  static void move_tips(const D& device, const Mirrored<D, RowMove>& moves, index_t n, const Tips& from,
                        const Tips& to) {
    move_rows(device, moves, n, from.step.fused, to.step.fused);
    move_rows(device, moves, n, from.step.attention.q, to.step.attention.q);
    move_rows(device, moves, n, from.hidden, to.hidden);
  }

  /// Sets order_. \returns how many sequences draft
  index_t order_chains() {
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [&](index_t a, index_t b) {
      return limits_[at(a)] != limits_[at(b)] ? limits_[at(a)] > limits_[at(b)] : a < b;
    });
    const auto idle = [&](index_t b) { return limits_[at(b)] == 0; };
    return std::find_if(order_.begin(), order_.end(), idle) - order_.begin();
  }

  void attend(const D& device, const Step& s, index_t k) const {
    const index_t n = s.fused.extent(0);
    AttentionSteps<const E> steps;
    for (index_t j = 1; j <= k; ++j) steps.add(m_.steps[at(j)].rows(0, n).keys());
    const auto& cached = lists_.chains().cached;
    using Heads = typename Draft::Heads;
    chain_attention(device,
                    ChainAttention<Heads, E>{s.attention.q.matrix(),
                                             cached.device.rows(0, n),
                                             {m_.kv.matrix(), m_.k_rope.matrix()},
                                             steps,
                                             Draft::Scale::template of<accumulate_t<T>>(Heads::qk)},
                    cached.host.rows(0, n), s.attended());
  }

  /// Ends chains of k tokens for which one more step does not pay.
  void end_chains(const AdaptiveLength& lengths, index_t k) {
    for (index_t b = 0; b < size_.sequences; ++b) {
      if (limits_[at(b)] > k && (drafted_[at(b)] < k || !lengths.goes_on(b))) limits_[at(b)] = drafted_[at(b)];
    }
  }
  /// Ends chains of k tokens whose next one is not worth being verified. \param n  rows of logits
  void end_unsure(const D& device, index_t n, index_t k, AdaptiveLength& lengths) {
    const auto confidences = confidences_.of(device, m_.logits.rows(0, n).matrix());
    for (index_t i = 0; i < n; ++i) {
      index_t& limit = limits_[at(order_[at(i)])];
      if (limit > k && !lengths.verifies(order_[at(i)], static_cast<double>(confidences[at(i)]))) limit = k;
    }
  }

  /// Token k of the chains, as the target's ids.
  void choose(const D& device, const Step& s, std::span<const Sampling> samplings, index_t k, AdaptiveLength* lengths) {
    const index_t n = s.out.extent(0);
    Draft::head_input(device, weights_.weights(), s.out, m_.head_in.rows(0, n));
    Draft::compute_logits(device, weights_.weights(), m_.head_in.rows(0, n), m_.logits.rows(0, n));
    if (lengths != nullptr) end_unsure(device, n, k, *lengths);
    const auto goes_on = [&](index_t b) { return drafted_[at(b)] == k && limits_[at(b)] > k; };
    choices_.clear();
    for (index_t i = 0; i < n; ++i) {
      const index_t b = order_[at(i)], first = length(b) + 1;
      if (goes_on(b)) choices_.add({i, samplings[at(b)], Decision::draft, first + k, first});
    }
    auto token = choices_.choose(device, m_.logits.rows(0, n).matrix()).begin();
    index_t drawn = 0;
    for (index_t i = 0; i < n; ++i) {
      const index_t b = order_[at(i)], place = b * size_.chain + k;
      const index_t chosen = goes_on(b) ? *token++ : -1;
      tokens_[at(place)] = chosen < 0 ? 0 : to_target_[at(chosen)];
      if (chosen < 0) {
        // What goes on beside it must not meet numbers that are none.
        zero(device, s.out.rows(i, 1));
        continue;
      }
      if (!samplings[at(b)].is_greedy()) lists_.drafted().host(drawn++) = {i, place};
      drafted_[at(b)] = k + 1;
    }
    keep_weights(device, drawn);
  }

  /// Weights of drawn tokens over the target's ids. What the draft cannot say stays 0.
  void keep_weights(const D& device, index_t drawn) {
    if (drawn == 0) return;
    lists_.upload_drafted(device);
    spread_rows(device, lists_.drafted(), drawn, columns(), m_.logits, m_.spread);
  }

  PrepackedModel<Draft, T, D> weights_;
  std::vector<index_t> to_target_;
  SessionSize size_;
  std::vector<index_t> lengths_, drafted_;  // of each sequence
  std::vector<index_t> limits_;             // of each sequence: how far its chain goes
  std::vector<index_t> order_;              // the sequences that draft, longest chains first
  std::vector<index_t> tokens_;             // [sequences · chain]
  arena_t<D> arena_;
  Memory m_;
  Lists lists_;
  TokenChoices<D> choices_;
  Confidences confidences_;
  buffer_t<D, index_t> columns_;  // to_target_, where tokens are drawn
};

}  // namespace K3SPEC_NAMESPACE
