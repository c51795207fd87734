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
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/decode/draft_session.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/io/draft_vocabulary.hpp>
#include <k3spec/layers/prepacked.hpp>

namespace K3SPEC_NAMESPACE {

/// Texts on their way through an EAGLE-3 draft, see DraftSession.
template <class Draft, Element T>
class Eagle3Session {
 public:
  using value_type = T;
  using S = accumulate_t<T>;
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
    /// Must outlive the session, which views their vectors and embedding.
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
    return plan_bytes([&](ArenaPlan& a) { Memory::allocate(a, size); });
  }

  /// A session without a text.
  /// \throws Error on another number of draft tokens, ids that are no token's or given twice, or a chain longer than
  ///         max_chain
  template <class Target>
  Eagle3Session(const Target&, Source source, const SessionSize& size)
      : weights_(prepack_weights<Draft, T>(source.weights)),
        to_target_(std::move(source.to_target)),
        size_(require_size(size, max_chain, false)),
        lengths_(static_cast<std::size_t>(size.sequences)),
        drafted_(lengths_.size()),
        order_(lengths_.size()) {
    if (static_cast<index_t>(to_target_.size()) != Draft::draft_vocabulary) {
      throw Error("draft vocabulary", std::to_string(to_target_.size()), std::to_string(Draft::draft_vocabulary));
    }
    // Range and repetition are the vocabulary's to refuse.
    (void)DraftVocabulary(to_target_, vocabulary);
    arena_ = Arena(bytes(size_));
    m_ = Memory::allocate(arena_, size_);
    if (size_.sampled) evaluate(Cpu{1}, expr::as_expression(0.0), m_.spread);
  }

  // ---- Each throws Error on a sequence that is not there

  void reset(index_t sequence = 0) { lengths_[checked(sequence)] = 0; }
  index_t length(index_t sequence = 0) const { return lengths_[checked(sequence)]; }

  /// Appends n = 1 … rows verified positions, counts[b] of sequence b: aux [n, A] packed, the target's states there;
  /// ids [n] the tokens one position later. \throws Error on other shapes, when a cache is full, or for an id outside
  /// the vocabulary
  void append(const Cpu& cpu, const Matrix<const T>& aux, std::span<const index_t> ids,
              std::span<const index_t> counts) {
    require_append(aux, ids, counts, states, vocabulary, lengths_, size_);
    const auto n = static_cast<index_t>(ids.size());
    typename Draft::template Activations<T> acts{};
    acts.fc = m_.fc.rows(0, n);
    if constexpr (Draft::config::fc_norm) acts.aux_normed = m_.aux_normed.rows(0, n);
    Draft::template project_hidden_states<T>(cpu, weights_, Rows<const T, Draft::aux_width>(aux.data(), n), acts);
    const Step s = m_.first.rows(0, n);
    std::copy(ids.begin(), ids.end(), s.ids.data());
    for (index_t b = 0, row = 0; b < size_.sequences; ++b) {
      for (index_t t = 0; t < counts[at(b)]; ++t) m_.positions(row++) = length(b) + t;
    }
    Draft::template before_attention<T>(cpu, weights_, s, acts.fc, RotaryPositions{m_.positions.data()});
    index_t row = 0;
    for (index_t b = 0; b < size_.sequences; ++b) {
      const index_t m = counts[at(b)];
      if (m == 0) continue;
      evaluate(cpu, expr::arg<0>, of(m_.kv, b, length(b), m), s.attention.kv.rows(row, m));
      evaluate(cpu, expr::arg<0>, of(m_.k_rope, b, length(b), m), s.attention.rows(row, m).k_rope());
      row += m, lengths_[at(b)] += m;
      copy_tip(s, acts.fc, row - 1, m_.tips, m_.tip_hidden, b);
    }
  }
  /// The same of one sequence.
  void append(const Cpu& cpu, const Matrix<const T>& aux, std::span<const index_t> ids) {
    const auto n = static_cast<index_t>(ids.size());
    append(cpu, aux, ids, std::span(&n, 1));
  }

  /// A chain of counts[b] tokens, 0 to the planned chain, behind the last appended position of sequence b; fewer where
  /// logits have no finite largest one.
  /// \throws Error when nothing was appended or the chain or the sampling was not planned for
  void draft(const Cpu& cpu, std::span<const index_t> counts, std::span<const Sampling> samplings) {
    require_draft(counts, samplings, lengths_, size_);
    std::fill(drafted_.begin(), drafted_.end(), 0);
    index_t n = begin_chains(counts);
    Rows<const T, Draft::hidden> in = m_.chain_hidden;
    for (index_t k = 0; n > 0; ++k) {
      const Step s = m_.steps[at(k)].rows(0, n);
      in = in.rows(0, n);
      if (k > 0) continue_chains(cpu, s, in, k);
      attend(cpu, n, k);
      Draft::template after_attention<T>(cpu, weights_, s, in);
      choose(cpu, s, samplings, k);
      in = s.out;
      // Longest chains first: those that go on stand where they stood.
      while (n > 0 && counts[at(order_[at(n - 1)])] <= k + 1) --n;
    }
  }
  Proposal<S> proposal(index_t sequence) const {
    const index_t first = sequence * size_.chain, n = drafted_[checked(sequence)];
    const std::span<const index_t> drafted{m_.tokens.data() + first, at(n)};
    return {drafted, size_.sampled ? m_.spread.rows(first, n).matrix() : Matrix<const S>{}};
  }
  /// The same of one sequence.
  Proposal<S> draft(const Cpu& cpu, index_t count, const Sampling& sampling) {
    draft(cpu, std::span(&count, 1), std::span(&sampling, 1));
    return proposal(0);
  }

 private:
  using Step = typename Draft::template Step<T>;
  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  std::size_t checked(index_t sequence) const {
    require_index("draft: sequence", sequence, size_.sequences);
    return at(sequence);
  }

  /// What a session plans for its size.
  struct Memory {
    /// [sequences · capacity]
    Rows<T, Draft::Attention::heads*(Draft::Attention::nope + Draft::Attention::v_dim)> kv;
    Rows<T, Draft::Attention::rope> k_rope;
    Rows<T, Draft::hidden> fc;
    Rows<T, Draft::aux_width> aux_normed;
    Vector<index_t> positions;
    Step first, tips;  ///< of appended positions; of each sequence's last one, as far as copy_tip sets it
    Rows<T, Draft::hidden> tip_hidden, chain_hidden;
    std::array<Step, Draft::max_steps> steps;
    Vector<index_t> tokens;  ///< [sequences · chain]
    Rows<T, Draft::hidden> head_in;
    Rows<S, Draft::draft_vocabulary> logits;  ///< and, at a temperature, weights
    Rows<S, Draft::vocabulary> spread;        ///< [sequences · chain] those of drafted tokens, over the target's ids

    template <Allocator A>
    static Memory allocate(A& a, const SessionSize& size) {
      Memory m{};
      const index_t n = size.sequences;
      take_rows(a, n * size.capacity, m.kv), take_rows(a, n * size.capacity, m.k_rope);
      take_rows(a, size.rows, m.fc), take_rows(a, std::max(size.rows, n), m.positions);
      if constexpr (Draft::config::fc_norm) take_rows(a, size.rows, m.aux_normed);
      m.first = Step::allocate(a, size.rows);
      m.tips = Step::allocate(a, n), take_rows(a, n, m.tip_hidden), take_rows(a, n, m.chain_hidden);
      for (index_t k = 0; k < size.chain; ++k) m.steps[at(k)] = Step::allocate(a, n);
      take_rows(a, n, m.head_in), take_rows(a, n, m.logits), take_rows(a, n * size.chain, m.tokens);
      if (size.sampled) take_rows(a, n * size.chain, m.spread);
      return m;
    }
  };

  /// Rows [begin, begin + n) of a sequence's cache.
  template <index_t C>
  Rows<T, C> of(const Rows<T, C>& caches, index_t sequence, index_t begin, index_t n) const {
    return caches.rows(sequence * size_.capacity + begin, n);
  }

  /// What a chain's first step needs of a position: everything before its attention but keys, which are in the cache.
  static void copy_tip(const Step& from, const Rows<const T, Draft::hidden>& from_hidden, index_t from_row,
                       const Step& to, const Rows<T, Draft::hidden>& to_hidden, index_t to_row) {
    const Step a = from.rows(from_row, 1), b = to.rows(to_row, 1);
    evaluate(Cpu{1}, expr::arg<0>, b.fused, a.fused);
    evaluate(Cpu{1}, expr::arg<0>, b.attention.q, a.attention.q);
    evaluate(Cpu{1}, expr::arg<0>, to_hidden.rows(to_row, 1), from_hidden.rows(from_row, 1));
  }

  /// Sets order_, and step 0 to the tips in that order. \returns how many sequences draft
  index_t begin_chains(std::span<const index_t> counts) {
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(), [&](index_t a, index_t b) {
      return counts[at(a)] != counts[at(b)] ? counts[at(a)] > counts[at(b)] : a < b;
    });
    index_t n = 0;
    for (; n < size_.sequences && counts[at(order_[at(n)])] > 0; ++n) {
      copy_tip(m_.tips, m_.tip_hidden, order_[at(n)], m_.steps[0], m_.chain_hidden, n);
    }
    return n;
  }

  /// From the tokens of step k - 1 to the queries and keys of step k.
  void continue_chains(const Cpu& cpu, const Step& s, const Rows<const T, Draft::hidden>& in, index_t k) {
    for (index_t i = 0; i < s.ids.extent(0); ++i) {
      const index_t b = order_[at(i)];
      s.ids(i) = m_.tokens(b * size_.chain + k - 1);
      m_.positions(i) = length(b) - 1;
    }
    Draft::template before_attention<T>(cpu, weights_, s, in, RotaryPositions{m_.positions.data(), 0, 0, k});
  }

  /// Step k of the first n sequences in order_.
  void attend(const Cpu& cpu, index_t n, index_t k) const {
    index_t keys = 0;
    for (index_t i = 0; i < n; ++i) keys += length(order_[at(i)]);
    const Cpu device = cpu::for_work(cpu, keys * Draft::Attention::heads * (Draft::Heads::qk + Draft::Heads::v));
    parallel_for(n == 1 ? Cpu{1} : device, n, [&](index_t i) {
      const index_t b = order_[at(i)];
      AttentionSteps<const T> all;
      all.add({of(m_.kv, b, 0, length(b)).matrix(), of(m_.k_rope, b, 0, length(b)).matrix()});
      for (index_t j = 1; j <= k; ++j) all.add(m_.steps[at(j)].rows(i, 1).keys());
      const Step s = m_.steps[at(k)].rows(i, 1);
      const auto span = AttentionSpan{1, 1, length(b), length(b) - 1};
      ttt_attention_forward(n == 1 ? cpu : Cpu{1},
                            Draft::template attention_problem<T>(s, span, all, CausalVisibility{nullptr, length(b)}),
                            s.attended());
    });
  }

  /// Token k of the chains, as the target's ids.
  void choose(const Cpu& cpu, const Step& s, std::span<const Sampling> samplings, index_t k) {
    const index_t n = s.out.extent(0);
    Draft::head_input(cpu, weights_, s.out, m_.head_in.rows(0, n));
    Draft::compute_logits(cpu, weights_, m_.head_in.rows(0, n), m_.logits.rows(0, n));
    for (index_t i = 0; i < n; ++i) {
      const index_t b = order_[at(i)], first = length(b) + 1;
      const bool goes_on = drafted_[at(b)] == k;
      std::optional<index_t> token;
      if (goes_on)
        token = samplings[at(b)].choose(cpu, m_.logits.rows(i, 1).matrix(), Decision::draft, first + k, first);
      if (!token) {
        // What goes on beside it must not meet numbers that are none.
        m_.tokens(b * size_.chain + k) = 0;
        std::fill_n(s.out.row(i), Draft::hidden, T{});
        continue;
      }
      m_.tokens(b * size_.chain + k) = to_target_[at(*token)];
      if (!samplings[at(b)].is_greedy()) spread(i, b * size_.chain + k);
      drafted_[at(b)] = k + 1;
    }
  }

  /// Weights of row i over the target's ids. What the draft cannot say stays 0.
  void spread(index_t i, index_t row) {
    S* to = m_.spread.row(row);
    for (const index_t id : to_target_) to[id] = 0;
    for (index_t j = 0; j < Draft::draft_vocabulary; ++j) to[to_target_[at(j)]] += m_.logits(i, j);
  }

  typename Draft::template Weights<Prepacked<T>> weights_;
  std::vector<index_t> to_target_;
  SessionSize size_;
  std::vector<index_t> lengths_, drafted_;  // of each sequence
  std::vector<index_t> order_;              // the sequences that draft, longest chains first
  Arena arena_;
  Memory m_;
};

}  // namespace K3SPEC_NAMESPACE
