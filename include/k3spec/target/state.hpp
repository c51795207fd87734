#pragma once
/// \file
/// What the target remembers of its sequences: per MLA layer a cache of latents, per KDA layer and head a recurrent
/// state, and the last inputs of the short convolutions.
///
/// After a call of forward with at most `rollback` tokens, accept(sequence, m) keeps the first m of them. That costs
/// nothing: such a call leaves the recurrent states where they were and logs what leads on from there (see
/// ops/kda.hpp); the next call, before anything else, brings them over the tokens that were kept.
/// defines: StateSize, TargetState, SequenceStep, MlaMemory

#include <algorithm>
#include <span>
#include <string>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/core/checked.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/view.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/ops/latent_attention.hpp>
#include <k3spec/ops/short_conv.hpp>
#include <k3spec/target/layout.hpp>

namespace K3SPEC_NAMESPACE {

/// How much a state holds.
struct StateSize {
  index_t sequences;  ///< rows of a batch
  index_t capacity;   ///< positions of each
  /// The most tokens of a call that can be taken back.
  index_t rollback = 16;
};

/// Where a call of forward finds a sequence and what it does to it.
struct SequenceStep {
  index_t length;    ///< positions before the call
  index_t pending;   ///< tokens that stand in the logs and not yet in the states
  index_t tokens;    ///< new ones
  bool logged;       ///< the new ones go into the logs
  index_t sequence;  ///< which one
  index_t row = 0;   ///< of the first new one among the call's rows
};

/// The part of one MLA layer and sequence: [capacity, kv_lora + rope], the normed latent before k_rope.
template <class Config, class T>
using MlaMemory = Rows<T, Config::kv_lora_rank + Config::qk_rope_head_dim>;

/// What the target remembers of the texts of a batch, in a device's memory.
template <ForTarget Given, Element T, Device D = Cpu>
class TargetState {
  using Config = complete_target_t<Given>;
  using E = element_t<D, T>;
  using S = accumulate_t<E>;
  using Layout = TargetLayout<Config>;
  using Kda = KdaLayout<S, Config::kda_head_dim>;
  static constexpr index_t latent = Config::kv_lora_rank + Config::qk_rope_head_dim;
  static constexpr index_t heads = Config::kda_num_heads, width = heads * Config::kda_head_dim;
  static constexpr index_t tail = Config::kda_conv_size - 1;

 public:
  /// Elements that all layers of one sequence have.
  struct Elements {
    index_t latents, recurrent, log, window;
  };
  static constexpr Elements elements(StateSize size) {
    return {checked_product(Layout::mla_layers, size.capacity, latent), Layout::kda_layers * heads * Kda::state_size,
            checked_product(Layout::kda_layers, heads, size.rollback, Kda::log_size),
            checked_product(Layout::kda_layers, tail + size.rollback, 3 * width)};
  }
  static constexpr std::size_t bytes(StateSize size) {
    const Elements e = elements(size);
    return static_cast<std::size_t>(size.sequences) *
           (static_cast<std::size_t>(e.latents + e.window) * sizeof(T) +
            static_cast<std::size_t>(e.recurrent + e.log) * sizeof(S) + sizeof(Position) + sizeof(SequenceStep) +
            sizeof(KdaSequence<E>) + sizeof(LatentSequence<E>));
  }

  /// Sequences of length 0. \throws Error on sizes that are negative or cannot be addressed
  explicit TargetState(StateSize size, const D& device = D{})
      : size_(checked(size)),
        latents_(device, checked_product(size.sequences, elements(size).latents)),
        window_(device, checked_product(size.sequences, elements(size).window)),
        recurrent_(device, checked_product(size.sequences, elements(size).recurrent)),
        log_(device, checked_product(size.sequences, elements(size).log)),
        positions_(size.sequences),
        steps_(size.sequences),
        kda_(size.sequences),
        mla_(size.sequences) {}

  const StateSize& size() const { return size_; }
  index_t sequences() const { return size_.sequences; }
  /// Positions of a sequence, the accepted ones of the last call included.
  index_t length(index_t sequence) const { return at(sequence).before + at(sequence).kept; }

  /// Keeps the first `tokens` of one sequence's tokens in the last call that had any of it. May be called again with
  /// another number. \throws Error when the call had fewer, or had more than `rollback` and not all are kept
  void accept(index_t sequence, index_t tokens) {
    Position& p = at(sequence);
    const index_t least = p.logged ? 0 : p.tokens;
    if (tokens < least || tokens > p.tokens) {
      throw Error("target state: tokens to keep", std::to_string(tokens),
                  std::to_string(least) + " to " + std::to_string(p.tokens) + " (a call of at most " +
                      std::to_string(size_.rollback) + " tokens can be taken back)");
    }
    p.kept = tokens;
  }
  /// The same of every sequence.
  void accept(index_t tokens) {
    for (index_t b = 0; b < sequences(); ++b) accept(b, tokens);
  }

  /// Makes a sequence empty.
  void reset(index_t sequence, const D& device = D{}) {
    at(sequence) = Position{};
    const auto clear = [&](auto& buffer) {
      const index_t each = buffer.size() / sequences();
      using Part = Vector<std::remove_pointer_t<decltype(buffer.data())>>;
      if (each > 0) zero(device, Part(buffer.data() + sequence * each, each));
    };
    clear(latents_), clear(recurrent_), clear(window_);
  }

  /// Brings the recurrent states over what is pending, as the next call would: then all that is remembered is in
  /// recurrent(), window() and latents(), and nothing can be taken back any more.
  void settle(const D& device = D{}) {
    for (index_t b = 0; b < sequences(); ++b) steps_[b] = step(b, 0);
    const std::span<const SequenceStep> all(steps_.data(), static_cast<std::size_t>(sequences()));
    for (index_t layer = 0; layer < Layout::kda_layers && !all.empty(); ++layer) bring_over(device, kda(layer, all));
    for (index_t b = 0; b < sequences(); ++b) at(b) = {length(b), 0, 0, false};
  }

  // ---- For the layers: `layer` counts those with the same attention. Each throws Error where there is none such

  KdaMemory<E> kda(index_t layer, index_t sequence) {
    require_index("target state: KDA layer", layer, Layout::kda_layers);
    (void)checked(sequence);
    const Elements e = elements(size_);
    constexpr index_t each = Layout::kda_layers > 0 ? Layout::kda_layers : 1;
    const auto part = [&](auto& buffer, index_t size) {
      return buffer.data() + sequence * size + layer * (size / each);
    };
    return {part(recurrent_, e.recurrent), part(log_, e.log),
            Matrix<E>(part(window_, e.window), tail + size_.rollback, 3 * width), size_.rollback};
  }
  MlaMemory<Config, E> mla(index_t layer, index_t sequence) {
    require_index("target state: MLA layer", layer, Layout::mla_layers);
    (void)checked(sequence);
    const index_t each = size_.capacity * latent;
    return MlaMemory<Config, E>(latents_.data() + (sequence * Layout::mla_layers + layer) * each, size_.capacity);
  }

  /// The same of sequences that take steps, with what these do to them: what is given to the layer. Holds until the
  /// next call for any of them.
  std::span<const KdaSequence<E>> kda(index_t layer, std::span<const SequenceStep> steps) {
    return each(kda_, steps, [&](const SequenceStep& s) {
      return KdaSequence<E>{kda(layer, s.sequence), s.row, s.tokens, s.pending, s.logged};
    });
  }
  /// Each new token sees all positions up to its own.
  std::span<const LatentSequence<E>> mla(index_t layer, std::span<const SequenceStep> steps) {
    return each(mla_, steps, [&](const SequenceStep& s) {
      return LatentSequence<E>{mla(layer, s.sequence).matrix(), s.row, s.tokens, {s.length, s.tokens}};
    });
  }

  /// The places of the next `tokens` of a sequence.
  /// \throws Error when `tokens` more do not fit
  SequenceStep step(index_t sequence, index_t tokens) const {
    const Position& p = at(sequence);
    if (tokens < 0 || length(sequence) + tokens > size_.capacity) {
      throw Error("target state: positions of sequence " + std::to_string(sequence),
                  std::to_string(length(sequence)) + " + " + std::to_string(tokens),
                  "at most " + std::to_string(size_.capacity));
    }
    return {length(sequence), p.logged ? p.kept : 0, tokens, tokens <= size_.rollback, sequence};
  }
  /// Those of sequences [first, first + count) that have new tokens, count_of(sequence) of them, in rows one behind the
  /// other. Holds until the next call for any of them.
  template <class F>
  std::span<const SequenceStep> steps(index_t first, index_t count, F&& count_of) {
    require_part("target state: sequences", first, count, sequences());
    SequenceStep* const steps = steps_.data() + first;
    SequenceStep* s = steps;
    index_t row = 0;
    for (index_t b = first; b < first + count; ++b) {
      if (count_of(b) == 0) continue;
      *s = step(b, count_of(b));
      s->row = row, row += s->tokens, ++s;
    }
    return {steps, s};
  }
  /// Says that all layers have taken the step.
  void finish(const SequenceStep& s) { at(s.sequence) = {s.length, s.tokens, s.tokens, s.logged}; }

 private:
  /// Runs all sequences of a KDA layer over what is pending, and over no new tokens.
  static void bring_over(const D& device, std::span<const KdaSequence<E>> pending) {
    const auto count = static_cast<index_t>(pending.size());
    const Matrix<S> none(nullptr, 0, width), all(nullptr, 0, 3 * width), w(nullptr, tail + 1, width);
    short_conv(device, ShortConv<E>{all, {w, w, w}, {none, none, none}, {}, pending.data(), count});
    kda_recurrence(device, KdaRecurrence<E, Config::kda_head_dim>{none, none, none, none, Matrix<S>(nullptr, 0, heads),
                                                                  none, pending.data(), count});
  }

  /// of(step) of steps that ascend, from the first one's place on: parts of a batch have places of their own.
  template <class X, class F>
  static std::span<const X> each(Buffer<X>& places, std::span<const SequenceStep> steps, F&& of) {
    const index_t begin = steps.empty() ? 0 : steps.front().sequence, count = static_cast<index_t>(steps.size());
    require_part("target state: steps", begin, count, places.size());
    X* const first = places.data() + begin;
    return {first, std::transform(steps.begin(), steps.end(), first, of)};
  }

  struct Position {
    index_t before = 0;  ///< positions before the last call
    index_t tokens = 0;  ///< of the last call
    index_t kept = 0;    ///< of those
    bool logged = false;
  };

  static StateSize checked(StateSize size) {
    const auto check = [](const char* what, index_t found) {
      if (found < 0) throw Error(std::string("target state: ") + what, std::to_string(found), "0 or more");
    };
    check("sequences", size.sequences), check("capacity", size.capacity), check("rollback", size.rollback);
    return size;
  }
  Position& at(index_t sequence) { return positions_[checked(sequence)]; }
  const Position& at(index_t sequence) const { return positions_[checked(sequence)]; }
  index_t checked(index_t sequence) const {
    if (sequence >= 0 && sequence < size_.sequences) return sequence;
    throw Error("target state: sequence", std::to_string(sequence), "0 to " + std::to_string(size_.sequences - 1));
  }

  StateSize size_;
  buffer_t<D, T> latents_, window_;
  buffer_t<D, S> recurrent_, log_;
  // Of each sequence, in the host's memory; the last three only during a call.
  Buffer<Position> positions_;
  Buffer<SequenceStep> steps_;
  Buffer<KdaSequence<E>> kda_;
  Buffer<LatentSequence<E>> mla_;
};

}  // namespace K3SPEC_NAMESPACE
