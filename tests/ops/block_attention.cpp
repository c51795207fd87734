// Which keys a block's rows see, that only visible tiles are read, and that neither neighbours nor threads change a
// bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <tests/ops/offsets.hpp>
#include <tests/support/log_sums.hpp>
#include <tests/support/same_bits.hpp>
#include <k3spec/core/rng.hpp>
#include <k3spec/ops/block_attention.hpp>

using namespace k3spec;
using test::added_up;
using test::same_bits;
using test::terms;

namespace {

std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

/// Anchors, and who sees what, said key by key.
struct Blocks {
  std::string name;
  BlockSpan span;
  std::vector<index_t> anchors{}, documents{};  // first position of each position's document
  std::vector<std::uint8_t> keep{};
  std::optional<index_t> window{};
  bool causal = false;

  BlockVisibility visible() const {
    return {anchors.data(), keep.empty() ? nullptr : keep.data(), documents.empty() ? nullptr : documents.data(),
            window, causal};
  }
  index_t block_of(index_t row) const { return row / span.block_size; }
  index_t sequence_of(index_t row) const { return block_of(row) / span.blocks; }

  bool sees_context(index_t row, index_t p) const {
    const index_t block = block_of(row), anchor = anchors[at(block)], offset = row % span.block_size;
    if (!keep.empty() && keep[at(block)] == 0) return false;
    if (window.has_value() && anchor + offset - p >= *window) return false;
    const index_t first = sequence_of(row) * span.context;
    if (!documents.empty() && documents[at(first + p)] != documents[at(first + anchor)]) return false;
    return p < anchor;
  }
  bool sees_noise(index_t row, index_t other) const {
    return block_of(row) == block_of(other) && (!causal || other <= row);
  }
};

/// Evenly spread, from 0 (nothing before it) to the context's end; with documents to its last position.
Blocks ascending(std::string name, const BlockSpan& span) {
  Blocks b{std::move(name), span};
  for (index_t i = 0; i < span.sequences * span.blocks; ++i) {
    b.anchors.push_back(i % span.blocks * span.context / std::max<index_t>(1, span.blocks - 1));
  }
  return b;
}

/// Anywhere, in any order, some twice.
Blocks scattered(std::string name, const BlockSpan& span) {
  Blocks b{std::move(name), span};
  for (index_t i = 0; i < span.sequences * span.blocks; ++i) b.anchors.push_back((i * 7919 + i / 3) % span.context);
  return b;
}

std::vector<Blocks> variants() {
  std::vector<Blocks> all{ascending("plain", {2, 150, 9, 4}),
                          scattered("scattered", {3, 140, 13, 7}),
                          ascending("causal", {1, 130, 5, 6}),
                          scattered("window", {3, 150, 11, 5}),
                          scattered("window 1", {1, 70, 10, 5}),
                          scattered("window below offset", {1, 150, 12, 8}),
                          scattered("documents", {2, 150, 10, 3}),
                          scattered("documents, window", {1, 150, 10, 6}),
                          ascending("dropped", {2, 90, 12, 4}),
                          ascending("all dropped", {1, 90, 3, 4}),
                          ascending("block of 1", {1, 150, 70, 1}),
                          ascending("block over a tile of queries", {3, 70, 2, 40}),
                          scattered("block over a tile of keys", {1, 90, 2, 70}),
                          ascending("one block", {1, 66, 1, 8}),
                          ascending("no context", {1, 0, 3, 5}),
                          ascending("no blocks", {2, 20, 0, 5}),
                          scattered("context of 1", {3, 1, 2, 2})};
  const auto of = [&](const char* name) -> Blocks& {
    return *std::find_if(all.begin(), all.end(), [&](const Blocks& b) { return b.name == name; });
  };
  of("causal").causal = of("block over a tile of queries").causal = of("window below offset").causal = true;
  of("window").window = 67, of("window 1").window = 1, of("window below offset").window = 4;
  of("documents, window").window = 20;
  for (const char* name : {"documents", "documents, window"}) {
    Blocks& b = of(name);
    for (index_t r = 0; r < b.span.context_rows(); ++r) {
      const index_t p = r % b.span.context, more = r / b.span.context;  // other cuts in each sequence
      b.documents.push_back(p < 8 ? 0 : p < 18 + more ? 8 : p < 97 - more ? 18 + more : 97 - more);
    }
  }
  for (index_t i = 0; i < 24; ++i) of("dropped").keep.push_back(i % 3 == 1 ? 0 : 1);
  of("all dropped").keep.assign(3, 0);
  of("one block").anchors[0] = 66;
  return all;
}

/// Claims that everything may be seen, and masks each pair: no tile is left out.
struct Dense : BlockVisibility {
  Interval reach(const BlockSpan& span, index_t, index_t) const { return {0, span.context}; }
};

template <class T, index_t Heads, index_t Nope, index_t Rope, index_t V>
struct Case {
  using S = accumulate_t<T>;
  using Shape = AttentionHeads<Heads, Nope, Rope, V>;
  Blocks blocks;
  int threads = 1;
  std::vector<T> q, o, kv, k_rope, noise_kv, noise_k_rope;
  std::vector<LogSumExp<S>> lse;
  std::vector<S> d_o, d_q, d_kv, d_k_rope, d_noise_kv, d_noise_k_rope;

  explicit Case(const Blocks& b) : blocks(b) {
    const index_t n = b.span.noise_rows(), c = b.span.context_rows();
    random(q, n * Heads * (Nope + Rope), 1), random(d_o, n * Heads * V, 2);
    random(kv, c * Heads * (Nope + V), 3), random(k_rope, c * Rope, 4);
    random(noise_kv, n * Heads * (Nope + V), 5), random(noise_k_rope, n * Rope, 6);
    // All results are to be overwritten.
    o.assign(d_o.size(), T(NAN)), lse.assign(at(n * Heads), LogSumExp<S>{NAN, NAN}), d_q.assign(q.size(), NAN);
    d_kv.assign(kv.size(), NAN), d_k_rope.assign(k_rope.size(), NAN);
    d_noise_kv.assign(noise_kv.size(), NAN), d_noise_k_rope.assign(noise_k_rope.size(), NAN);
  }

  template <class U>
  static void random(std::vector<U>& to, index_t count, std::uint64_t stream) {
    const Philox draws(7, stream);
    for (index_t i = 0; i < count; ++i)
      to.push_back(U(static_cast<accumulate_t<U>>(draws.normal(static_cast<std::uint64_t>(i)))));
  }

  template <class U>
  static Matrix<U> matrix(auto& x, index_t columns) {
    return Matrix<U>(x.data(), static_cast<index_t>(x.size()) / columns, columns);
  }
  static constexpr index_t qk = Heads * (Nope + Rope), width = Heads * (Nope + V), out = Heads * V;

  template <class Visible>
  void run(const Visible& visible) {
    const BlockSpan& span = blocks.span;
    const BlockProblem<Shape, T, Visible> problem{
        span,
        matrix<const T>(q, qk),
        {matrix<const T>(kv, width), matrix<const T>(k_rope, Rope)},
        {matrix<const T>(noise_kv, width), matrix<const T>(noise_k_rope, Rope)},
        visible,
        SqrtScale::of<S>(Shape::qk)};
    const AttentionResult<T> result{matrix<T>(o, out), matrix<LogSumExp<S>>(lse, Heads)};
    block_attention_forward(Cpu{threads}, problem, result);
    Arena scratch(block_attention_scratch<Shape, T>(span.context_rows(), span.noise_rows()));
    const BlockGradients<S> d{matrix<S>(d_q, qk),
                              {matrix<S>(d_kv, width), matrix<S>(d_k_rope, Rope)},
                              {matrix<S>(d_noise_kv, width), matrix<S>(d_noise_k_rope, Rope)}};
    block_attention_backward(Cpu{threads}, problem, result, matrix<const S>(d_o, out), d, scratch);
  }
  void run() { run(blocks.visible()); }
};

template <class T>
using Small = Case<T, 2, 5, 3, 7>;

/// The same with whole score rows in memory, one query and head at a time.
struct Naive {
  const Small<double>& c;
  std::vector<double> o, lse, d_q, d_kv, d_k_rope, d_noise_kv, d_noise_k_rope;

  explicit Naive(const Small<double>& of)
      : c(of),
        o(of.o.size()),
        lse(of.lse.size()),
        d_q(of.q.size()),
        d_kv(of.kv.size()),
        d_k_rope(of.k_rope.size()),
        d_noise_kv(of.noise_kv.size()),
        d_noise_k_rope(of.noise_k_rope.size()) {
    for (index_t r = 0; r < c.blocks.span.noise_rows(); ++r) {
      for (index_t h = 0; h < 2; ++h) row(r, h);
    }
  }

  struct Key {
    const double *kv, *rope;
    double *d_kv, *d_rope;
    double weight = 0;
  };

  std::vector<Key> keys(index_t r, index_t h) {
    std::vector<Key> seen;
    const BlockSpan& span = c.blocks.span;
    for (index_t p = 0; p < span.context; ++p) {
      const index_t k = c.blocks.sequence_of(r) * span.context + p;
      const std::size_t i = at((k * 2 + h) * 12), j = at(k * 3);
      if (c.blocks.sees_context(r, p)) seen.push_back({&c.kv[i], &c.k_rope[j], &d_kv[i], &d_k_rope[j]});
    }
    for (index_t k = 0; k < span.noise_rows(); ++k) {
      const std::size_t i = at((k * 2 + h) * 12), j = at(k * 3);
      if (c.blocks.sees_noise(r, k))
        seen.push_back({&c.noise_kv[i], &c.noise_k_rope[j], &d_noise_kv[i], &d_noise_k_rope[j]});
    }
    return seen;
  }

  void row(index_t r, index_t h) {
    auto seen = keys(r, h);
    const double* query = &c.q[at((r * 2 + h) * 8)];
    const double* d_out = &c.d_o[at((r * 2 + h) * 7)];
    const double scale = 1 / std::sqrt(8.0);
    double total = 0, delta = 0;
    for (Key& k : seen) {
      double score = 0;
      for (int j = 0; j < 5; ++j) score += query[j] * k.kv[j];
      for (int j = 0; j < 3; ++j) score += query[5 + j] * k.rope[j];
      total += k.weight = std::exp(score * scale);
    }
    lse[at(r * 2 + h)] = std::log(total);
    for (Key& k : seen) {
      k.weight /= total;
      for (int j = 0; j < 7; ++j) {
        o[at((r * 2 + h) * 7 + j)] += k.weight * k.kv[5 + j];
        delta += k.weight * k.kv[5 + j] * d_out[j];
      }
    }
    for (const Key& k : seen) gradients(query, d_out, &d_q[at((r * 2 + h) * 8)], k, delta, scale);
  }

  static void gradients(const double* query, const double* d_out, double* d_query, const Key& k, double delta,
                        double scale) {
    double d = 0;
    for (int j = 0; j < 7; ++j) d += d_out[j] * k.kv[5 + j], k.d_kv[5 + j] += k.weight * d_out[j];
    d = k.weight * (d - delta) * scale;
    for (int j = 0; j < 5; ++j) d_query[j] += d * k.kv[j], k.d_kv[j] += d * query[j];
    for (int j = 0; j < 3; ++j) d_query[5 + j] += d * k.rope[j], k.d_rope[j] += d * query[5 + j];
  }
};

/// A sum here has fewer than 1000 terms near 1: 1000 · 2⁻⁵³ and the softmax's handful of operations stay below 1e-12.
void near(const char* what, const std::vector<double>& found, const std::vector<double>& wanted) {
  CAPTURE(what);
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    error = std::isfinite(found[i]) ? std::max(error, std::abs(found[i] - wanted[i])) : INFINITY;
  }
  CHECK(error <= 1e-12 * largest);
}

/// Rows of block `i` of one, rows of block `j` of the other.
template <class C>
bool same_block(const C& a, index_t i, const C& b, index_t j) {
  const auto same = [&](const auto& x, const auto& y) {
    const std::size_t n = x.size() / at(a.blocks.span.sequences * a.blocks.span.blocks);
    return std::memcmp(&x[at(i) * n], &y[at(j) * n], n * sizeof(x[0])) == 0;
  };
  return same(a.o, b.o) && same(a.lse, b.lse) && same(a.d_q, b.d_q) && same(a.d_noise_kv, b.d_noise_kv) &&
         same(a.d_noise_k_rope, b.d_noise_k_rope);
}

}  // namespace

TEST_CASE("a block's row sees the context before its anchor and its own block, in every variant") {
  constexpr index_t labels = 250;
  for (const Blocks& blocks : variants()) {
    Case<double, 1, 1, 1, labels> c(blocks);
    const BlockSpan& span = blocks.span;
    const index_t own = span.blocks * span.block_size;
    REQUIRE(span.context + own <= labels);
    // Weights are equal with queries of zeros. A value is its sequence's number at its own label.
    std::fill(c.q.begin(), c.q.end(), 0.0);
    for (index_t r = 0; r < span.context_rows(); ++r) {
      for (index_t j = 0; j < labels; ++j)
        c.kv[at(r * (1 + labels) + 1 + j)] = j == r % span.context ? double(1 + r / span.context) : 0;
    }
    for (index_t r = 0; r < span.noise_rows(); ++r) {
      for (index_t j = 0; j < labels; ++j)
        c.noise_kv[at(r * (1 + labels) + 1 + j)] = j == span.context + r % own ? double(1 + r / own) : 0;
    }
    c.run();
    index_t wrong = 0;
    for (index_t r = 0; r < span.noise_rows(); ++r) {
      const index_t sequence = blocks.sequence_of(r);
      std::vector<bool> sees(labels);
      for (index_t p = 0; p < span.context; ++p) sees[at(p)] = blocks.sees_context(r, p);
      for (index_t k = 0; k < own; ++k) sees[at(span.context + k)] = blocks.sees_noise(r, sequence * own + k);
      const auto count = static_cast<double>(std::count(sees.begin(), sees.end(), true));
      for (index_t j = 0; j < labels; ++j) {
        if (c.o[at(r * labels + j)] != (sees[at(j)] ? double(1 + sequence) / count : 0)) ++wrong;
      }
    }
    CAPTURE(blocks.name);
    CHECK(wrong == 0);
  }
}

TEST_CASE("tiles give what whole rows of scores give, forward and backward, in every variant") {
  for (const Blocks& blocks : variants()) {
    CAPTURE(blocks.name);
    Small<double> c(blocks);
    const Naive naive(c);
    c.run();
    near("o", c.o, naive.o), near("lse", added_up(c.lse), naive.lse), near("d_q", c.d_q, naive.d_q);
    near("d_kv", c.d_kv, naive.d_kv), near("d_k_rope", c.d_k_rope, naive.d_k_rope);
    near("d_noise_kv", c.d_noise_kv, naive.d_noise_kv), near("d_noise_k_rope", c.d_noise_k_rope, naive.d_noise_k_rope);
  }
}

TEST_CASE("a context of many tiles, anchors in any order, and computing every tile to mask it change nothing") {
  for (const Blocks& blocks : {ascending("ascending", {1, 700, 24, 5}), scattered("scattered", {2, 700, 24, 5})}) {
    CAPTURE(blocks.name);
    Small<double> c(blocks), dense(blocks);
    const Naive naive(c);
    c.run(), dense.run(Dense{blocks.visible()});
    for (const auto* all : {&c, &dense}) {
      near("o", all->o, naive.o), near("lse", added_up(all->lse), naive.lse), near("d_q", all->d_q, naive.d_q);
      near("d_kv", all->d_kv, naive.d_kv), near("d_k_rope", all->d_k_rope, naive.d_k_rope);
    }
  }
}

TEST_CASE_TEMPLATE("other blocks and context at or after the anchor change no bit of a block", T, double, float,
                   bfloat16) {
  for (Blocks blocks : variants()) {
    if (blocks.span.blocks * blocks.span.context == 0) continue;
    CAPTURE(blocks.name);
    Small<T> whole(blocks);
    whole.run();
    const BlockSpan& span = blocks.span;
    for (index_t b = 0; b<span.sequences * span.blocks; b += span.sequences * span.blocks> 20 ? 7 : 1) {
      Small<T> changed(blocks);
      // What no row of it sees is no number at all: what stands at or after its anchor, in other documents, or before
      // its window.
      const index_t sequence = b / span.blocks;
      const Interval reach = blocks.visible().reach(span, sequence, b % span.blocks);
      for (index_t p = 0; p < span.context_rows(); ++p) {
        const index_t in_row = p % span.context;
        if (p / span.context == sequence && reach.begin <= in_row && in_row < reach.end) continue;
        std::fill_n(&changed.kv[at(p * 24)], 24, T(NAN)), std::fill_n(&changed.k_rope[at(p * 3)], 3, T(INFINITY));
      }
      for (index_t r = 0; r < span.noise_rows(); ++r) {
        if (blocks.block_of(r) == b) continue;
        std::fill_n(&changed.noise_kv[at(r * 24)], 24, T(NAN)), std::fill_n(&changed.q[at(r * 16)], 16, T(NAN));
      }
      for (index_t other = 0; other < span.sequences * span.blocks; ++other) {
        if (other != b) changed.blocks.anchors[at(other)] = blocks.anchors[at(other)] / 3;
      }
      changed.run();
      CHECK(same_block(whole, b, changed, b));
    }
  }
}

TEST_CASE_TEMPLATE("a block alone has the bits it has among others", T, double, float, bfloat16) {
  Blocks blocks = scattered("", {1, 333, 17, 6});
  blocks.window = 200;
  Small<T> whole(blocks);
  whole.run();
  for (index_t b = 0; b < 17; ++b) {
    Blocks one = blocks;
    one.span = {1, 333, 1, 6}, one.anchors = {blocks.anchors[at(b)]};
    Small<T> alone(one);
    const auto take = [&](auto& to, const auto& from) { std::copy_n(&from[at(b) * to.size()], to.size(), to.begin()); };
    take(alone.q, whole.q), take(alone.d_o, whole.d_o);
    take(alone.noise_kv, whole.noise_kv), take(alone.noise_k_rope, whole.noise_k_rope);
    alone.run();
    CHECK(same_block(alone, 0, whole, b));
  }
}

TEST_CASE_TEMPLATE("the number of threads changes no bit", T, double, float, bfloat16) {
  for (const Blocks& blocks : variants()) {
    CAPTURE(blocks.name);
    Small<T> one(blocks);
    one.run();
    for (int threads : {2, 3}) {
      Small<T> more(blocks);
      more.threads = threads;
      more.run();
      CHECK(same_bits(one.o, more.o));
      CHECK(same_bits(terms(one.lse), terms(more.lse)));
      CHECK(same_bits(one.d_q, more.d_q));
      CHECK(same_bits(one.d_kv, more.d_kv));
      CHECK(same_bits(one.d_k_rope, more.d_k_rope));
      CHECK(same_bits(one.d_noise_kv, more.d_noise_kv));
      CHECK(same_bits(one.d_noise_k_rope, more.d_noise_k_rope));
    }
  }
}

TEST_CASE("an anchor outside the context is refused, unless its block is dropped") {
  Blocks blocks = ascending("", {1, 20, 3, 2});
  Small<double> c(blocks);
  c.blocks.anchors[1] = 21;
  CHECK_THROWS_WITH_AS(c.run(), doctest::Contains("anchor of block 1"), Error);
  c.blocks.anchors[1] = -1;
  CHECK_THROWS_AS(c.run(), Error);
  c.blocks.keep = {1, 0, 1};
  CHECK_NOTHROW(c.run());
  c.blocks.documents.assign(20, 0);
  CHECK_THROWS_WITH_AS(c.run(), doctest::Contains("anchor of block 2"), Error);
  c.blocks.anchors = {3, 5, 7};
  CHECK_NOTHROW(c.run());
  c.blocks.documents[7] = 8;
  CHECK_THROWS_WITH_AS(c.run(), "document start of block 2: found 8, wanted 0 to 7", Error);
  c.blocks.documents[7] = -1;
  CHECK_THROWS_AS(c.run(), Error);
}

TEST_CASE_TEMPLATE("an offset of all scores changes no bit: the largest is never added to a logarithm", T, double,
                   float, bfloat16) {
  // In column 15 of queries, 2 of rope slices: those columns' gradients are all that it may change.
  const auto run = [](double q, double k) {
    Case<T, 2, 13, 3, 7> c(scattered("", {2, 140, 9, 7}));
    test::round_to_eighths(c.q), test::set_column(c.q, 16, 15, q);
    for (auto* x : {&c.kv, &c.noise_kv, &c.k_rope, &c.noise_k_rope}) test::round_to_eighths(*x);
    for (auto* x : {&c.k_rope, &c.noise_k_rope}) test::set_column(*x, 3, 2, k);
    c.run();
    test::set_column(c.d_q, 16, 15, 0);
    for (auto* d : {&c.d_k_rope, &c.d_noise_k_rope}) test::set_column(*d, 3, 2, 0);
    return c;
  };
  const auto wanted = run(0, 0);
  for (const test::Offset& offset : test::offsets) {
    CAPTURE(offset.q * offset.k / 4);
    const auto found = run(offset.q, offset.k);
    CHECK(same_bits(found.d_q, wanted.d_q));
    CHECK(same_bits(found.d_kv, wanted.d_kv));
    CHECK(same_bits(found.d_k_rope, wanted.d_k_rope));
    CHECK(same_bits(found.d_noise_kv, wanted.d_noise_kv));
    CHECK(same_bits(found.d_noise_k_rope, wanted.d_noise_k_rope));
    CHECK(std::memcmp(found.o.data(), wanted.o.data(), wanted.o.size() * sizeof(T)) == 0);
  }
}
