#pragma once
/// \file
/// The frozen target's side of an EAGLE-3 training batch: the states of the text, of a target that runs or of a cache,
/// as auxiliary states and teacher, shifted as the objective wants them (SPEC: target batch).
/// defines: TargetFeatures

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/batches/chunk_rows.hpp>
#include <k3spec/batches/supervised_rows.hpp>
#include <k3spec/batches/target_choices.hpp>
#include <k3spec/batches/teacher.hpp>
#include <k3spec/batches/ttt_batch.hpp>
#include <k3spec/batches/uploaded_states.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/core/held.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/io/draft_vocabulary.hpp>
#include <k3spec/ops/gather_rows.hpp>

namespace K3SPEC_NAMESPACE {

/// Owns the target, and the features of one batch at a time in each of its slots. R = batch · length rows. Config is
/// the draft's: its own widths, but the target's vocabulary.
template <ForTarget GivenTarget, ForEagle3 Given, Element T, Device D = Cpu>
class TargetFeatures {
  using Config = complete_eagle3_t<Given>;
  using TargetConfig = complete_target_t<GivenTarget>;
  using E = element_t<D, T>;
  using Beside = target_device_t<D>;  // where the target runs
  using States = states_for_t<GivenTarget, T, D>;

 public:
  using Draft = Eagle3Draft<Given>;
  using Target = K3Target<GivenTarget>;
  using Batch = TttBatch<E, Draft::aux_width>;
  /// A config without its fields has been refused before: nothing more is said of it.
  static constexpr bool refused = stands_in<Config> || stands_in<TargetConfig>;
  static_assert(refused || Config::hidden_size == Target::hidden || Config::train_embeddings,
                "TargetFeatures: hidden_size is not the target's, so its embedding cannot be the draft's: "
                "train_embeddings must be true");
  static_assert(refused || Config::target_hidden_size == Target::hidden,
                "TargetFeatures: target_hidden_size is not the target's hidden_size");
  static_assert(refused || Config::vocab_size == TargetConfig::vocab_size,
                "TargetFeatures: vocab_size is not the target's, whose tokens the draft reads and says");

  /// Memory for the target's states of one batch.
  /// \param aux_layer_ids  as many as the draft reads, in the numbering and of the states that the conventions name
  /// \throws Error as check does
  TargetFeatures(Parameters<Target, T> target, DraftVocabulary vocabulary, const std::vector<index_t>& aux_layer_ids,
                 const Eagle3Conventions& conventions, const StatesSize& size, const D& device = D{})
      : TargetFeatures(TeachingTarget<GivenTarget, T, Beside>(target_device(device), std::move(target)),
                       std::move(vocabulary), aux_layer_ids, conventions, size, device) {}
  TargetFeatures(TeachingTarget<GivenTarget, T, Beside> target, DraftVocabulary vocabulary,
                 const std::vector<index_t>& aux_layer_ids, const Eagle3Conventions& conventions,
                 const StatesSize& size, const D& device = D{})
      : states_(std::move(target), checked_taps(vocabulary, aux_layer_ids, conventions), size, device),
        vocabulary_(std::move(vocabulary)),
        length_(size.length),
        documents_(size.packing == Packing::apart ? size.rows() : 0),
        arena_(target_device(device), logits_bytes(size)),
        selected_head_(select_head(device)),
        host_(host_bytes(size)),
        mirror_(target_device(device), top_bytes(size)),
        rows_(Lists::allocate(host_, size.rows())),
        top_(mirror_.template take<index_t>(size.slots * size.rows())) {
    std::fill_n(rows_.attention_mask.data(), size.rows(), std::uint8_t{1});  // windows have no padding
  }

  /// Refuses layers and vocabularies of another target or draft.
  /// \throws Error on other layers than the target has and the draft reads, or the vocabulary of another draft or
  /// target
  static void check(const DraftVocabulary& vocabulary, const std::vector<index_t>& aux_layer_ids,
                    const Eagle3Conventions& conventions) {
    checked_taps(vocabulary, aux_layer_ids, conventions);
  }

  /// Bytes of the features and of what is needed to make them; the target's weights and states not counted.
  static constexpr std::size_t bytes(const StatesSize& size) {
    return States::bytes(size, Draft::num_aux) + logits_bytes(size) + head_bytes + host_bytes(size) + top_bytes(size);
  }

  // ---- Each throws Error on windows of another shape, ids out of range, or a slot that is not there

  /// Runs the target, or looks up what it said. The result is valid until the next call.
  Batch make(const D& device, const TextWindows& windows, index_t slot = 0) {
    states_.run(device, windows, slot);
    states_.shift_last(device, slot);
    choose(device, windows, slot);
    return made(windows, slot);
  }

  /// The batch again that was made last in a slot, of the same windows.
  Batch made(const TextWindows& windows, index_t slot) {
    states_.check(windows);
    const Matrix<const E> tapped = states_.tapped(slot);  // refuses the slot, before anything is written
    shift(windows);
    const Vector<index_t> top = of_slot(top_.host, slot);
    for (index_t r = 0; r < top.extent(0); ++r) top(r) = is_last(r) ? 0 : top(r);
    const Rows<const E, Draft::aux_width> aux(tapped.data(), tapped.extent(0));
    return {.length = length_,
            .input_ids = rows_.input_ids,
            .attention_mask = rows_.attention_mask,
            .loss_mask = rows_.loss_mask,
            .aux = aux,
            .teacher_top = top,
            .t2d = vocabulary_.t2d(),
            .documents = documents_.of(windows.seq_lens, length_)};
  }

  /// The teacher of the batch in a slot.
  HiddenTeacher<E> teacher(index_t slot = 0) const {
    return {states_.last(slot).matrix(),
            Matrix<const E>(selected_head_.data(), Config::draft_vocab_size, Target::hidden)};
  }

  const DraftVocabulary& vocabulary() const { return vocabulary_; }
  /// The target's embedding [vocabulary, target hidden], the host's.
  View<const T, TargetConfig::vocab_size, Target::hidden> embedding() const { return states_.tables().embed_tokens; }

 private:
  /// Rows of full-vocabulary logits that exist at a time.
  static constexpr index_t chunk = chunk_rows(Config::vocab_size);

  static constexpr std::size_t head_bytes =
      aligned(static_cast<std::size_t>(checked_product(Config::draft_vocab_size, Target::hidden)) * sizeof(T));
  using Logits = Rows<accumulate_t<element_t<Beside, T>>, Config::vocab_size>;
  static constexpr std::size_t logits_bytes(const StatesSize& size) {
    return plan_bytes([&](ArenaPlan& a) {
      Logits logits;
      take_rows(a, std::min(size.rows(), chunk), logits);
    });
  }
  static constexpr std::size_t host_bytes(const StatesSize& size) {
    return plan_bytes([&](ArenaPlan& a) { Lists::allocate(a, size.rows()); });
  }
  static constexpr std::size_t top_bytes(const StatesSize& size) {
    MirrorPlan<Beside> m;
    m.template take<index_t>(size.slots * size.rows());
    return m.bytes();
  }

  /// [R], shifted.
  struct Lists {
    Vector<index_t> input_ids;
    Vector<std::uint8_t> attention_mask, loss_mask;

    template <Allocator A>
    static constexpr Lists allocate(A& a, index_t rows) {
      Lists l;
      take_rows(a, rows, l.input_ids), take_rows(a, rows, l.attention_mask), take_rows(a, rows, l.loss_mask);
      return l;
    }
  };

  static std::vector<Tap> checked_taps(const DraftVocabulary& vocabulary, const std::vector<index_t>& aux_layer_ids,
                                       const Eagle3Conventions& conventions) {
    const auto want = [](const char* what, index_t found, index_t wanted) {
      if (found != wanted) throw Error(what, std::to_string(found), std::to_string(wanted));
    };
    want("aux layers", static_cast<index_t>(aux_layer_ids.size()), Config::num_aux_hidden_states);
    want("draft vocabulary: size", vocabulary.draft_size(), Config::draft_vocab_size);
    want("draft vocabulary: tokens", vocabulary.vocab_size(), Config::vocab_size);
    return eagle3_taps(aux_layer_ids, TargetConfig::num_hidden_layers, conventions);
  }

  buffer_t<D, T> select_head(const D& device) const {
    const auto head = states_.tables().lm_head;
    Buffer<T> rows(Config::draft_vocab_size * Target::hidden);
    for (index_t i = 0; i < vocabulary_.draft_size(); ++i) {
      std::copy_n(head.row(vocabulary_.target_id(i)), Target::hidden, rows.data() + i * Target::hidden);
    }
    return moved_to(device, std::move(rows));
  }

  /// Of one slot, on either side.
  template <class V>
  V of_slot(const V& all, index_t slot) const {
    const index_t rows = rows_.input_ids.extent(0);
    return all.rows(slot * rows, rows);
  }

  bool is_last(index_t row) const { return row % length_ == length_ - 1; }

  /// The last row of a window has no token after it.
  void shift(const TextWindows& windows) {
    for (index_t r = 0; r < rows_.input_ids.extent(0); ++r) {
      rows_.input_ids(r) = is_last(r) ? 0 : windows.ids(r / length_, r % length_ + 1);
      rows_.loss_mask(r) = !is_last(r) && windows.counts(r + 1) ? 1 : 0;
    }
  }

  /// The target's argmax over its whole vocabulary, shifted as its states are; of a window's last row, anything.
  void choose(const D& device, const TextWindows& windows, index_t slot) {
    const Vector<index_t> top = of_slot(top_.host, slot);
    if (const auto& stored = states_.stored()) {
      stored->read_top(windows, top);
    } else if constexpr (runs_targets<D>) {
      choose(device, states_.last(slot), slot);  // which are shifted
      return;
    } else {
      choose(target_device(device), states_.last_beside(), slot);
    }
    for (index_t r = 0; r + 1 < top.extent(0); ++r) top(r) = top(r + 1);
  }
  /// The same of states [R, target hidden] where the target runs.
  template <class Last>
  void choose(const Beside& device, const Last& last, index_t slot) {
    Scope scope(arena_);
    Logits logits;
    take_rows(arena_, std::min(chunk, last.extent(0)), logits);
    target_choices(device, states_.target(), last, logits, of_slot(top_.device, slot));
    mirror_.download(device);
  }

  States states_;
  DraftVocabulary vocabulary_;
  index_t length_;
  DocumentBounds documents_;
  arena_t<Beside> arena_;
  buffer_t<D, T> selected_head_;  // [draft vocabulary, target hidden]: the target's head, those rows only
  Arena host_;
  Mirror<Beside> mirror_;
  Lists rows_;
  Mirrored<Beside, index_t> top_;  // [slots · R], shifted
};

}  // namespace K3SPEC_NAMESPACE
