#pragma once
/// \file
/// The slots of a batch whose logits are wanted: only supervised ones go through the vocabulary.
/// defines: chunk_rows, supervised_rows

#include <algorithm>
#include <cstdint>

#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// Rows of logits that exist at a time: about a million values.
constexpr index_t chunk_rows(index_t vocabulary) {
  return std::clamp<index_t>((index_t{1} << 20) / vocabulary, 32, 4096);
}

/// rows = the indices of all that are set, ascending.
/// \returns how many there are
/// \throws Error when rows has not as many as supervised
inline index_t supervised_rows(Vector<const std::uint8_t> supervised, Vector<index_t> rows) {
  require_rows("supervised_rows: rows", rows, supervised.extent(0));
  index_t n = 0;
  for (index_t r = 0; r < supervised.extent(0); ++r) {
    if (supervised(r) != 0) rows(n++) = r;
  }
  return n;
}

}  // namespace K3SPEC_NAMESPACE
