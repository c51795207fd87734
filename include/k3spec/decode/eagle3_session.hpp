#pragma once
/// \file
/// One sequence on its way through an EAGLE-3 draft: keys and values of verified positions are appended, never
/// computed again; a chain of drafted tokens hangs on the last of them.
///
/// Position t of the draft reads the target's states at t and the token at t + 1, and predicts the token at t + 2.
/// defines: Eagle3Session

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/layers/packed.hpp>
#include <k3spec/ops/argmax.hpp>

namespace k3spec {

template <class Draft, Element T>
class Eagle3Session {
 public:
  using S = accumulate_t<T>;

  /// \param weights    must outlive the session, which views its vectors and embedding
  /// \param to_target  [draft vocabulary] the target's id of each draft token
  /// \param capacity   positions
  /// \param rows       the most positions appended at a time
  /// \param chain      the most tokens drafted at a time, 1 to Draft::max_steps
  Eagle3Session(const typename Draft::template Weights<const T>& weights, std::vector<index_t> to_target,
                index_t capacity, index_t rows, index_t chain)
      : weights_(pack_weights<Draft, T>(weights)),
        to_target_(std::move(to_target)),
        capacity_(capacity),
        rows_(rows),
        chain_(chain) {
    if (chain < 1 || chain > Draft::max_steps) {
      throw Error("chain", std::to_string(chain), "1 to " + std::to_string(Draft::max_steps));
    }
    if (static_cast<index_t>(to_target_.size()) != Draft::draft_vocabulary) {
      throw Error("draft vocabulary", std::to_string(to_target_.size()), std::to_string(Draft::draft_vocabulary));
    }
    memory_ = Arena(plan_bytes([&](ArenaPlan& a) { plan(a, capacity, rows, chain); }));
    plan(memory_, capacity, rows, chain);
  }

  void reset() { length_ = 0; }
  index_t length() const { return length_; }

  /// Appends n = 1 … rows verified positions: aux [n, A] packed, the target's states there; ids [n] the tokens one
  /// position later.
  /// \throws Error on other shapes, when the cache is full, or for an id outside the vocabulary
  void append(const Cpu& cpu, const Matrix<const T>& aux, std::span<const index_t> ids) {
    const auto n = static_cast<index_t>(ids.size());
    check_append(aux, n);
    if (length_ + n > capacity_)
      throw Error("draft cache: positions", std::to_string(length_ + n), "at most " + std::to_string(capacity_));
    typename Draft::template Activations<T> acts{};
    acts.fc = fc_.rows(0, n);
    if constexpr (Draft::config::fc_norm) acts.aux_normed = aux_normed_.rows(0, n);
    Draft::template project_hidden_states<T>(cpu, weights_, Rows<const T, Draft::aux_width>(aux.data(), n), acts);
    // Keys and values are written straight into the cache.
    Step s = first_.rows(0, n);
    s.attention.kv = kv_.rows(length_, n);
    std::copy(ids.begin(), ids.end(), s.ids.data());
    Draft::template before_attention<T>(cpu, weights_, s, acts.fc);
    evaluate(cpu, expr::arg<0>, k_rope_.rows(length_, n), s.attention.k_rope());
    length_ += n;
    tip_ = s.rows(n - 1, 1);
    tip_hidden_ = fc_.rows(n - 1, 1);
  }

  /// The draft's greedy chain of `count` tokens, 0 to chain, behind the last appended position, as target ids; valid
  /// until the next call.
  /// \throws Error when nothing was appended or the chain is longer than planned
  std::span<const index_t> draft(const Cpu& cpu, index_t count) {
    if (length_ == 0) throw Error("draft cache: positions", "0", "at least 1");
    if (count < 0 || count > chain_) throw Error("chain", std::to_string(count), "0 to " + std::to_string(chain_));
    std::array<TttKeys<const T>, Draft::max_steps> keys;
    keys[0] = {kv_.rows(0, length_).matrix(), k_rope_.rows(0, length_).matrix()};
    Step s = tip_;
    Rows<const T, Draft::hidden> in = tip_hidden_;
    for (index_t k = 0; k < count; ++k) {
      if (k > 0) {
        s = steps_[static_cast<std::size_t>(k)];
        s.ids(0) = drafted_[static_cast<std::size_t>(k - 1)];
        Draft::template before_attention<T>(cpu, weights_, s, in);
        keys[static_cast<std::size_t>(k)] = s.keys();
      }
      attend(cpu, s, std::span(keys).first(static_cast<std::size_t>(k + 1)));
      Draft::template after_attention<T>(cpu, weights_, s, in);
      drafted_[static_cast<std::size_t>(k)] = choose(cpu, s);
      in = s.out;
    }
    return {drafted_.data(), static_cast<std::size_t>(count)};
  }

 private:
  using Step = typename Draft::template Step<T>;

  void check_append(const Matrix<const T>& aux, index_t n) const {
    if (n < 1 || n > rows_) throw Error("draft cache: rows", std::to_string(n), "1 to " + std::to_string(rows_));
    if (aux.extent(0) == n && aux.extent(1) == Draft::aux_width && aux.is_packed()) return;
    throw Error("draft cache: aux", std::to_string(aux.extent(0)) + " x " + std::to_string(aux.extent(1)),
                std::to_string(n) + " x " + std::to_string(Draft::aux_width) + ", packed");
  }

  template <Allocator A>
  void plan(A& a, index_t capacity, index_t rows, index_t chain) {
    take_rows(a, capacity, kv_), take_rows(a, capacity, k_rope_);
    take_rows(a, rows, fc_);
    if constexpr (Draft::config::fc_norm) take_rows(a, rows, aux_normed_);
    first_ = Step::allocate(a, rows);
    for (index_t k = 1; k < chain; ++k) steps_[static_cast<std::size_t>(k)] = Step::allocate(a, 1);
    take_rows(a, 1, head_in_), take_rows(a, 1, logits_);
  }

  void attend(const Cpu& cpu, const Step& s, std::span<const TttKeys<const T>> keys) const {
    const AttentionSpan span{1, 1, length_, length_ - 1};
    Draft::Ttt::template forward<T>(cpu, span, s.attention.q.matrix(), keys, CausalVisibility{nullptr, length_},
                                    s.attention.o.matrix(), s.lse.matrix());
  }

  index_t choose(const Cpu& cpu, const Step& s) const {
    Draft::head_input(cpu, weights_, s.out, head_in_);
    Draft::compute_logits(cpu, weights_, head_in_, logits_);
    return to_target_[static_cast<std::size_t>(argmax_row(logits_.data(), Draft::draft_vocabulary))];
  }

  typename Draft::template Weights<Packed<T>> weights_;
  std::vector<index_t> to_target_;
  index_t capacity_, rows_, chain_, length_ = 0;
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
  Rows<S, Draft::draft_vocabulary> logits_;
};

}  // namespace k3spec
