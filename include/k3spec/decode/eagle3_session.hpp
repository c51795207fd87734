#pragma once
/// \file
/// One sequence on its way through an EAGLE-3 draft: keys and values of verified positions are appended, never
/// computed again; a chain of drafted tokens hangs on the last of them.
///
/// Position t of the draft reads the target's states at t and the token at t + 1, and predicts the token at t + 2.
/// defines: Eagle3Session

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <k3spec/decode/draft_session.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/layers/packed.hpp>

namespace k3spec {

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
  struct Source {
    /// Must outlive the session, which views their vectors and embedding.
    typename Draft::template Weights<const T> weights;
    /// [draft vocabulary] the target's id of each draft token
    std::vector<index_t> to_target;
  };

  /// \throws Error on another number of layers than the draft reads, or ids that are no layer's
  static std::vector<Tap> taps(std::span<const index_t> layers, index_t num_hidden_layers,
                               const Conventions& conventions) {
    require_layers("aux layers", layers, Draft::num_aux);
    return eagle3_taps(layers, num_hidden_layers, conventions);
  }

  /// \throws Error on another number of draft tokens, ids that are no token's, or a chain longer than max_chain
  template <class Target>
  Eagle3Session(const Target&, Source source, const SessionSize& size)
      : weights_(pack_weights<Draft, T>(source.weights)),
        to_target_(std::move(source.to_target)),
        size_(require_size(size, max_chain, false)) {
    if (static_cast<index_t>(to_target_.size()) != Draft::draft_vocabulary) {
      throw Error("draft vocabulary", std::to_string(to_target_.size()), std::to_string(Draft::draft_vocabulary));
    }
    detail::require_token_ids(Vector<const index_t>(to_target_.data(), Draft::draft_vocabulary), vocabulary);
    memory_ = Arena(plan_bytes([&](ArenaPlan& a) { plan(a); }));
    plan(memory_);
    if (size_.sampled) evaluate(Cpu{1}, expr::as_expression(0.0), spread_);
  }

  void reset() { length_ = 0; }
  index_t length() const { return length_; }

  /// Appends n = 1 … rows verified positions: aux [n, A] packed, the target's states there; ids [n] the tokens one
  /// position later.
  /// \throws Error on other shapes, when the cache is full, or for an id outside the vocabulary
  void append(const Cpu& cpu, const Matrix<const T>& aux, std::span<const index_t> ids) {
    const auto n = static_cast<index_t>(ids.size());
    require_append(aux, ids, states, vocabulary, length_, size_);
    typename Draft::template Activations<T> acts{};
    acts.fc = fc_.rows(0, n);
    if constexpr (Draft::config::fc_norm) acts.aux_normed = aux_normed_.rows(0, n);
    Draft::template project_hidden_states<T>(cpu, weights_, Rows<const T, Draft::aux_width>(aux.data(), n), acts);
    // Keys and values are written straight into the cache.
    Step s = first_.rows(0, n);
    s.attention.kv = kv_.rows(length_, n);
    std::copy(ids.begin(), ids.end(), s.ids.data());
    Draft::template before_attention<T>(cpu, weights_, s, acts.fc, RotaryPositions{nullptr, 0, length_});
    evaluate(cpu, expr::arg<0>, k_rope_.rows(length_, n), s.attention.k_rope());
    length_ += n;
    tip_ = s.rows(n - 1, 1);
    tip_hidden_ = fc_.rows(n - 1, 1);
  }

  /// A chain of `count` tokens, 0 to the planned chain, behind the last appended position; fewer where logits have no
  /// finite largest one.
  /// \throws Error when nothing was appended or the chain or the sampling was not planned for
  Proposal<S> draft(const Cpu& cpu, index_t count, const Sampling& sampling) {
    require_draft(count, sampling, length_, size_);
    std::array<TttKeys<const T>, Draft::max_steps> keys;
    keys[0] = {kv_.rows(0, length_).matrix(), k_rope_.rows(0, length_).matrix()};
    Step s = tip_;
    Rows<const T, Draft::hidden> in = tip_hidden_;
    for (index_t k = 0; k < count; ++k) {
      if (k > 0) {
        s = steps_[static_cast<std::size_t>(k)];
        s.ids(0) = drafted_[static_cast<std::size_t>(k - 1)];
        Draft::template before_attention<T>(cpu, weights_, s, in, RotaryPositions{nullptr, 0, length_ - 1, k});
        keys[static_cast<std::size_t>(k)] = s.keys();
      }
      attend(cpu, s, std::span(keys).first(static_cast<std::size_t>(k + 1)));
      Draft::template after_attention<T>(cpu, weights_, s, in);
      const auto token = choose(cpu, s, sampling, k);
      if (!token) {
        count = k;
        break;
      }
      drafted_[static_cast<std::size_t>(k)] = *token;
      in = s.out;
    }
    const std::span<const index_t> tokens{drafted_.data(), static_cast<std::size_t>(count)};
    if (sampling.is_greedy()) return {tokens};
    return {tokens, spread_.rows(0, count).matrix()};
  }

 private:
  using Step = typename Draft::template Step<T>;

  template <Allocator A>
  void plan(A& a) {
    take_rows(a, size_.capacity, kv_), take_rows(a, size_.capacity, k_rope_);
    take_rows(a, size_.rows, fc_);
    if constexpr (Draft::config::fc_norm) take_rows(a, size_.rows, aux_normed_);
    first_ = Step::allocate(a, size_.rows);
    for (index_t k = 1; k < size_.chain; ++k) steps_[static_cast<std::size_t>(k)] = Step::allocate(a, 1);
    take_rows(a, 1, head_in_), take_rows(a, 1, logits_);
    if (size_.sampled) take_rows(a, size_.chain, spread_);
  }

  void attend(const Cpu& cpu, const Step& s, std::span<const TttKeys<const T>> keys) const {
    const AttentionSpan span{1, 1, length_, length_ - 1};
    Draft::Ttt::template forward<T>(cpu, span, s.attention.q.matrix(), keys, CausalVisibility{nullptr, length_},
                                    s.attention.o.matrix(), s.lse.matrix());
  }

  /// Token k of the chain, as the target's id.
  std::optional<index_t> choose(const Cpu& cpu, const Step& s, const Sampling& sampling, index_t k) {
    Draft::head_input(cpu, weights_, s.out, head_in_);
    Draft::compute_logits(cpu, weights_, head_in_, logits_);
    const auto token = sampling.choose(cpu, logits_.matrix(), Decision::draft, length_ + 1 + k, length_ + 1);
    if (!token) return std::nullopt;
    if (!sampling.is_greedy()) spread(k);
    return to_target_[static_cast<std::size_t>(*token)];
  }

  /// Token k's weights over the target's ids. What the draft cannot say stays 0.
  void spread(index_t k) {
    S* to = spread_.row(k);
    for (const index_t id : to_target_) to[id] = 0;
    for (index_t j = 0; j < Draft::draft_vocabulary; ++j) to[to_target_[static_cast<std::size_t>(j)]] += logits_(0, j);
  }

  typename Draft::template Weights<Packed<T>> weights_;
  std::vector<index_t> to_target_;
  SessionSize size_;
  index_t length_ = 0;
  Arena memory_;
  Rows<T, Draft::Attention::heads*(Draft::Attention::nope + Draft::Attention::v_dim)> kv_;
  Rows<T, Draft::Attention::rope> k_rope_;
  Rows<T, Draft::hidden> fc_;
  Rows<T, Draft::aux_width> aux_normed_;
  Step first_, tip_;
  Rows<const T, Draft::hidden> tip_hidden_;
  std::array<Step, Draft::max_steps> steps_;
  std::array<index_t, Draft::max_steps> drafted_{};
  Rows<T, Draft::hidden> head_in_;
  Rows<S, Draft::draft_vocabulary> logits_;  // and, at a temperature, weights
  Rows<S, Draft::vocabulary> spread_;        // those of every token of the chain, over the target's ids
};

}  // namespace k3spec
