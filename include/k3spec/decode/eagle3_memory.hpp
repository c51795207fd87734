#pragma once
/// \file
/// The memory of an EAGLE-3 draft's session: what it remembers of its texts, on its device.
/// defines: Eagle3Memory

#include <algorithm>
#include <array>

#include <k3spec/decode/draft_session.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>

namespace K3SPEC_NAMESPACE {

/// What a session plans on its device for its size.
/// \tparam E  element_t of the device
template <class Draft, Element E>
struct Eagle3Memory {
  using S = accumulate_t<E>;
  using Step = typename Draft::template Step<E>;

  /// [sequences · capacity]
  Rows<E, Draft::Attention::heads*(Draft::Attention::nope + Draft::Attention::v_dim)> kv;
  Rows<E, Draft::Attention::rope> k_rope;
  Rows<E, Draft::hidden> fc;
  Rows<E, Draft::aux_width> aux_normed;
  Step first, tips;  ///< of appended positions; of each sequence's last one, what its chain needs of it
  Rows<E, Draft::hidden> tip_hidden, chain_hidden;
  std::array<Step, Draft::max_steps> steps;
  Rows<E, Draft::hidden> head_in;
  Rows<S, Draft::draft_vocabulary> logits;  ///< and, at a temperature, weights
  Rows<S, Draft::vocabulary> spread;        ///< [sequences · chain] those of drafted tokens, over the target's ids

  template <Allocator A>
  static Eagle3Memory allocate(A& a, const SessionSize& size) {
    Eagle3Memory m{};
    const index_t n = size.sequences;
    take_rows(a, n * size.capacity, m.kv), take_rows(a, n * size.capacity, m.k_rope);
    take_rows(a, size.rows, m.fc);
    if constexpr (Draft::config::fc_norm) take_rows(a, size.rows, m.aux_normed);
    m.first = Step::allocate(a, size.rows);
    m.tips = Step::allocate(a, n), take_rows(a, n, m.tip_hidden), take_rows(a, n, m.chain_hidden);
    for (index_t k = 0; k < size.chain; ++k) m.steps[static_cast<std::size_t>(k)] = Step::allocate(a, n);
    take_rows(a, n, m.head_in), take_rows(a, n, m.logits);
    if (size.sampled) take_rows(a, n * size.chain, m.spread);
    return m;
  }
};

}  // namespace K3SPEC_NAMESPACE
