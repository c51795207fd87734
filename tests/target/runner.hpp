#pragma once
/// \file
/// defines: test::Runner, test::Run

#include <vector>

#include <k3spec/target/forward.hpp>

namespace k3spec::test {

/// Every hidden state of a stretch of tokens of one batch, rows [sequence][token].
template <class T>
struct Run {
  index_t rows = 0;
  std::vector<T> tapped, last, logits;

  friend bool operator==(const Run& a, const Run& b) {
    const auto same = [](const std::vector<T>& x, const std::vector<T>& y) {
      return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
    };
    return a.rows == b.rows && same(a.tapped, b.tapped) && same(a.last, b.last) && same(a.logits, b.logits);
  }
};

/// A target with all its taps on.
template <class Config, class T>
class Runner {
 public:
  using Model = K3Target<Config>;
  using State = TargetState<Config, T>;
  static constexpr index_t hidden = Config::hidden_size, vocab = Config::vocab_size;
  static constexpr index_t layers = Config::num_hidden_layers;

  Parameters<Model, T> parameters;
  std::optional<FrozenTarget<Config, T>> frozen;
  std::vector<Tap> taps;
  int threads = 1;

  Runner() {
    taps.push_back({Tap::What::embedding});
    for (index_t i = 0; i < layers; ++i) taps.push_back({Tap::What::running_sum, i});
    for (index_t i = 0; i < layers; ++i) taps.push_back({Tap::What::residual_mixture, i});
    taps.push_back({Tap::What::post_norm});
  }
  void freeze() { frozen.emplace(parameters.weights()); }

  Run<T> operator()(State& state, const std::vector<index_t>& ids) const {
    const index_t sequences = state.sequences(), tokens = static_cast<index_t>(ids.size()) / sequences;
    Arena arena(FrozenTarget<Config, T>::scratch_bytes(sequences, tokens));
    const auto run = forward(state, Matrix<const index_t>(ids.data(), sequences, tokens), arena);
    CHECK(arena.peak() == (ids.empty() ? 0 : arena.capacity()));
    return run;
  }

  /// Of each sequence another number of tokens.
  Run<T> operator()(State& state, const std::vector<index_t>& ids, const std::vector<index_t>& counts) const {
    Arena arena(FrozenTarget<Config, T>::ragged_scratch_bytes(state.sequences(), static_cast<index_t>(ids.size())));
    return forward(state, NewTokens(ids, counts), arena);
  }

  /// One tap's columns.
  Matrix<const T> tapped(const Run<T>& run, Tap which) const {
    const auto at = std::find(taps.begin(), taps.end(), which) - taps.begin();
    return Matrix<const T>(run.tapped.data(), run.rows, static_cast<index_t>(taps.size()) * hidden)
        .columns(static_cast<index_t>(at) * hidden, hidden);
  }

  Run<T> forward(State& state, const NewTokens& tokens, Arena& arena) const {
    const index_t rows = tokens.rows(), width = static_cast<index_t>(taps.size()) * hidden;
    const auto size = static_cast<std::size_t>(rows);
    Run<T> run;
    run.rows = rows;
    run.tapped.resize(size * static_cast<std::size_t>(width));
    run.last.resize(size * hidden);
    run.logits.resize(size * vocab);
    arena.poison();
    const Matrix<T> last(run.last.data(), rows, hidden);
    frozen->forward(Cpu{threads}, state, tokens, {last, taps, Matrix<T>(run.tapped.data(), rows, width)}, arena);
    frozen->compute_logits(Cpu{threads}, last, Matrix<T>(run.logits.data(), rows, vocab));
    return run;
  }

  /// Tokens [begin, end) of every row of ids [sequences, length].
  static std::vector<index_t> slice(const std::vector<index_t>& ids, index_t sequences, index_t begin, index_t end) {
    const index_t length = static_cast<index_t>(ids.size()) / sequences;
    std::vector<index_t> out;
    for (index_t b = 0; b < sequences; ++b) {
      out.insert(out.end(), ids.begin() + b * length + begin, ids.begin() + b * length + end);
    }
    return out;
  }
};

}  // namespace k3spec::test
