#pragma once
/// \file
/// A softmax that is carried along over tiles of scores: weights are relative to the largest score so far, and what was
/// summed before is brought to that scale when a larger one comes.
/// defines: cpu::RunningSoftmax

#include <algorithm>
#include <cmath>
#include <limits>

#include <k3spec/backend/cpu/lane_chains.hpp>
#include <k3spec/backend/cpu/packet.hpp>

namespace K3SPEC_NAMESPACE::cpu {

/// Of one query. S: float or double.
template <class S>
struct RunningSoftmax {
  S top = -std::numeric_limits<S>::infinity();  ///< the largest score
  S total = 0;                                  ///< Σ exp(score - top)

  /// Turns m scores, whole packets of them, into their weights. Those that are not seen are -infinity; one is seen at
  /// least.
  /// \returns what earlier sums of weighted values are to be multiplied by
  S add(S* scores, index_t m) {
    using P = Packet<S>;
    P most(top);
    for (index_t j = 0; j < m; j += P::width) most = max(most, P::load(scores + j));
    const S factor = raise(maximum(most));
    LaneChains<S> mass;
    for_chains<S>(m, [&](auto p, index_t j, index_t) {
      const P weight = exp(P::load(scores + j) - P(top));
      weight.store(scores + j);
      mass[p] = mass[p] + weight;
    });
    total += mass.total();
    return factor;
  }

  /// The same for one score.
  struct One {
    S weight, factor;
  };
  One add_one(S score) {
    const S factor = raise(std::max(top, score)), weight = std::exp(score - top);
    total += weight;
    return {weight, factor};
  }

 private:
  S raise(S peak) {
    if (peak == top) return S(1);
    const S factor = std::exp(top - peak);
    top = peak;
    total *= factor;
    return factor;
  }
};

}  // namespace K3SPEC_NAMESPACE::cpu
