// Which keys a query sees, and that streaming in tiles changes neither results nor bits.
// A K3 draft has no position ids anywhere: the rope slice of queries and keys is never rotated. What order there is
// comes from the mask alone.
#include <doctest/doctest.h>

#include <vector>

#include <k3spec/core/rng.hpp>
#include <k3spec/ops/ttt_attention.hpp>

using namespace k3spec;

namespace {

/// Kinds of padding: none, at the end, at the start, everywhere.
std::vector<std::uint8_t> padded(index_t sequences, index_t length) {
  std::vector<std::uint8_t> mask;
  for (index_t s = 0; s < sequences; ++s) {
    for (index_t t = 0; t < length; ++t) {
      mask.push_back(s % 4 == 0 || (s % 4 == 1 && 3 * t < 2 * length) || (s % 4 == 2 && 3 * t >= length) ? 1 : 0);
    }
  }
  return mask;
}

/// Operands and results of `steps` steps; equal for equal (sequence, position) whatever the length.
template <class Op, class T, index_t Heads, index_t Nope, index_t Rope, index_t V>
struct Case {
  using S = accumulate_t<T>;
  index_t sequences, length, rows = sequences * length;
  std::vector<std::uint8_t> mask;
  std::vector<T> q, o;
  std::vector<S> lse, d_o, d_q;
  std::vector<std::vector<T>> kv, k_rope;
  std::vector<std::vector<S>> d_kv, d_k_rope;

  Case(index_t b, index_t n, std::size_t steps, std::vector<std::uint8_t> m) : sequences(b), length(n), mask(m) {
    random(q, Heads * (Nope + Rope), 1), random(d_o, Heads * V, 2);
    o.assign(d_o.size(), T(NAN)), d_q.assign(q.size(), S(NAN)), lse.assign(static_cast<std::size_t>(rows * Heads), NAN);
    kv.resize(steps), k_rope.resize(steps), d_kv.resize(steps), d_k_rope.resize(steps);
    for (std::size_t s = 0; s < steps; ++s) {
      random(kv[s], Heads * (Nope + V), 10 + s), random(k_rope[s], Rope, 20 + s);
      d_kv[s].resize(kv[s].size()), d_k_rope[s].resize(k_rope[s].size());
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
  CausalVisibility visible() const { return {mask.data(), length}; }
  template <class U, class X>
  Matrix<U> matrix(X& x) const {
    return Matrix<U>(x.data(), rows, static_cast<index_t>(x.size()) / std::max<index_t>(1, rows));
  }
  std::vector<TttKeys<const T>> keys() const {
    std::vector<TttKeys<const T>> all;
    for (std::size_t s = 0; s < kv.size(); ++s) all.push_back({matrix<const T>(kv[s]), matrix<const T>(k_rope[s])});
    return all;
  }
  void forward() {
    const auto all = keys();
    Op::template forward<T>(Cpu{1}, span(), matrix<const T>(q), all, visible(), matrix<T>(o), matrix<S>(lse));
  }
  void backward() {
    const auto all = keys();
    std::vector<TttKeys<S>> d_all;
    for (std::size_t s = 0; s < kv.size(); ++s) d_all.push_back({matrix<S>(d_kv[s]), matrix<S>(d_k_rope[s])});
    Arena scratch(
        plan_bytes([&](ArenaPlan& a) { Op::template Scratch<S>::allocate(a, rows, static_cast<index_t>(kv.size())); }));
    Op::template backward<T>(Cpu{1}, span(), matrix<const T>(q), all, visible(), matrix<const T>(o),
                             matrix<const S>(lse), matrix<const S>(d_o), matrix<S>(d_q), d_all, scratch);
  }
};

template <class T, index_t Heads, index_t Nope, index_t Rope, index_t V>
using CaseOf = Case<TttAttention<Heads, Nope, Rope, V>, T, Heads, Nope, Rope, V>;

template <class T>
using Small = CaseOf<T, 2, 5, 3, 7>;

/// The same with whole score rows in memory, one query and head at a time.
struct Naive {
  const Small<double>& c;
  std::vector<double> o, lse, d_q;
  std::vector<std::vector<double>> d_kv, d_k_rope;

  explicit Naive(const Small<double>& of)
      : c(of), o(of.o.size()), lse(of.lse.size()), d_q(of.q.size()), d_kv(of.d_kv), d_k_rope(of.d_k_rope) {
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
    for (index_t j = r / c.length * c.length; j <= r; ++j) {
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
    double centre = 0;
    for (Key& key : keys) {
      key.weight /= total;
      for (index_t j = 0; j < 7; ++j) {
        const double v = c.kv[key.step][at(key.row, 2, h, 12, 5 + j)];
        o[at(r, 2, h, 7, j)] += key.weight * v;
        centre += key.weight * v * c.d_o[at(r, 2, h, 7, j)];
      }
    }
    for (const Key& key : keys) gradients(r, h, key, centre, scale);
  }

  void gradients(index_t r, index_t h, const Key& key, double centre, double scale) {
    double d = 0;
    for (index_t j = 0; j < 7; ++j) {
      d += c.d_o[at(r, 2, h, 7, j)] * c.kv[key.step][at(key.row, 2, h, 12, 5 + j)];
      d_kv[key.step][at(key.row, 2, h, 12, 5 + j)] += key.weight * c.d_o[at(r, 2, h, 7, j)];
    }
    d = key.weight * (d - centre) * scale;
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
void near(const char* what, const std::vector<double>& found, const std::vector<double>& wanted) {
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

template <class U>
bool begins_with(const std::vector<U>& longer, const std::vector<U>& shorter) {
  return std::memcmp(longer.data(), shorter.data(), shorter.size() * sizeof(U)) == 0;
}

}  // namespace

TEST_CASE("query p of step k sees the step-0 keys up to p that are no padding, and its own of each later step") {
  constexpr index_t longest = 70, values = 3 * longest;
  for (const index_t length : {1, 2, 9, 70}) {
    for (const std::size_t steps : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
      CaseOf<double, 1, 1, 1, values> c(4, length, steps, padded(4, length));
      std::fill(c.q.begin(), c.q.end(), 0.0);
      // The value of step s at position t is one-hot at label s · length + t; weights are equal with queries of zeros.
      for (std::size_t s = 0; s < steps; ++s) {
        for (index_t r = 0; r < c.rows; ++r) {
          for (index_t j = 0; j < values; ++j) {
            const bool hot = j == static_cast<index_t>(s) * length + r % length;
            c.kv[s][static_cast<std::size_t>(r * (1 + values) + 1 + j)] = hot ? 1 : 0;
          }
        }
      }
      c.forward();
      index_t wrong = 0;
      for (index_t r = 0; r < c.rows; ++r) {
        std::vector<bool> sees(values);
        for (index_t j = 0; j <= r % length; ++j) {
          sees[static_cast<std::size_t>(j)] = c.mask[static_cast<std::size_t>(r / length * length + j)] != 0;
        }
        for (std::size_t s = 1; s < steps; ++s)
          sees[s * static_cast<std::size_t>(length) + static_cast<std::size_t>(r % length)] = true;
        const auto count = std::count(sees.begin(), sees.end(), true);
        for (index_t j = 0; j < values; ++j) {
          const double weight = c.o[static_cast<std::size_t>(r * values + j)];
          const double wanted = sees[static_cast<std::size_t>(j)] ? 1 / static_cast<double>(count) : 0;
          if (weight != wanted) ++wrong;
        }
      }
      CAPTURE(length);
      CAPTURE(steps);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("200 positions in tiles are what whole rows of scores give, forward and backward") {
  for (const std::size_t steps : {std::size_t{1}, std::size_t{3}}) {
    Small<double> c(4, 200, steps, padded(4, 200));
    const Naive naive(c);
    c.forward();
    c.backward();
    near("o", c.o, naive.o), near("lse", c.lse, naive.lse), near("d_q", c.d_q, naive.d_q);
    for (std::size_t s = 0; s < steps; ++s)
      near("d_kv", c.d_kv[s], naive.d_kv[s]), near("d_k_rope", c.d_k_rope[s], naive.d_k_rope[s]);
  }
}

TEST_CASE_TEMPLATE("a longer sequence changes no bit of the first queries", T, double, float, bfloat16) {
  Small<T> shorter(1, 70, 3, std::vector<std::uint8_t>(70, 1)), longer(1, 200, 3, std::vector<std::uint8_t>(200, 1));
  for (auto* c : {&shorter, &longer}) {
    c->mask[0] = c->mask[66] = 0;
    c->forward();
    c->backward();
  }
  CHECK(begins_with(longer.o, shorter.o));
  CHECK(begins_with(longer.lse, shorter.lse));
  CHECK(begins_with(longer.d_q, shorter.d_q));
}

TEST_CASE("no position: what stands before a sequence as padding moves it and changes nothing") {
  constexpr index_t shift = 7, length = 90;
  Small<double> plain(1, length, 2, std::vector<std::uint8_t>(length, 1));
  Small<double> moved(1, length + shift, 2, std::vector<std::uint8_t>(length + shift, 1));
  std::fill_n(moved.mask.begin(), shift, std::uint8_t{0});
  const auto copy = [](const std::vector<double>& from, std::vector<double>& to) {
    std::copy(from.begin(), from.end(), to.end() - static_cast<std::ptrdiff_t>(from.size()));
  };
  copy(plain.q, moved.q);
  for (std::size_t s = 0; s < 2; ++s) copy(plain.kv[s], moved.kv[s]), copy(plain.k_rope[s], moved.k_rope[s]);
  plain.forward(), moved.forward();
  near("o", {moved.o.end() - static_cast<std::ptrdiff_t>(plain.o.size()), moved.o.end()}, plain.o);
}

TEST_CASE("a query that sees nothing gives 0 and no gradient, in every type") {
  const auto check = [](auto zero) {
    Small<decltype(zero)> c(1, 5, 1, {0, 0, 0, 1, 1});
    c.forward();
    c.backward();
    for (std::size_t i = 0; i < 3 * 14; ++i) CHECK(c.o[i] == zero);
    for (std::size_t i = 0; i < 3 * 16; ++i) CHECK(c.d_q[i] == 0);
    for (std::size_t i = 0; i < 3 * 24; ++i) CHECK(c.d_kv[0][i] == 0);
    CHECK(c.d_q[3 * 16] == c.d_q[3 * 16]);
    CHECK(c.o[3 * 14] != zero);
  };
  check(0.0), check(0.0f), check(bfloat16(0.0f));
}
