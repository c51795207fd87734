#pragma once
/// \file
/// Runs the target on new tokens of every sequence of a batch.
/// defines: FrozenTarget, TargetBytes, TargetOutput

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <k3spec/backend/cpu/batch_parts.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/core/held.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/ops/attention_residual.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/ops/embedding.hpp>
#include <k3spec/target/arena_slice.hpp>
#include <k3spec/target/k3_target.hpp>
#include <k3spec/target/new_tokens.hpp>
#include <k3spec/target/scratch.hpp>
#include <k3spec/target/state.hpp>
#include <k3spec/target/taps.hpp>

namespace K3SPEC_NAMESPACE {

/// What forward is to write. Rows are [sequence][new token].
template <class T>
struct TargetOutput {
  Matrix<T> last;                  ///< [rows, hidden], post-norm: what compute_logits reads
  std::span<const Tap> taps = {};  ///< hidden states to write side by side
  Matrix<T> tapped = {};           ///< [rows, taps · hidden]
};

/// Bytes of a target's weights as they are kept.
struct TargetBytes {
  std::size_t all = 0;
  std::size_t embedding = 0;  ///< of these, looked up and not multiplied with
  std::size_t experts = 0;    ///< of these, all experts of all layers
};

/// A target's weights, prepacked, on a device. Matrices are laid out anew. Of weights that are in the host's memory, it
/// views there the embedding and all vectors, so that they must live as long as this; weights that are still to be read
/// (target/load.hpp) it has for itself.
template <ForTarget Given, Element T, Device D = Cpu>
class FrozenTarget {
  using Config = complete_target_t<Given>;
  using Model = K3Target<Given>;
  using Layout = TargetLayout<Config>;
  using E = element_t<D, T>;
  using S = accumulate_t<E>;
  using Layer = PrepackedDecoderLayer<Config, E>;
  using Streams = ResidualStreams<Config, E>;
  using Scratch = TargetScratch<Config, E>;
  static constexpr index_t hidden = Model::hidden, layers = Model::layers;

 public:
  using config = Config;
  using value_type = T;
  using State = TargetState<Given, T, D>;
  using Output = TargetOutput<E>;

  /// Prepacks all layers' weights.
  /// \tparam Tensor  const T, of weights in the host's memory, or Unread<T>
  template <class Tensor>
  FrozenTarget(const D& device, const typename Model::template Weights<Tensor>& w)
      : embedding_(device, w.embed_tokens), norm_(device, w.norm), head_{device, {w.lm_head.matrix()}} {
    layers_.reserve(static_cast<std::size_t>(layers));
    for (index_t i = 0; i < layers; ++i) {
      Model::with_layer(w, i, [&](auto kind, const auto& layer) { layers_.emplace_back(device, kind, layer); });
    }
    if constexpr (Layout::has_residuals) {
      output_mix_ = moved_to(device, Model::Mix::template freeze<T>(w.output_attn_res));
    }
  }
  explicit FrozenTarget(const typename Model::template Weights<const T>& w) requires std::same_as<D, Cpu>
      : FrozenTarget(D{}, w) {}

  /// Bytes of scratch that forward takes for `tokens` new tokens of each of `sequences` sequences.
  static constexpr std::size_t scratch_bytes(index_t sequences, index_t tokens) {
    return sequences * tokens == 0 ? 0 : static_cast<std::size_t>(sequences) * Scratch::bytes(tokens);
  }
  /// No fewer than forward takes for `rows` new tokens in all, or fewer, whichever of the sequences they are of.
  static constexpr std::size_t ragged_scratch_bytes(index_t sequences, index_t rows) {
    // All rows as one sequence's, and per sequence what a piece of memory has besides its rows: a constant part and up
    // to 63 bytes of alignment, neither of which is more than the piece has for one row.
    return rows == 0 ? 0 : Scratch::bytes(rows) + 2 * static_cast<std::size_t>(sequences) * Scratch::bytes(1);
  }

  /// Processes new tokens, those of each sequence behind what the state knows of it; one that has none stays as it is.
  /// No result depends on how tokens are cut into calls or on the other rows.
  /// \throws Error, the state as it was, on ids out of range, sizes that do not fit and a full state
  void forward(const D& device, State& state, const NewTokens& tokens, const Output& out, arena_t<D>& arena) const {
    check(state, tokens, out);
    const index_t sequences = tokens.sequences(), rows = tokens.rows();
    if (rows == 0) return;
    Scope scope(arena);
    std::byte* memory = arena.template take<std::byte>(static_cast<index_t>(bytes_of(tokens, 0, sequences)));
    // A device that wakes threads for it does so once for several sequences, for one alone in each product.
    constexpr index_t parameters = Model::active_parameters();
    const index_t work = rows * (sequences > 1 ? parameters : parameters / layers);
    run_parts(device, sequences, work, [&](const D& part_device, index_t p, index_t parts) {
      const index_t begin = tokens.part_begin(p, parts), end = tokens.part_begin(p + 1, parts);
      std::byte* const mine = memory + bytes_of(tokens, 0, begin);
      for (index_t first = begin; first < end;) {
        const index_t count = together(tokens, first, end), row = tokens.rows_before(first);
        const index_t n = tokens.rows_before(first + count) - row;
        ArenaSlice slice(mine, bytes_of(tokens, first, count));
        const auto steps = state.steps(first, count, [&](index_t b) { return tokens.count(b); });
        if (n > 0) run(Call{part_device, state, steps, rows_of(out, row, n), slice}, tokens);
        first += count;
      }
    });
    for (index_t b = 0; b < sequences; ++b) {
      if (tokens.count(b) > 0) state.finish(state.step(b, tokens.count(b)));
    }
  }

  /// For drafts that have none of their own: [vocabulary, hidden], and lm_head.
  const Matrix<const E>& embedding() const { return embedding_.view(); }
  const PrepackedLinear<E>& head() const { return head_; }

  TargetBytes bytes() const {
    TargetBytes sum;
    sum.embedding = embedding_.bytes();
    sum.all = sum.embedding + norm_.bytes() + static_cast<std::size_t>(head_.bytes()) +
              sizeof(S) * static_cast<std::size_t>(output_mix_.size());
    for (const Layer& layer : layers_) {
      sum.all += layer.bytes();
      if (layer.moe) sum.experts += layer.moe->expert_bytes();
    }
    return sum;
  }

  /// logits [rows, vocabulary] = last [rows, hidden] · lm_headᵀ
  /// \throws Error on other shapes
  template <AnyView X, AnyView Y>
  void compute_logits(const D& device, const X& last, const Y& logits) const {
    require_shape("target: last", last, last.extent(0), hidden);
    require_shape("target: logits", logits, last.extent(0), Config::vocab_size);
    head_.forward(device, last, logits);
  }

 private:
  /// Some sequences of a batch.
  struct Call {
    const D& device;
    State& state;
    std::span<const SequenceStep> steps;  ///< of those that have new tokens
    Output out;
    ArenaSlice& arena;
  };

  static Output rows_of(const Output& out, index_t begin, index_t count) {
    return {out.last.rows(begin, count), out.taps, out.taps.empty() ? out.tapped : out.tapped.rows(begin, count)};
  }

  /// How many of the sequences [first, end) run through the layers together: all, unless fewer have enough rows for
  /// products with full tiles and what they keep between products fits into a core's own cache.
  static index_t together(const NewTokens& tokens, index_t first, index_t end) {
    const index_t count = std::min(tokens.sequences_with(128, first), end - first);
    return shares_memory<D> && bytes_of(tokens, first, count) <= std::size_t{2} << 20U ? count : end - first;
  }

  static std::size_t bytes_of(const NewTokens& tokens, index_t first, index_t sequences) {
    std::size_t sum = 0;
    for (index_t b = first; b < first + sequences; ++b) sum += scratch_bytes(1, tokens.count(b));
    return sum;
  }

  void run(const Call& call, const NewTokens& tokens) const {
    auto a = Streams::allocate(call.arena, call.out.last.extent(0));
    embed(call, tokens, a.current());
    tap(call, {Tap::What::embedding}, a.current());
    for (index_t i = 0; i < layers; ++i) run_layer(call, i, a);
    finish(call, a);
  }

  static void check(const State& state, const NewTokens& tokens, const Output& out) {
    const auto want = [](const char* what, index_t found, index_t wanted) {
      if (found != wanted) throw Error(std::string("target: ") + what, std::to_string(found), std::to_string(wanted));
    };
    want("rows of ids", tokens.sequences(), state.sequences());
    for (index_t b = 0; b < tokens.sequences(); ++b) state.step(b, tokens.count(b));
    const index_t rows = tokens.rows();
    want("rows of last", out.last.extent(0), rows);
    want("columns of last", out.last.extent(1), hidden);
    if (!out.taps.empty()) {
      want("rows of tapped", out.tapped.extent(0), rows);
      want("columns of tapped", out.tapped.extent(1), static_cast<index_t>(out.taps.size()) * hidden);
    }
    for (const Tap& t : out.taps) detail::check_layer("tap: layer", has_layer(t) ? t.layer : 0, 0, layers);
    for (index_t b = 0; b < tokens.sequences(); ++b) {
      for (const index_t id : tokens.of(b)) {
        if (id >= 0 && id < Config::vocab_size) continue;
        throw Error("target: token id", std::to_string(id), "0 to " + std::to_string(Config::vocab_size - 1));
      }
    }
  }

  void embed(const Call& call, const NewTokens& tokens, const Matrix<E>& x) const {
    if constexpr (shares_memory<D>) {
      for (const SequenceStep& step : call.steps) {
        const Vector<const index_t> ids(tokens.of(step.sequence).data(), step.tokens);
        embedding_forward<E>(call.device, ids, embedding(), x.rows(step.row, step.tokens));
      }
    } else {
      Scope scope(call.arena);
      const Vector<element_t<D, index_t>> ids(call.arena.template take<element_t<D, index_t>>(x.extent(0)),
                                              x.extent(0));
      upload_ids(call, tokens, ids);
      embedding_forward<E>(call.device, ids, embedding(), x);
    }
  }

  /// Ids that stand behind one another travel together.
  static void upload_ids(const Call& call, const NewTokens& tokens, const Vector<element_t<D, index_t>>& to) {
    for (auto step = call.steps.begin(); step != call.steps.end();) {
      const index_t* const from = tokens.of(step->sequence).data();
      const index_t row = step->row;
      index_t count = 0;
      for (; step != call.steps.end() && tokens.of(step->sequence).data() == from + count; ++step)
        count += step->tokens;
      upload(call.device, Vector<const index_t>(from, count), to.rows(row, count));
    }
  }

  static void tap(const Call& call, const Tap& which, const Matrix<E>& x) {
    for (std::size_t i = 0; i < call.out.taps.size(); ++i) {
      const Tap& wanted = call.out.taps[i];
      if (wanted.what != which.what || (has_layer(which) && wanted.layer != which.layer)) continue;
      copy(call.device, x, call.out.tapped.columns(static_cast<index_t>(i) * hidden, hidden));
    }
  }
  static bool has_layer(const Tap& t) {
    return t.what == Tap::What::running_sum || t.what == Tap::What::residual_mixture;
  }

  /// What the layer after `layer` reads, before its norm.
  const Matrix<E>& mix(const Call& call, const buffer_t<D, S>& w, const Streams& a) const {
    if (!Layout::has_residuals || a.blocks == 0) return a.current();
    attention_residual<E, const S>(call.device, a.values(), Vector<const S>(w.data(), hidden), Config::rms_norm_eps,
                                   a.mixed);
    return a.mixed;
  }

  void norm(const Call& call, const Vector<const E>& w, const Matrix<E>& x, const Matrix<E>& y) const {
    rms_norm_forward<E>(call.device, w, Config::rms_norm_eps, x, y);
  }

  void run_layer(const Call& call, index_t i, Streams& a) const {
    const Layer& layer = layers_[static_cast<std::size_t>(i)];
    const Matrix<E>& input = mix(call, layer.attention_mix, a);
    if (i > 0) tap(call, {Tap::What::residual_mixture, i - 1}, input);
    norm(call, layer.input_norm.view(), input, a.normed);
    // A block's start stays as it is; the sum begins anew with this layer's attention.
    if (Layout::begins_block(i)) ++a.blocks;
    attend(call, i, a, Layout::begins_block(i) ? Into::overwrite : Into::accumulate);
    norm(call, layer.mlp_norm.view(), mix(call, layer.mlp_mix, a), a.normed);
    if (layer.moe) {
      LatentMoe<Config>::forward(call.device, *layer.moe, a.normed, a.current(), Into::accumulate, call.arena);
    } else {
      DenseMLP<Config, Config::intermediate_size>::forward(call.device, *layer.dense, a.normed, a.current(),
                                                           Into::accumulate, call.arena);
    }
    tap(call, {Tap::What::running_sum, i}, a.current());
  }

  void attend(const Call& call, index_t i, const Streams& a, Into into) const {
    const Layer& layer = layers_[static_cast<std::size_t>(i)];
    const index_t slot = Layout::attention_slot(i);
    if (layer.kda) {
      KdaAttention<Config>::template forward<E>(call.device, *layer.kda, call.state.kda(slot, call.steps), a.normed,
                                                a.current(), into, call.arena);
    } else {
      MlaAttention<Config>::template forward<E>(call.device, *layer.mla, call.state.mla(slot, call.steps), a.normed,
                                                a.current(), into, call.arena);
    }
  }

  void finish(const Call& call, const Streams& a) const {
    const Matrix<E>& input = mix(call, output_mix_, a);
    tap(call, {Tap::What::residual_mixture, layers - 1}, input);
    norm(call, norm_.view(), input, call.out.last);
    tap(call, {Tap::What::post_norm}, call.out.last);
  }

  Held<D, T, dyn, dyn> embedding_;
  Held<D, T, dyn> norm_;
  PrepackedLinear<E> head_;
  std::vector<Layer> layers_;
  buffer_t<D, S> output_mix_;
};

}  // namespace K3SPEC_NAMESPACE
