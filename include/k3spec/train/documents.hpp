#pragma once
/// \file
/// Several documents in one row of a batch, one behind the other.
/// defines: Documents, document_bounds

#include <string>

#include <k3spec/core/error.hpp>
#include <k3spec/core/view.hpp>

namespace k3spec {

/// Of R = sequences · length positions. Empty views: every row is one document.
struct Documents {
  Vector<const index_t> start;      // [R] position in the row where the position's document begins
  Vector<const index_t> remaining;  // [R] tokens of the document after this position

  bool packed() const { return remaining.extent(0) > 0; }
};

/// From seq_lens [sequences, documents], tokens of each (0: no more documents), to a Documents' views.
/// \throws Error unless a row's documents fill it
inline void document_bounds(const Matrix<const index_t>& seq_lens, index_t length, Vector<index_t> start,
                            Vector<index_t> remaining) {
  for (index_t b = 0; b < seq_lens.extent(0); ++b) {
    index_t at = 0;
    for (index_t d = 0; d < seq_lens.extent(1); ++d) {
      const index_t begin = at, end = begin + seq_lens(b, d);
      if (end < begin || end > length) break;
      for (; at < end; ++at) start(b * length + at) = begin, remaining(b * length + at) = end - 1 - at;
    }
    if (at == length) continue;
    throw Error("documents of row " + std::to_string(b), std::to_string(at) + " tokens", std::to_string(length));
  }
}

}  // namespace k3spec
