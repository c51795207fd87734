#pragma once
/// \file
/// What every backend is handed of a rotation (ops/rope.hpp).
/// defines: RotaryPositions, RopeFrequencies, RopeProblem, Rotation

#include <array>
#include <type_traits>

#include <k3spec/backend/attention_problem.hpp>

namespace K3SPEC_NAMESPACE {

/// The position of each row: ids[row] where there are any, else counted from `first` within sequences of `length` rows
/// (0: all rows are one sequence); and `shift` more.
struct RotaryPositions {
  const index_t* ids = nullptr;
  index_t length = 0, first = 0, shift = 0;

  K3SPEC_HOST_DEVICE index_t operator()(index_t row) const {
    if (ids != nullptr) return ids[row] + shift;
    return first + (length > 0 ? row % length : row) + shift;
  }
  RotaryPositions shifted(index_t by) const { return {ids, length, first, shift + by}; }
};

/// Angle per position of each pair of columns.
template <index_t Rope>
using RopeFrequencies = std::array<float, static_cast<std::size_t>(Rope / 2)>;

/// Rotates as forward does, or back, as its transpose does to gradients.
enum class Rotation { forward, back };

/// The rope slices of queries and keys, to be turned in place.
template <class Heads, class T>
struct RopeProblem {
  static_assert(Heads::rope % 2 == 0, "rope: pairs of columns are rotated, so the slice must have an even width");
  RopeFrequencies<Heads::rope> frequencies;
  RotaryPositions positions;
  Matrix<T> q;       ///< [rows, heads·(nope+rope)], heads of [nope ‖ rope]
  Matrix<T> k_rope;  ///< [rows, rope], the slice that all heads share
};
static_assert(std::is_trivially_copyable_v<RopeProblem<AttentionHeads<1, 1, 2, 1>, bfloat16>>);

}  // namespace K3SPEC_NAMESPACE
