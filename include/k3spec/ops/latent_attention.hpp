#pragma once
/// \file
/// Multi-head latent attention in the absorbed form, over caches of latents that all heads share:
/// ```text
/// s[t, h, j] = scale · q[t, h] · kv[j],   o[t, h] = Σ_j softmax_j(s[t, h])_j · kv[j, : L]
/// ```
/// over the rows j of an interval of its sequence's cache that token t sees. q [tokens · heads, L + rope] with
/// q_nope W_kb before q_rope; kv [positions, L + rope] with the normed latent before k_rope; o [tokens · heads, L].
/// Keys are read in tiles that begin at multiples of `attention_tile`, by a softmax that is carried along: what a query
/// gets does not depend on how many queries come with it.
/// defines: latent_attention

#include <string>

#include <k3spec/backend/cpu/latent_attention.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
/// \throws Error on rows that q has not, and where a token sees rows that the cache has not
template <Element T, class Sees>
void require_latents(const LatentSequence<T, Sees>& s, index_t rows, index_t columns) {
  require_part("latent_attention: rows of a sequence", s.row, s.tokens, rows);
  require_count("latent_attention: kv: columns", s.cache.extent(1), columns);
  if (s.tokens == 0) return;
  // Neither end is less for a later token.
  const index_t begin = s.sees(0).begin, end = s.sees(s.tokens - 1).end;
  if (begin >= 0 && end <= s.cache.extent(0)) return;
  throw Error("latent_attention: rows seen", std::to_string(begin) + " to " + std::to_string(end),
              "0 to " + std::to_string(s.cache.extent(0)));
}
}  // namespace detail

/// q and the sequences' caches -> o, see above.
/// \throws Error on shapes that do not fit q and the caches, and on sequences of rows that q has not or that see rows
///         that their caches have not
template <Device D, Element T, class Sees>
void latent_attention(const D& device, const LatentAttention<T, Sees>& problem) {
  const index_t rows = problem.q.extent(0), heads = problem.heads, columns = problem.q.extent(1);
  if (heads < 1 || rows % heads != 0) {
    throw Error("latent_attention: q: rows", std::to_string(rows), "whole tokens of " + std::to_string(heads));
  }
  require_rows("latent_attention: o", problem.o, rows);
  if (problem.o.extent(1) > columns) {
    throw Error("latent_attention: o: columns", std::to_string(problem.o.extent(1)),
                "at most " + std::to_string(columns));
  }
  require_shape("latent_attention: scores", problem.scores, rows, attention_tile);
  require_rows("latent_attention: top", problem.top, rows);
  require_rows("latent_attention: total", problem.total, rows);
  for (index_t b = 0; b < problem.count; ++b) detail::require_latents(problem.sequences[b], rows / heads, columns);
  latent_attention_kernel(device, problem);
}

}  // namespace K3SPEC_NAMESPACE
