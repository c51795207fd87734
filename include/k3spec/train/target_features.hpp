#pragma once
/// \file
/// The frozen target's side of an EAGLE-3 training batch: runs the text through the target and hands out auxiliary
/// states and teacher, shifted as the objective wants them (SPEC: target batch).
/// defines: TargetFeatures

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/drafts/draft_vocabulary.hpp>
#include <k3spec/ops/argmax.hpp>
#include <k3spec/target/forward.hpp>
#include <k3spec/train/ttt_objective.hpp>

namespace k3spec {

/// Owns the target, and the features of one batch at a time. R = batch · length rows.
template <class Config, Element T>
class TargetFeatures {
 public:
  using Draft = Eagle3Draft<Config>;
  using Target = K3Target<Config>;
  using Batch = TttBatch<T, Draft::aux_width>;
  static_assert(Config::target_hidden_size == Target::hidden,
                "TargetFeatures: target_hidden_size is not the target's hidden_size");

  /// \param aux_layer_ids  as many as the draft reads, see eagle3_taps
  /// \throws Error when there are others, or the vocabulary is not one of this draft and target
  TargetFeatures(Parameters<Target, T> target, DraftVocabulary vocabulary, const std::vector<index_t>& aux_layer_ids,
                 index_t batch, index_t length)
      : parameters_(std::move(target)),
        target_(parameters_.weights()),
        vocabulary_(std::move(vocabulary)),
        taps_(eagle3_taps(aux_layer_ids, Config::num_hidden_layers)),
        state_({.sequences = batch, .capacity = length, .rollback = 0}),
        length_(length),
        arena_(bytes(batch, length)) {
    check();
    rows_ = Features::allocate(arena_, batch * length);
    select_head();
    mask();
  }

  /// Bytes of the features and of what is needed to make them; the target's weights and states not counted.
  static constexpr std::size_t bytes(index_t batch, index_t length) {
    return plan_bytes([&](ArenaPlan& a) {
      Features::allocate(a, batch * length);
      a.borrow(FrozenTarget<Config, T>::scratch_bytes(batch, length));
      a.borrow(plan_bytes([&](ArenaPlan& b) { Logits::allocate(b, std::min(batch * length, chunk)); }));
    });
  }

  /// ids [batch, length]: windows of text. The result is valid until the next call.
  Batch make(const Cpu& cpu, const Matrix<const index_t>& ids) {
    for (index_t b = 0; b < state_.sequences(); ++b) state_.reset(b);
    target_.forward(cpu, state_, ids, {rows_.last.matrix(), taps_, rows_.aux.matrix()}, arena_);
    shift_ids(ids);
    choose(cpu);
    return {length_, rows_.input_ids, rows_.attention_mask, rows_.loss_mask, rows_.aux, rows_.top, vocabulary_.t2d()};
  }

  /// The teacher of the batch made last.
  HiddenTeacher<T> teacher() const { return {rows_.last.matrix(), rows_.selected_head.matrix(), length_}; }

  const DraftVocabulary& vocabulary() const { return vocabulary_; }
  /// The target's embedding [vocab, hidden], which the draft shares.
  View<const T, Config::vocab_size, Config::hidden_size> embedding() const {
    return parameters_.weights().embed_tokens;
  }

 private:
  /// Rows of full-vocabulary logits that exist at a time: about a million values.
  static constexpr index_t chunk = std::clamp<index_t>((index_t{1} << 20U) / Config::vocab_size, 32, 4096);

  struct Features {
    Rows<T, Target::hidden> last;                    // [R], post-norm
    Rows<T, Draft::aux_width> aux;                   // [R]
    Rows<T, Target::hidden> selected_head;           // [draft vocabulary]: the target's head, those rows only
    Vector<index_t> input_ids, top;                  // [R], shifted
    Vector<std::uint8_t> attention_mask, loss_mask;  // [R]

    template <Allocator A>
    static constexpr Features allocate(A& a, index_t rows) {
      Features f;
      take_rows(a, rows, f.last), take_rows(a, rows, f.aux), take_rows(a, Config::draft_vocab_size, f.selected_head);
      take_rows(a, rows, f.input_ids), take_rows(a, rows, f.top);
      take_rows(a, rows, f.attention_mask), take_rows(a, rows, f.loss_mask);
      return f;
    }
  };

  struct Logits {
    Rows<accumulate_t<T>, Config::vocab_size> logits;
    template <Allocator A>
    static constexpr Logits allocate(A& a, index_t rows) {
      Logits l;
      take_rows(a, rows, l.logits);
      return l;
    }
  };

  void check() const {
    const auto want = [](const char* what, index_t found, index_t wanted) {
      if (found != wanted) throw Error(what, std::to_string(found), std::to_string(wanted));
    };
    want("aux layers", static_cast<index_t>(taps_.size()), Config::num_aux_hidden_states);
    want("draft vocabulary: size", vocabulary_.draft_size(), Config::draft_vocab_size);
    want("draft vocabulary: tokens", vocabulary_.vocab_size(), Config::vocab_size);
  }

  void select_head() {
    const auto w = parameters_.weights();
    for (index_t i = 0; i < vocabulary_.draft_size(); ++i) {
      std::copy_n(w.lm_head.row(vocabulary_.target_id(i)), Target::hidden, rows_.selected_head.row(i));
    }
  }

  /// No padding; only the last row of a window has no token after it.
  void mask() {
    for (index_t r = 0; r < rows_.loss_mask.extent(0); ++r) {
      rows_.attention_mask(r) = 1;
      rows_.loss_mask(r) = is_last(r) ? 0 : 1;
    }
  }

  bool is_last(index_t row) const { return row % length_ == length_ - 1; }

  void shift_ids(const Matrix<const index_t>& ids) {
    for (index_t r = 0; r < rows_.input_ids.extent(0); ++r) {
      rows_.input_ids(r) = is_last(r) ? 0 : ids(r / length_, r % length_ + 1);
    }
  }

  /// The target's argmax over its whole vocabulary, shifted.
  void choose(const Cpu& cpu) {
    const index_t rows = rows_.last.extent(0);
    for (index_t r = 0; r < rows; r += chunk) {
      Scope scope(arena_);
      const index_t n = std::min(chunk, rows - r);
      const auto l = Logits::allocate(arena_, n);
      target_.compute_logits(cpu, rows_.last.rows(r, n), l.logits);
      argmax(cpu, l.logits, rows_.top.rows(r, n));
    }
    for (index_t r = 0; r < rows; ++r) rows_.top(r) = is_last(r) ? 0 : rows_.top(r + 1);
  }

  Parameters<Target, T> parameters_;
  FrozenTarget<Config, T> target_;
  DraftVocabulary vocabulary_;
  std::vector<Tap> taps_;
  TargetState<Config, T> state_;
  index_t length_;
  Arena arena_;
  Features rows_;
};

}  // namespace k3spec
