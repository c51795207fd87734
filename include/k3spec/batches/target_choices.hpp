#pragma once
/// \file
/// What a target itself would say, of its last states.
/// defines: target_choices

#include <algorithm>

#include <k3spec/core/extents.hpp>
#include <k3spec/ops/argmax.hpp>

namespace K3SPEC_NAMESPACE {

/// The target's argmax over its whole vocabulary, some rows at a time.
/// \param last    [R, hidden], post-norm
/// \param logits  [n, vocabulary], n >= 1 unless R is 0: room for those of n rows
/// \param chosen  [R]
template <class Target, Device D, class Last, class Logits, class Chosen>
void target_choices(const D& device, const Target& target, const Last& last, const Logits& logits,
                    const Chosen& chosen) {
  const index_t rows = last.extent(0);
  for (index_t r = 0; r < rows; r += logits.extent(0)) {
    const index_t n = std::min(logits.extent(0), rows - r);
    target.compute_logits(device, last.rows(r, n), logits.rows(0, n));
    argmax(device, logits.rows(0, n), chosen.rows(r, n));
  }
}

}  // namespace K3SPEC_NAMESPACE
