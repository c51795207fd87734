#pragma once
/// \file
/// Multi-head latent attention behind its projections, in the absorbed form: with W_kvb's rows of head h split into
/// W_kb [nope, L] and W_vb [v, L], q_nope · k_nope = (q_nope W_kb) · c and Σ p v = W_vb (Σ p c), so that a position is
/// remembered by its latent c [L] and k_rope alone.
/// defines: AbsorbedAttention

#include <cmath>
#include <vector>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/layers/mla.hpp>
#include <k3spec/ops/latent_attention.hpp>
#include <k3spec/target/frozen_linear.hpp>

namespace K3SPEC_NAMESPACE {

/// Attention of the new tokens of several texts over the latents that each text remembers.
/// \tparam Config  that of the MLA layer
template <class Config, Element T>
class AbsorbedAttention {
  using S = accumulate_t<T>;
  using Layer = MLA<Config>;

 public:
  static constexpr index_t heads = Layer::heads, nope = Layer::nope, v_dim = Layer::v_dim, qk_dim = Layer::qk_dim;
  static constexpr index_t kv_lora = Layer::kv_lora, rope = Layer::rope, latent = kv_lora + rope;

  AbsorbedAttention() = default;

  /// Turns W_kvb once, so that no forward has to.
  /// \param kv_b  W_kvb [heads · (nope + v), L]
  /// \throws Error on another shape
  explicit AbsorbedAttention(const Matrix<const T>& kv_b) {
    require_shape("AbsorbedAttention: kv_b", kv_b, heads * (nope + v_dim), kv_lora);
    for (index_t h = 0; h < heads; ++h) {
      key_.push_back(FrozenLinear<T>::plain(kv_b.rows(h * (nope + v_dim), nope)));
      value_.push_back(FrozenLinear<T>{kv_b.rows(h * (nope + v_dim) + nope, v_dim)});
    }
  }

  /// Working memory of a forward.
  struct Scratch {
    Matrix<S> q;           ///< [rows · heads, L + rope], q_nope W_kb before q_rope
    Matrix<S> o;           ///< [rows · heads, L], Σ p c
    Matrix<S> scores;      ///< [rows · heads, attention_tile]
    Vector<S> top, total;  ///< [rows · heads]

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t rows) {
      const index_t all = rows * heads;
      Scratch s;
      detail::take_matrix(a, s.q, all, latent);
      detail::take_matrix(a, s.o, all, kv_lora);
      detail::take_matrix(a, s.scores, all, attention_tile);
      s.top = Vector<S>(a.template take<S>(all), all);
      s.total = Vector<S>(a.template take<S>(all), all);
      return s;
    }
  };

  /// q [rows, heads · (nope + rope)] -> y [rows, heads · v], the sequences' tokens one behind the other
  /// \param rows_of  rows_of(sequence): the Interval of its rows, none or more
  /// \param cache    cache(sequence): its rows [positions, L + rope], the normed latent before k_rope
  /// \param sees     sees(sequence, token): the Interval of them that a token sees, see LatentAttention
  /// \param seen     how many that is, about, for all tokens together: what decides on threads
  /// \throws Error on other shapes than q's rows and the layer say, and rows of a sequence that q has not
  template <AnyView Q, AnyView Y, class RowsOf, class Cache, class Sees>
  void forward(const Cpu& cpu, index_t sequences, RowsOf&& rows_of, index_t seen, Cache&& cache, Sees&& sees,
               const Q& q, const Y& y, const Scratch& s) const {
    const index_t rows = q.extent(0);
    require_shape("AbsorbedAttention: q", q, rows, heads * qk_dim);
    require_shape("AbsorbedAttention: y", y, rows, heads * v_dim);
    require_rows("AbsorbedAttention: scratch", s.q, rows * heads);
    for (index_t b = 0; b < sequences; ++b) {
      const Interval mine = rows_of(b);
      require_part("AbsorbedAttention: rows of a sequence", mine.begin, mine.size(), rows);
    }
    absorb(cpu, q, s);
    attend(cpu, sequences, rows_of, seen, cache, sees, s);
    for (index_t h = 0; h < heads; ++h) {
      value_[static_cast<std::size_t>(h)].forward(cpu, of_head(s.o, h), y.columns(h * v_dim, v_dim));
    }
  }

 private:
  /// [rows, columns] of [rows · heads, columns]
  static Matrix<S> of_head(const Matrix<S>& x, index_t h) {
    const index_t n = x.extent(1);
    return Matrix<S>(x.data() + h * n, Extents<dyn, dyn>(x.extent(0) / heads, n), heads * n);
  }

  template <AnyView Q>
  void absorb(const Cpu& cpu, const Q& q, const Scratch& s) const {
    for (index_t h = 0; h < heads; ++h) {
      const auto to = of_head(s.q, h);
      key_[static_cast<std::size_t>(h)].forward(cpu, q.columns(h * qk_dim, nope), to.columns(0, kv_lora));
      evaluate(cpu, expr::arg<0>, to.columns(kv_lora, rope), q.columns(h * qk_dim + nope, rope));
    }
  }

  /// Tokens that are taken together.
  static constexpr index_t height = 16;
  static index_t blocks(const Interval& rows) { return (rows.size() + height - 1) / height; }

  template <class RowsOf, class Cache, class Sees>
  static void attend(const Cpu& cpu, index_t sequences, RowsOf& rows_of, index_t seen, Cache& cache, Sees& sees,
                     const Scratch& s) {
    index_t all = 0;
    for (index_t b = 0; b < sequences; ++b) all += blocks(rows_of(b));
    parallel_for(cpu::for_work(cpu, seen * heads * latent * 2), all, [&](index_t i) {
      index_t b = 0, block = i;
      while (block >= blocks(rows_of(b))) block -= blocks(rows_of(b++));
      const Interval mine = rows_of(b);
      const index_t t = block * height, count = std::min(height, mine.size() - t);
      const index_t row = (mine.begin + t) * heads, rows = count * heads;
      const auto part = [&](const auto& v) { return v.rows(row, rows); };
      const auto from_here = [&](index_t token) { return sees(b, t + token); };
      LatentAttention<S, T, decltype(from_here)>{part(s.q),
                                                 Matrix<const T>(cache(b)),
                                                 part(s.o),
                                                 part(s.scores),
                                                 part(s.top),
                                                 part(s.total),
                                                 from_here,
                                                 heads,
                                                 1 / std::sqrt(static_cast<double>(qk_dim))}
          .run();
    });
  }

  std::vector<FrozenLinear<T>> key_, value_;  // W_kb, W_vb per head
};

}  // namespace K3SPEC_NAMESPACE
