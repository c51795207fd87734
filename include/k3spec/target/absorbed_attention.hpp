#pragma once
/// \file
/// Multi-head latent attention behind its projections, in the absorbed form: with W_kvb's rows of head h split into
/// W_kb [nope, L] and W_vb [v, L], q_nope · k_nope = (q_nope W_kb) · c and Σ p v = W_vb (Σ p c), so that a position is
/// remembered by its latent c [L] and k_rope alone.
/// defines: AbsorbedAttention

#include <cmath>
#include <span>
#include <vector>

#include <k3spec/core/require_shape.hpp>
#include <k3spec/layers/mla.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/ops/latent_attention.hpp>
#include <k3spec/target/prepacked_linear.hpp>

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
  AbsorbedAttention(const place_t<T>& device, const Matrix<const value_t<T>>& kv_b,
                    KeepWeights keep = KeepWeights::native) {
    require_shape("AbsorbedAttention: kv_b", kv_b, heads * (nope + v_dim), kv_lora);
    for (index_t h = 0; h < heads; ++h) {
      key_.push_back(PrepackedLinear<T>::plain(device, kv_b.rows(h * (nope + v_dim), nope), keep));
      value_.push_back(PrepackedLinear<T>{device, {kv_b.rows(h * (nope + v_dim) + nope, v_dim)}, keep});
    }
  }

  /// What the weights take.
  index_t bytes() const {
    index_t sum = 0;
    for (const auto* all : {&key_, &value_}) {
      for (const auto& w : *all) sum += w.bytes();
    }
    return sum;
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

  /// q [rows, heads · (nope + rope)] -> y [rows, heads · v]
  /// \throws Error on other shapes than q's rows and the layer say, and on sequences of rows that q has not or that see
  ///         rows that their caches have not
  template <Device D, AnyView Q, AnyView Y, class Sees>
  void forward(const D& device, std::span<const LatentSequence<T, Sees>> sequences, const Q& q, const Y& y,
               const Scratch& s) const {
    const index_t rows = q.extent(0);
    require_shape("AbsorbedAttention: q", q, rows, heads * qk_dim);
    require_shape("AbsorbedAttention: y", y, rows, heads * v_dim);
    require_rows("AbsorbedAttention: scratch", s.q, rows * heads);
    absorb(device, q, s);
    latent_attention(device, LatentAttention<T, Sees>{s.q, s.o, s.scores, s.top, s.total, sequences.data(),
                                                      static_cast<index_t>(sequences.size()), heads,
                                                      1 / std::sqrt(static_cast<double>(qk_dim))});
    for (index_t h = 0; h < heads; ++h) {
      value_[static_cast<std::size_t>(h)].forward(device, of_head(s.o, h), y.columns(h * v_dim, v_dim));
    }
  }

 private:
  /// [rows, columns] of [rows · heads, columns]
  static Matrix<S> of_head(const Matrix<S>& x, index_t h) {
    const index_t n = x.extent(1);
    return Matrix<S>(x.data() + h * n, Extents<dyn, dyn>(x.extent(0) / heads, n), heads * n);
  }

  template <Device D, AnyView Q>
  void absorb(const D& device, const Q& q, const Scratch& s) const {
    for (index_t h = 0; h < heads; ++h) {
      const auto to = of_head(s.q, h);
      key_[static_cast<std::size_t>(h)].forward(device, q.columns(h * qk_dim, nope), to.columns(0, kv_lora));
      copy(device, q.columns(h * qk_dim + nope, rope), to.columns(kv_lora, rope));
    }
  }

  std::vector<PrepackedLinear<T>> key_, value_;  // W_kb, W_vb per head
};

}  // namespace K3SPEC_NAMESPACE
