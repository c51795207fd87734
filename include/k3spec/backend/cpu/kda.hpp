#pragma once
/// \file
/// The recurrence of ops/kda.hpp on the CPU: each head of each sequence on its own, its state by blocks of columns that
/// stay in registers and the first-level cache over all tokens.
/// defines: cpu::KdaTokens, cpu::KdaHead, kda_recurrence_kernel

#include <algorithm>
#include <array>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/backend/cpu/parallel.hpp>
#include <k3spec/backend/kda_problem.hpp>

namespace K3SPEC_NAMESPACE {

namespace cpu {

/// One head's inputs and output at consecutive tokens.
template <class S>
struct KdaTokens {
  const S *q, *k, *v, *decay;  ///< decay is e^g
  const S* beta;
  S* out;
  index_t stride, beta_stride;  ///< from one token to the next; q, k, v, decay and out share the first
  index_t count;
};

/// The recurrence of one head.
template <class S, index_t D>
struct KdaHead {
  using P = Packet<S>;
  using Layout = KdaLayout<S, D>;
  static constexpr index_t columns = Layout::columns, log_size = Layout::log_size;

  /// Brings the state over `count` tokens of the log.
  static void replay(S* state, const S* log, index_t count) {
    if (count == 0) return;
    for (index_t c = 0; c < columns; c += block) {
      Block s = load(state + c);
      for (index_t t = 0; t < count; ++t) replay_token(s, log + t * log_size, c);
      store(s, state + c);
    }
  }

  /// Runs over the tokens. Without a log (null) the state is left after them; with one it stays as it was, and the log
  /// gets what leads on from it.
  static void run(S* state, S* log, const KdaTokens<S>& x) {
    for (index_t c = 0; c < columns; c += block) {
      Block s = load(state + c);
      if (one_pass && x.count > 1) {
        run_in_one_pass(s, log, x, c);
      } else {
        for (index_t t = 0; t < x.count; ++t) step(s, log, x, t, c);
      }
      if (log == nullptr) store(s, state + c);
    }
  }

 private:
  static constexpr index_t packets = columns / P::width;
  static constexpr std::size_t wide = packets % 4 == 0 ? 4 : packets % 2 == 0 ? 2 : 1;
  static constexpr index_t block = static_cast<index_t>(wide) * P::width;
  /// Whether registers hold what one pass over the state for each token has: two sums and u, four of k, q, e^g.
  static constexpr bool one_pass = detail::packet_registers >= 32;

  using Row = std::array<P, wide>;
  struct alignas(alignment) Block {
    S data[static_cast<std::size_t>(D * block)];
  };

  static Block load(const S* state) {
    Block s;
    for (index_t i = 0; i < D; ++i) std::copy_n(state + i * columns, block, s.data + i * block);
    return s;
  }
  static void store(const Block& s, S* state) {
    for (index_t i = 0; i < D; ++i) std::copy_n(s.data + i * block, block, state + i * columns);
  }

  static Row load_row(const S* p) {
    Row row;
    for (std::size_t j = 0; j < wide; ++j) row[j] = P::load(p + static_cast<index_t>(j) * P::width);
    return row;
  }
  static void store_row(const Row& row, S* p) {
    for (std::size_t j = 0; j < wide; ++j) row[j].store(p + static_cast<index_t>(j) * P::width);
  }
  /// `count` elements of a row, zeros after them.
  static Row load_part(const S* p, index_t count) {
    if (count >= block) return load_row(p);
    Row row;
    for (std::size_t j = 0; j < wide; ++j) {
      const index_t at = static_cast<index_t>(j) * P::width;
      row[j] = P::load_first(p + std::min(at, count), std::clamp<index_t>(count - at, 0, P::width));
    }
    return row;
  }
  static void store_part(const Row& row, S* p, index_t count) {
    if (count >= block) return store_row(row, p);
    for (std::size_t j = 0; j < wide; ++j) {
      const index_t at = static_cast<index_t>(j) * P::width;
      row[j].store_first(p + std::min(at, count), std::clamp<index_t>(count - at, 0, P::width));
    }
  }
  static Row zero() {
    Row row;
    row.fill(P(S(0)));
    return row;
  }

  /// (diag(e^g) S)ᵀ k, S left as it is.
  static Row read_decayed(const Block& s, const S* k, const S* decay) {
    Row sum = zero();
    for (index_t i = 0; i < D; ++i) {
      const P key(k[i]), g(decay[i]);
      const Row row = load_row(s.data + i * block);
      for (std::size_t j = 0; j < wide; ++j) sum[j] = fma(key, g * row[j], sum[j]);
    }
    return sum;
  }

  /// S ← diag(e^g) S + k uᵀ; `each(i, row)` sees every new row.
  template <class F>
  static void update(Block& s, const S* k, const S* decay, const Row& u, F&& each) {
    for (index_t i = 0; i < D; ++i) {
      const P key(k[i]), g(decay[i]);
      Row row = load_row(s.data + i * block);
      for (std::size_t j = 0; j < wide; ++j) row[j] = fma(key, u[j], g * row[j]);
      store_row(row, s.data + i * block);
      each(i, row);
    }
  }

  static void replay_token(Block& s, const S* log, index_t column) {
    update(s, log, log + columns, load_row(log + 2 * columns + column), [](index_t, const Row&) {});
  }

  static void step(Block& s, S* log, const KdaTokens<S>& x, index_t t, index_t column) {
    const index_t at = t * x.stride;
    const S *q = x.q + at, *k = x.k + at, *decay = x.decay + at;
    const Row u = correction(x, t, column, read_decayed(s, k, decay));
    Row o = zero();
    update(s, k, decay, u, [&](index_t i, const Row& row) {
      for (std::size_t j = 0; j < wide; ++j) o[j] = fma(P(q[i]), row[j], o[j]);
    });
    write(log, x, t, column, u, o);
  }

  /// u of token t, of which S kept `prediction`.
  static Row correction(const KdaTokens<S>& x, index_t t, index_t column, const Row& prediction) {
    const Row v = load_part(x.v + t * x.stride + column, D - column);
    const P beta(x.beta[t * x.beta_stride]);
    Row u;
    for (std::size_t j = 0; j < wide; ++j) u[j] = beta * (v[j] - prediction[j]);
    return u;
  }

  /// Token t's output, and its log if there is one.
  static void write(S* log, const KdaTokens<S>& x, index_t t, index_t column, const Row& u, const Row& o) {
    const index_t at = t * x.stride;
    store_part(o, x.out + at + column, D - column);
    if (log == nullptr) return;
    S* const to = log + t * log_size;
    std::copy_n(x.k + at, D, to);
    std::copy_n(x.decay + at, D, to + columns);
    store_row(u, to + 2 * columns + column);
  }

  /// All tokens: a pass over S adds one token and reads for the next, S being kept as decayed for that one.
  static void run_in_one_pass(Block& s, S* log, const KdaTokens<S>& x, index_t column) {
    Row prediction = decay(s, x.k, x.decay);
    for (index_t t = 0; t + 1 < x.count; ++t) {
      const Row u = correction(x, t, column, prediction);
      Row o = zero();
      prediction = add_and_decay(s, {x, t}, u, o);
      write(log, x, t, column, u, o);
    }
    const index_t last = x.count - 1;
    const Row u = correction(x, last, column, prediction);
    write(log, x, last, column, u, add(s, x.k + last * x.stride, x.q + last * x.stride, u));
  }

  /// S ← diag(e^g) S. \returns Sᵀ k
  static Row decay(Block& s, const S* k, const S* decay) {
    Row sum = zero();
    for (index_t i = 0; i < D; ++i) {
      const P key(k[i]), g(decay[i]);
      Row row = load_row(s.data + i * block);
      for (std::size_t j = 0; j < wide; ++j) row[j] = g * row[j], sum[j] = fma(key, row[j], sum[j]);
      store_row(row, s.data + i * block);
    }
    return sum;
  }

  /// What a pass between two tokens reads.
  struct Between {
    const S *k, *q, *next_k, *next_decay;
    Between(const KdaTokens<S>& x, index_t t)
        : k(x.k + t * x.stride),
          q(x.q + t * x.stride),
          next_k(k + x.stride),
          next_decay(x.decay + (t + 1) * x.stride) {}
  };

  /// S ← diag(next e^g) (S + k uᵀ); o becomes (S + k uᵀ)ᵀ q. \returns Sᵀ next k
  static Row add_and_decay(Block& s, const Between& x, const Row& u, Row& o) {
    Row sum = zero();
    for (index_t i = 0; i < D; ++i) {
      const P key(x.k[i]), query(x.q[i]), next(x.next_k[i]), g(x.next_decay[i]);
      Row row = load_row(s.data + i * block);
      for (std::size_t j = 0; j < wide; ++j) {
        row[j] = fma(key, u[j], row[j]), o[j] = fma(query, row[j], o[j]);
        row[j] = g * row[j], sum[j] = fma(next, row[j], sum[j]);
      }
      store_row(row, s.data + i * block);
    }
    return sum;
  }

  /// S ← S + k uᵀ. \returns Sᵀ q
  static Row add(Block& s, const S* k, const S* q, const Row& u) {
    Row o = zero();
    for (index_t i = 0; i < D; ++i) {
      const P key(k[i]), query(q[i]);
      Row row = load_row(s.data + i * block);
      for (std::size_t j = 0; j < wide; ++j) row[j] = fma(key, u[j], row[j]), o[j] = fma(query, row[j], o[j]);
      store_row(row, s.data + i * block);
    }
    return o;
  }
};

/// Head h of one sequence.
template <Element T, index_t D>
void recur(const KdaRecurrence<T, D>& x, const KdaSequence<T>& sequence, index_t h) {
  using S = accumulate_t<T>;
  using Head = KdaHead<S, D>;
  const KdaMemory<T>& m = sequence.memory;
  S* const state = m.recurrent + h * KdaLayout<S, D>::state_size;
  S* const log = m.log + h * m.rollback * KdaLayout<S, D>::log_size;
  const auto at = [&](const auto& v) { return v.row(sequence.row) + h * D; };
  Head::replay(state, log, sequence.pending);
  Head::run(state, sequence.logged ? log : nullptr,
            KdaTokens<S>{at(x.q), at(x.k), at(x.v), at(x.decay), x.beta.row(sequence.row) + h, at(x.o),
                         x.q.row_stride(), x.beta.row_stride(), sequence.tokens});
}

}  // namespace cpu

/// See ops/kda.hpp, which has compared the shapes; q, k, v, decay and o have rows of the same distance.
template <Element T, index_t D>
void kda_recurrence_kernel(const Cpu& cpu, const KdaRecurrence<T, D>& x) {
  index_t updates = 0;
  for (index_t b = 0; b < x.count; ++b) updates += x.sequences[b].tokens + x.sequences[b].pending;
  const index_t heads = x.heads(), work = updates * heads * KdaLayout<accumulate_t<T>, D>::state_size * 4;
  parallel_for(cpu::for_work(cpu, work), x.count * heads,
               [&](index_t i) { cpu::recur(x, x.sequences[i / heads], i % heads); });
}

}  // namespace K3SPEC_NAMESPACE
