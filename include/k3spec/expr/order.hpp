#pragma once
/// \file
/// The order of sums over a row's columns and over a column's rows. It depends on the number of elements alone, so
/// that every device, whatever its vector width or thread count, gets the same bits.
///
/// n elements are dealt out to C chains, element i to chain i mod C. A chain combines its elements in ascending order,
/// starting from the neutral element. Then the chains are halved: chain c takes in chain c + C/2, then c + C/4, … until
/// chain 0 holds all. (Chains without elements hold the neutral element: leaving them out changes nothing.)
///
/// A sum of squares over a whole buffer goes block by block: within a block element i adds to chain i mod
/// square_chains, the chains are added up one after another, and so are the blocks.
/// defines: expr::row_chains, most_row_chains, short_row, column_chains, square_block, square_chains, square_blocks

#include <k3spec/core/extents.hpp>

namespace K3SPEC_NAMESPACE::expr {

/// Rows up to this length have chains enough for one warp, longer ones for a block of eight.
inline constexpr index_t short_row = 16384;
inline constexpr index_t most_row_chains = 2048;

/// C for a sum over a row of n columns.
K3SPEC_HOST_DEVICE constexpr index_t row_chains(index_t n) { return n <= short_row ? 256 : most_row_chains; }

/// C for a sum over the rows of a column.
inline constexpr index_t column_chains = 16;

inline constexpr index_t square_block = 4096, square_chains = 8;

/// Blocks of a buffer of n elements.
K3SPEC_HOST_DEVICE constexpr index_t square_blocks(index_t n) { return ceil_div(n, square_block); }

}  // namespace K3SPEC_NAMESPACE::expr
