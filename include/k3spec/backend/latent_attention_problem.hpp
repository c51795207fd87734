#pragma once
/// \file
/// What attention over caches of latents computes on, on every device: the problem of ops/latent_attention.hpp.
/// defines: attention_tile, CacheVisibility, LatentSequence, LatentAttention

#include <limits>
#include <type_traits>

#include <k3spec/backend/interval.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// Keys that are scored together.
inline constexpr index_t attention_tile = 64;

/// New tokens behind `before` others: each sees those nearer than `window`, and of the new ones all, or with `causal`
/// those up to itself.
struct CacheVisibility {
  index_t before, tokens;
  bool causal = true;
  index_t window = std::numeric_limits<index_t>::max();

  /// What a new token sees. Neither end is less for a later one.
  K3SPEC_HOST_DEVICE constexpr Interval operator()(index_t token) const {
    const index_t nearest = before + token - window + 1, begin = nearest < before ? nearest : before;
    return {begin < 0 ? 0 : begin, before + (causal ? token + 1 : tokens)};
  }
};

/// One sequence's new tokens and the latents that it remembers, theirs included.
/// \tparam Sees  as CacheVisibility: the interval of rows of the cache, not empty, that each token sees
template <Element T, class Sees = CacheVisibility>
struct LatentSequence {
  Matrix<T> cache;      ///< [positions, L + rope], only read by attention
  index_t row, tokens;  ///< the new tokens' rows
  Sees sees;
};

/// Attention of `count` sequences' tokens.
template <Element T, class Sees = CacheVisibility>
struct LatentAttention {
  using S = accumulate_t<T>;
  Matrix<const S> q;     ///< [rows · heads, L + rope]
  Matrix<S> o;           ///< [rows · heads, L]
  Matrix<S> scores;      ///< scratch [rows · heads, attention_tile]
  Vector<S> top, total;  ///< scratch [rows · heads]
  const LatentSequence<T, Sees>* sequences;
  index_t count, heads;
  double scale;
};

static_assert(std::is_trivially_copyable_v<LatentSequence<bfloat16>>);
static_assert(std::is_trivially_copyable_v<LatentAttention<bfloat16>>);

}  // namespace K3SPEC_NAMESPACE
