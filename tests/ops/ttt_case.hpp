#pragma once
/// \file
/// TTT attention on operands that depend on (sequence, position) alone, and the same with whole rows of scores.
/// defines: test::padded, test::Case, test::Small, test::Naive, test::near

#include <doctest/doctest.h>

#include <cstring>
#include <span>
#include <vector>

#include <tests/support/log_sums.hpp>
#include <k3spec/core/rng.hpp>
#include <k3spec/ops/ttt_attention.hpp>

namespace k3spec::test {

/// Kinds of padding: none, at the end, at the start, everywhere.
inline std::vector<std::uint8_t> padded(index_t sequences, index_t length) {
  std::vector<std::uint8_t> mask;
  for (index_t s = 0; s < sequences; ++s) {
    for (index_t t = 0; t < length; ++t) {
      mask.push_back(s % 4 == 0 || (s % 4 == 1 && 3 * t < 2 * length) || (s % 4 == 2 && 3 * t >= length) ? 1 : 0);
    }
  }
  return mask;
}

/// Operands and results of `steps` steps; equal for equal (sequence, position) whatever the length.
template <class T, index_t Heads, index_t Nope, index_t Rope, index_t V, class Scale = SqrtScale>
struct Case {
  using Shape = AttentionHeads<Heads, Nope, Rope, V>;
  using S = accumulate_t<T>;
  index_t sequences, length, rows = sequences * length;
  std::vector<std::uint8_t> mask;
  std::vector<index_t> starts;  // of documents; empty: each sequence is one
  std::vector<T> q, o;
  std::vector<LogSumExp<S>> lse;
  std::vector<S> d_o, d_q;
  std::vector<std::vector<T>> kv, k_rope;
  std::vector<std::vector<S>> d_kv, d_k_rope;

  Case(index_t b, index_t n, std::size_t steps, std::vector<std::uint8_t> m) : sequences(b), length(n), mask(m) {
    random(q, Heads * (Nope + Rope), 1), random(d_o, Heads * V, 2);
    o.assign(d_o.size(), T(NAN)), d_q.assign(q.size(), S(NAN));
    lse.assign(static_cast<std::size_t>(rows * Heads), LogSumExp<S>{NAN, NAN});
    kv.resize(steps), k_rope.resize(steps), d_kv.resize(steps), d_k_rope.resize(steps);
    for (std::size_t s = 0; s < steps; ++s) {
      random(kv[s], Heads * (Nope + V), 10 + s), random(k_rope[s], Rope, 20 + s);
      d_kv[s].assign(kv[s].size(), S(NAN)), d_k_rope[s].assign(k_rope[s].size(), S(NAN));
    }
  }

  template <class U>
  void random(std::vector<U>& to, index_t columns, std::uint64_t stream) {
    for (index_t r = 0; r < rows; ++r) {
      const Philox draws(static_cast<std::uint64_t>(r / length * 1000 + r % length), stream);
      for (index_t j = 0; j < columns; ++j) {
        to.push_back(U(static_cast<accumulate_t<U>>(draws.normal(static_cast<std::uint64_t>(j)))));
      }
    }
  }

  AttentionSpan span() const { return {sequences, length, length}; }
  CausalVisibility visible() const { return {mask.data(), length, starts.empty() ? nullptr : starts.data()}; }
  /// Every sequence is packed with documents of these lengths.
  void pack(const std::vector<index_t>& lengths) {
    for (index_t s = 0; s < sequences; ++s) {
      index_t start = 0;
      for (const index_t n : lengths) starts.insert(starts.end(), static_cast<std::size_t>(n), start), start += n;
      REQUIRE(start == length);
    }
  }
  index_t first_key(index_t row) const { return starts.empty() ? 0 : starts[static_cast<std::size_t>(row)]; }
  template <class U, class X>
  Matrix<U> matrix(X& x) const {
    return Matrix<U>(x.data(), rows, static_cast<index_t>(x.size()) / std::max<index_t>(1, rows));
  }
  TttProblem<Shape, T, CausalVisibility> problem() const {
    AttentionSteps<const T> all;
    for (std::size_t s = 0; s < kv.size(); ++s) all.add({matrix<const T>(kv[s]), matrix<const T>(k_rope[s])});
    return {span(), matrix<const T>(q), all, visible(), Scale::template of<S>(Shape::qk)};
  }
  AttentionResult<T> result() { return {matrix<T>(o), matrix<LogSumExp<S>>(lse)}; }
  TttGradients<S> gradients() {
    TttGradients<S> d{matrix<S>(d_q), {}};
    for (std::size_t s = 0; s < kv.size(); ++s) d.d_steps.add({matrix<S>(d_kv[s]), matrix<S>(d_k_rope[s])});
    return d;
  }
  void forward() { ttt_attention_forward(Cpu{1}, problem(), result()); }
  void backward() {
    Arena scratch(ttt_attention_scratch<Shape, T>(rows, static_cast<index_t>(kv.size())));
    ttt_attention_backward(Cpu{1}, problem(), result(), matrix<const S>(d_o), gradients(), scratch);
  }
};

template <class T>
using Small = Case<T, 2, 5, 3, 7>;

/// The same with whole score rows in memory, one query and head at a time.
struct Naive {
  const Small<double>& c;
  std::vector<double> o, lse, d_q;
  std::vector<std::vector<double>> d_kv, d_k_rope;

  explicit Naive(const Small<double>& of) : c(of), o(of.o.size()), lse(of.lse.size()), d_q(of.q.size()) {
    for (const auto& x : c.kv) d_kv.emplace_back(x.size());
    for (const auto& x : c.k_rope) d_k_rope.emplace_back(x.size());
    for (index_t r = 0; r < c.rows; ++r) {
      for (index_t h = 0; h < 2; ++h) row(r, h);
    }
  }

  struct Key {
    std::size_t step;
    index_t row;
    double weight;
  };

  /// Element j of a row of heads, `width` each.
  static std::size_t at(index_t row, index_t heads, index_t head, index_t width, index_t j) {
    return static_cast<std::size_t>((row * heads + head) * width + j);
  }

  void row(index_t r, index_t h) {
    std::vector<Key> keys;
    for (index_t j = r / c.length * c.length + c.first_key(r); j <= r; ++j) {
      if (c.mask[static_cast<std::size_t>(j)] != 0) keys.push_back({0, j, 0});
    }
    for (std::size_t s = 1; s < c.kv.size(); ++s) keys.push_back({s, r, 0});
    const double scale = 1 / std::sqrt(8.0);
    double total = 0;
    for (Key& key : keys) {
      double score = 0;
      for (index_t j = 0; j < 5; ++j) score += c.q[at(r, 2, h, 8, j)] * c.kv[key.step][at(key.row, 2, h, 12, j)];
      for (index_t j = 0; j < 3; ++j) score += c.q[at(r, 2, h, 8, 5 + j)] * c.k_rope[key.step][at(key.row, 1, 0, 3, j)];
      key.weight = std::exp(score * scale);
      total += key.weight;
    }
    lse[at(r, 2, h, 1, 0)] = keys.empty() ? INFINITY : std::log(total);
    double delta = 0;
    for (Key& key : keys) {
      key.weight /= total;
      for (index_t j = 0; j < 7; ++j) {
        const double v = c.kv[key.step][at(key.row, 2, h, 12, 5 + j)];
        o[at(r, 2, h, 7, j)] += key.weight * v;
        delta += key.weight * v * c.d_o[at(r, 2, h, 7, j)];
      }
    }
    for (const Key& key : keys) gradients(r, h, key, delta, scale);
  }

  void gradients(index_t r, index_t h, const Key& key, double delta, double scale) {
    double d = 0;
    for (index_t j = 0; j < 7; ++j) {
      d += c.d_o[at(r, 2, h, 7, j)] * c.kv[key.step][at(key.row, 2, h, 12, 5 + j)];
      d_kv[key.step][at(key.row, 2, h, 12, 5 + j)] += key.weight * c.d_o[at(r, 2, h, 7, j)];
    }
    d = key.weight * (d - delta) * scale;
    for (index_t j = 0; j < 5; ++j) {
      d_q[at(r, 2, h, 8, j)] += d * c.kv[key.step][at(key.row, 2, h, 12, j)];
      d_kv[key.step][at(key.row, 2, h, 12, j)] += d * c.q[at(r, 2, h, 8, j)];
    }
    for (index_t j = 0; j < 3; ++j) {
      d_q[at(r, 2, h, 8, 5 + j)] += d * c.k_rope[key.step][at(key.row, 1, 0, 3, j)];
      d_k_rope[key.step][at(key.row, 1, 0, 3, j)] += d * c.q[at(r, 2, h, 8, 5 + j)];
    }
  }
};

/// Sums of at most 200 terms near 1: 200 · 2⁻⁵³ and the softmax's handful of operations stay below 1e-12.
inline void near(const char* what, const std::vector<double>& found, const std::vector<double>& wanted) {
  CAPTURE(what);
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (found[i] == wanted[i]) continue;  // infinities, too
    largest = std::max(largest, std::abs(wanted[i]));
    error = std::max(error, std::abs(found[i] - wanted[i]));
    if (!std::isfinite(found[i])) error = INFINITY;
  }
  CHECK(error <= 1e-12 * largest);
}

}  // namespace k3spec::test
