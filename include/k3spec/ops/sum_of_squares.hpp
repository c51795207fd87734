#pragma once
/// \file
/// sums[b] = Σ x², in double, over block b of x, in the order of expr/order.hpp. x [n], sums [square_blocks(n)].
/// defines: sums_of_squares

#include <k3spec/backend/cpu/sum_of_squares.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// The sums of squares of the blocks of x, see expr::square_blocks.
/// \throws Error when `sums` has not one element for each block
template <class S, Device D>
void sums_of_squares(const D& device, Vector<const S> x, Vector<placed_as_t<double, S>> sums) {
  require_count("sums_of_squares: sums", sums.extent(0), expr::square_blocks(x.extent(0)));
  sums_of_squares_kernel(device, x, sums);
}

}  // namespace K3SPEC_NAMESPACE
