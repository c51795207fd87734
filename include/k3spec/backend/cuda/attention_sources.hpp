#pragma once
/// \file
/// Whom attention's queries see, as the kernels on a card ask: keys come from several sources, and of each source a
/// query sees an interval. So causal keys with the diagonals of later steps, and a block's context with its own noise,
/// are one kernel. A source of a problem has `keys(source)` and `rows(source)` in each sequence. `seen(source,
/// sequence, query)` is the interval, `sees` what in it is visible, and `askers(source, sequence, keys)` the queries
/// that may see some of these keys.
/// defines: cuda::TttSources, cuda::BlockSources

#include <k3spec/backend/block_problem.hpp>
#include <k3spec/backend/interval.hpp>
#include <k3spec/backend/ttt_problem.hpp>

namespace K3SPEC_NAMESPACE::cuda {

/// Source 0 has the keys of step 0, source k the diagonal of step k.
/// \tparam T  bare
template <class H, class T, class Visible>
struct TttSources {
  using Heads = H;
  using Element = T;
  TttProblem<Heads, T, Visible> problem;

  K3SPEC_HOST_DEVICE int count() const { return static_cast<int>(problem.steps.count); }
  K3SPEC_HOST_DEVICE index_t sequences() const { return problem.span.sequences; }
  K3SPEC_HOST_DEVICE index_t queries() const { return problem.span.queries; }
  K3SPEC_HOST_DEVICE const AttentionKeys<const T>& keys(int source) const { return problem.steps[source]; }
  K3SPEC_HOST_DEVICE index_t rows(int source) const { return source == 0 ? problem.span.keys : problem.span.queries; }

  K3SPEC_HOST_DEVICE Interval seen(int source, index_t sequence, index_t query) const {
    if (source > 0) return {query, query + 1};
    const index_t at = problem.span.first + query, end = problem.visible.end(sequence, at);
    return {problem.visible.begin(sequence, at), end < problem.span.keys ? end : problem.span.keys};
  }
  K3SPEC_HOST_DEVICE bool sees(int source, index_t sequence, index_t query, index_t key) const {
    return source > 0 || problem.visible(sequence, problem.span.first + query, key);
  }
  /// Neither end of what a query sees falls as the query grows.
  K3SPEC_HOST_DEVICE Interval askers(int source, index_t sequence, const Interval& some) const {
    if (source > 0) return some;
    const auto first_of = [&](auto&& passes) {
      index_t low = 0, high = queries();
      while (low < high) {
        const index_t middle = low + (high - low) / 2;
        if (passes(seen(0, sequence, middle))) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      return low;
    };
    return {first_of([&](const Interval& i) { return i.end > some.begin; }),
            first_of([&](const Interval& i) { return i.begin >= some.end; })};
  }
};

/// Source 0 is the context, source 1 the noise. A sequence's queries are its blocks' rows, one after another.
template <class H, class T, class Visible>
struct BlockSources {
  using Heads = H;
  using Element = T;
  BlockProblem<Heads, T, Visible> problem;

  K3SPEC_HOST_DEVICE int count() const { return 2; }
  K3SPEC_HOST_DEVICE index_t sequences() const { return problem.span.sequences; }
  K3SPEC_HOST_DEVICE index_t queries() const { return problem.span.blocks * problem.span.block_size; }
  K3SPEC_HOST_DEVICE const AttentionKeys<const T>& keys(int source) const {
    return source == 0 ? problem.context : problem.noise;
  }
  K3SPEC_HOST_DEVICE index_t rows(int source) const { return source == 0 ? problem.span.context : queries(); }

  K3SPEC_HOST_DEVICE Interval seen(int source, index_t sequence, index_t query) const {
    const BlockSpan& span = problem.span;
    const index_t block = query / span.block_size, offset = query % span.block_size;
    if (source > 0) return {block * span.block_size, block * span.block_size + problem.visible.noise(span, offset)};
    if (!has_anchor(sequence, block)) return {0, 0};
    return problem.visible.context(span, sequence, block, offset) & Interval{0, span.context};
  }
  /// Whether a block's anchor is a position (require_anchors): what is none leads nowhere.
  K3SPEC_HOST_DEVICE bool has_anchor(index_t sequence, index_t block) const {
    const index_t anchor = problem.visible.anchors[sequence * problem.span.blocks + block];
    return anchor >= 0 && anchor <= problem.span.context - (problem.visible.document_starts == nullptr ? 0 : 1);
  }
  K3SPEC_HOST_DEVICE bool sees(int, index_t, index_t, index_t) const { return true; }
  /// Anchors are in any order.
  K3SPEC_HOST_DEVICE Interval askers(int source, index_t, const Interval& some) const {
    const index_t size = problem.span.block_size;
    if (source == 0) return {0, queries()};
    return {some.begin / size * size, (some.end + size - 1) / size * size};
  }
};

}  // namespace K3SPEC_NAMESPACE::cuda
