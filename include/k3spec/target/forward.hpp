#pragma once
/// \file
/// Runs the target on new tokens of every sequence of a batch.
/// defines: FrozenTarget, TargetOutput

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <k3spec/config/complete.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/ops/attention_residual.hpp>
#include <k3spec/target/arena_slice.hpp>
#include <k3spec/target/k3_target.hpp>
#include <k3spec/target/new_tokens.hpp>
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

/// A target's weights made ready to run. Matrices are laid out anew; the embedding and all vectors are viewed, so the
/// parameters must live as long as this.
template <ForTarget Given, Element T>
class FrozenTarget {
  using Config = complete_target_t<Given>;
  using Model = K3Target<Given>;
  using Layout = TargetLayout<Config>;
  using S = accumulate_t<T>;
  using Layer = FrozenDecoderLayer<Config, T>;
  static constexpr index_t hidden = Model::hidden, layers = Model::layers;
  static constexpr index_t streams = Layout::residual_blocks + 1;
  static_assert(streams <= max_residual_values, "K3 target: attn_res_block_size is too small for so many layers");

 public:
  using config = Config;
  using value_type = T;
  using State = TargetState<Given, T>;

  explicit FrozenTarget(const typename Model::template Weights<const T>& w)
      : embedding_(w.embed_tokens), norm_(w.norm), head_{w.lm_head.matrix()} {
    layers_.reserve(static_cast<std::size_t>(layers));
    for (index_t i = 0; i < layers; ++i) {
      Model::with_layer(w, i, [&](auto kind, const auto& layer) { layers_.emplace_back(kind, layer); });
    }
    if constexpr (Layout::has_residuals) output_mix_ = Model::Mix::template freeze<T>(w.output_attn_res);
  }

  /// Bytes of scratch that forward takes for `tokens` new tokens of each of `sequences` sequences.
  static constexpr std::size_t scratch_bytes(index_t sequences, index_t tokens) {
    return sequences * tokens == 0 ? 0 : static_cast<std::size_t>(sequences) * sequence_bytes(tokens);
  }
  /// No fewer than forward takes for `rows` new tokens in all, or fewer, whichever of the sequences they are of.
  static constexpr std::size_t ragged_scratch_bytes(index_t sequences, index_t rows) {
    // All rows as one sequence's, and per sequence what a piece of memory has besides its rows: a constant part and up
    // to 63 bytes of alignment, neither of which is more than the piece has for one row.
    return rows == 0 ? 0 : sequence_bytes(rows) + 2 * static_cast<std::size_t>(sequences) * sequence_bytes(1);
  }

  /// Processes new tokens, those of each sequence behind what the state knows of it; one that has none stays as it is.
  /// No result depends on how tokens are cut into calls or on the other rows.
  /// \throws Error, the state as it was, on ids out of range, sizes that do not fit and a full state
  void forward(const Cpu& cpu, State& state, const NewTokens& tokens, const TargetOutput<T>& out, Arena& arena) const {
    check(state, tokens, out);
    const index_t sequences = tokens.sequences(), rows = tokens.rows();
    if (rows == 0) return;
    Scope scope(arena);
    std::byte* memory = arena.take<std::byte>(static_cast<index_t>(bytes_of(tokens, 0, sequences)));
    // Sequences know nothing of one another: each thread takes some through all layers. One alone has all threads.
    const Cpu device = threads_for(cpu, rows, sequences);
    const index_t parts = std::min<index_t>(std::max(device.threads, 1), sequences);
    parallel_for(device, parts, [&](index_t p) {
      const index_t first = part_begin(tokens, p, parts), count = part_begin(tokens, p + 1, parts) - first;
      const index_t row = tokens.rows_before(first), n = tokens.rows_before(first + count) - row;
      if (n == 0) return;
      ArenaSlice slice(memory + bytes_of(tokens, 0, first), bytes_of(tokens, first, count));
      run({parts == 1 ? device : Cpu{1}, state, first, count, rows_of(out, row, n), slice}, tokens);
    });
    for (index_t b = 0; b < sequences; ++b) {
      if (tokens.count(b) > 0) state.finish(state.step(b, tokens.count(b)));
    }
  }

  /// For drafts that have none of their own: [vocab, hidden], and lm_head.
  const Matrix<const T>& embedding() const { return embedding_; }
  const FrozenLinear<T>& head() const { return head_; }

  /// logits [rows, vocab] = last [rows, hidden] · lm_headᵀ
  /// \throws Error on other shapes
  template <AnyView X, AnyView Y>
  void compute_logits(const Cpu& cpu, const X& last, const Y& logits) const {
    require_shape("target: last", last, last.extent(0), hidden);
    require_shape("target: logits", logits, last.extent(0), Config::vocab_size);
    head_.forward(cpu, last, logits);
  }

 private:
  /// A call with few rows in a small model is over before other threads would have woken up for each of its products;
  /// for several sequences they wake up once.
  static Cpu threads_for(const Cpu& cpu, index_t rows, index_t sequences) {
    constexpr index_t model = Model::active_parameters(), worth_waking = index_t{1} << 22;
    return rows * (sequences > 1 ? model : model / layers) < worth_waking ? Cpu{1} : cpu;
  }

  /// Some sequences of a batch.
  struct Call {
    Cpu cpu;
    State& state;
    index_t first, sequences;
    TargetOutput<T> out;
    ArenaSlice& arena;
    std::span<const SequenceStep> steps = {};  ///< of those that have new tokens
  };

  static TargetOutput<T> rows_of(const TargetOutput<T>& out, index_t begin, index_t count) {
    return {out.last.rows(begin, count), out.taps, out.taps.empty() ? out.tapped : out.tapped.rows(begin, count)};
  }

  /// The first sequence of part p of several that have about as many rows each.
  static index_t part_begin(const NewTokens& tokens, index_t p, index_t parts) {
    if (p == parts) return tokens.sequences();
    const index_t rows = tokens.rows() * p / parts;
    index_t b = 0, before = 0;
    while (before < rows) before += tokens.count(b++);
    return b;
  }

  static std::size_t bytes_of(const NewTokens& tokens, index_t first, index_t sequences) {
    std::size_t sum = 0;
    for (index_t b = first; b < first + sequences; ++b) sum += scratch_bytes(1, tokens.count(b));
    return sum;
  }

  void run(Call call, const NewTokens& tokens) const {
    call.steps = steps(call, tokens);
    auto a = Activations::allocate(call.arena, call.out.last.extent(0));
    embed(call, tokens, a.current());
    tap(call, {Tap::What::embedding}, a.current());
    for (index_t i = 0; i < layers; ++i) run_layer(call, i, a);
    finish(call, a);
  }

  /// The residual streams, [rows, hidden] each: the starts of the blocks so far, and the current sum.
  struct Activations {
    std::array<Matrix<T>, static_cast<std::size_t>(streams)> stream;
    Matrix<T> mixed, normed;
    index_t blocks = 0;

    template <Allocator A>
    static constexpr Activations allocate(A& a, index_t rows) {
      Activations s;
      const auto take = [&](Matrix<T>& m) { m = Matrix<T>(a.template take<T>(rows * hidden), rows, hidden); };
      for (auto& m : s.stream) take(m);
      take(s.mixed), take(s.normed);
      return s;
    }
    const Matrix<T>& current() const { return stream[static_cast<std::size_t>(blocks)]; }
    /// All values that a mixture has, the current sum last.
    std::span<const Matrix<T>> values() const { return std::span(stream.data(), static_cast<std::size_t>(blocks + 1)); }
  };

  /// Scratch of one sequence; several take no more than several times as much.
  static constexpr std::size_t sequence_bytes(index_t tokens) {
    return plan_bytes([&](ArenaPlan& a) {
      a.template take<SequenceStep>(1);
      Activations::allocate(a, tokens);
      a.borrow(layer_bytes(tokens));
    });
  }

  static constexpr std::size_t layer_bytes(index_t tokens) {
    std::size_t most = 0;
    const auto need = [&](bool used, auto&& take) {
      if (used) most = std::max(most, plan_bytes(take));
    };
    const auto any = [&](LayerKind a, LayerKind b) { return Layout::count(a) + Layout::count(b) > 0; };
    need(any(LayerKind::kda_dense, LayerKind::kda_moe), [&](ArenaPlan& a) {
      a.template take<KdaSequence<T>>(1);
      KdaAttention<Config>::template Scratch<T>::allocate(a, tokens, tokens);
    });
    need(any(LayerKind::mla_dense, LayerKind::mla_moe), [&](ArenaPlan& a) {
      a.template take<LatentSequence<T>>(1);
      MlaAttention<Config>::template Scratch<T>::allocate(a, tokens);
    });
    need(any(LayerKind::kda_dense, LayerKind::mla_dense),
         [&](ArenaPlan& a) { DenseMlp<Config, Config::intermediate_size>::template Scratch<T>::allocate(a, tokens); });
    need(any(LayerKind::kda_moe, LayerKind::mla_moe),
         [&](ArenaPlan& a) { a.borrow(LatentMoe<Config>::template scratch_bytes<T>(tokens)); });
    return most;
  }

  static void check(const State& state, const NewTokens& tokens, const TargetOutput<T>& out) {
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

  static std::span<const SequenceStep> steps(const Call& call, const NewTokens& tokens) {
    index_t count = 0, row = 0;
    for (index_t b = 0; b < call.sequences; ++b) count += tokens.count(call.first + b) > 0 ? 1 : 0;
    SequenceStep* const steps = call.arena.template take<SequenceStep>(count);
    SequenceStep* s = steps;
    for (index_t b = call.first; b < call.first + call.sequences; ++b) {
      if (tokens.count(b) == 0) continue;
      *s = call.state.step(b, tokens.count(b));
      s->row = row, row += s->tokens, ++s;
    }
    return {steps, s};
  }

  void embed(const Call& call, const NewTokens& tokens, const Matrix<T>& x) const {
    for (const SequenceStep& step : call.steps) {
      index_t row = step.row;
      for (const index_t id : tokens.of(step.sequence)) std::copy_n(embedding_.row(id), hidden, x.row(row++));
    }
  }

  static void tap(const Call& call, const Tap& which, const Matrix<T>& x) {
    for (std::size_t i = 0; i < call.out.taps.size(); ++i) {
      const Tap& wanted = call.out.taps[i];
      if (wanted.what != which.what || (has_layer(which) && wanted.layer != which.layer)) continue;
      const auto to = call.out.tapped.columns(static_cast<index_t>(i) * hidden, hidden);
      for (index_t r = 0; r < x.extent(0); ++r) std::copy_n(x.row(r), hidden, to.row(r));
    }
  }
  static bool has_layer(const Tap& t) {
    return t.what == Tap::What::running_sum || t.what == Tap::What::residual_mixture;
  }

  /// What the layer after `layer` reads, before its norm.
  const Matrix<T>& mix(const Call& call, const Buffer<S>& w, const Activations& a) const {
    if (!Layout::has_residuals || a.blocks == 0) return a.current();
    attention_residual<T, const S>(call.cpu, a.values(), Vector<const S>(w.data(), hidden), Config::rms_norm_eps,
                                   a.mixed);
    return a.mixed;
  }

  void norm(const Call& call, const Vector<const T>& w, const Matrix<T>& x, const Matrix<T>& y) const {
    rms_norm_forward<T>(call.cpu, w, Config::rms_norm_eps, x, y);
  }

  void run_layer(const Call& call, index_t i, Activations& a) const {
    const Layer& layer = layers_[static_cast<std::size_t>(i)];
    const Matrix<T>& input = mix(call, layer.attention_mix, a);
    if (i > 0) tap(call, {Tap::What::residual_mixture, i - 1}, input);
    norm(call, layer.input_norm, input, a.normed);
    // A block's start stays as it is; the sum begins anew with this layer's attention.
    if (Layout::begins_block(i)) ++a.blocks;
    attend(call, i, a, Layout::begins_block(i) ? Into::overwrite : Into::accumulate);
    norm(call, layer.mlp_norm, mix(call, layer.mlp_mix, a), a.normed);
    if (layer.moe) {
      LatentMoe<Config>::forward(call.cpu, *layer.moe, a.normed, a.current(), Into::accumulate, call.arena);
    } else {
      DenseMlp<Config, Config::intermediate_size>::forward(call.cpu, *layer.dense, a.normed, a.current(),
                                                           Into::accumulate, call.arena);
    }
    tap(call, {Tap::What::running_sum, i}, a.current());
  }

  void attend(const Call& call, index_t i, const Activations& a, Into into) const {
    const Layer& layer = layers_[static_cast<std::size_t>(i)];
    const index_t slot = Layout::attention_slot(i);
    Scope scope(call.arena);
    if (layer.kda) {
      const auto of = [&](const SequenceStep& step) { return call.state.kda(slot, step); };
      KdaAttention<Config>::template forward<T>(call.cpu, *layer.kda, sequences<KdaSequence<T>>(call, of), a.normed,
                                                a.current(), into, call.arena);
    } else {
      const auto of = [&](const SequenceStep& step) { return call.state.mla(slot, step); };
      MlaAttention<Config>::template forward<T>(call.cpu, *layer.mla, sequences<LatentSequence<T>>(call, of), a.normed,
                                                a.current(), into, call.arena);
    }
  }

  /// What a layer is given of each sequence.
  template <class Sequence, class F>
  static std::span<const Sequence> sequences(const Call& call, F&& of) {
    auto* const all = call.arena.template take<Sequence>(static_cast<index_t>(call.steps.size()));
    return {all, std::transform(call.steps.begin(), call.steps.end(), all, of)};
  }

  void finish(const Call& call, const Activations& a) const {
    const Matrix<T>& input = mix(call, output_mix_, a);
    tap(call, {Tap::What::residual_mixture, layers - 1}, input);
    norm(call, norm_, input, call.out.last);
    tap(call, {Tap::What::post_norm}, call.out.last);
  }

  Matrix<const T> embedding_;
  Vector<const T> norm_;
  FrozenLinear<T> head_;
  std::vector<Layer> layers_;
  Buffer<S> output_mix_;
};

}  // namespace K3SPEC_NAMESPACE
