#pragma once
/// \file
/// MXFP4 weights of a checkpoint as numbers.
/// defines: io::dequantize_mxfp4
/// \see OCP Microscaling Formats (MX) Specification 1.0

#include <cstdint>
#include <string>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/mxfp4.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE::io {

using k3spec::mxfp4_block, k3spec::mxfp4_scale, k3spec::mxfp4_value;

namespace detail {

/// One row. Every product is exact, but for those beyond float's range, which are infinite in float and bfloat16.
template <class T>
void dequantize_row(const std::uint8_t* packed, const std::uint8_t* scale, T* out, index_t width) {
  using A = accumulate_t<T>;
  for (index_t block = 0; block < width / mxfp4_block; ++block) {
    const A factor = mxfp4_scale<A>(scale[block]);
    for (index_t i = 0; i < mxfp4_block / 2; ++i, ++packed, out += 2) {
      out[0] = static_cast<T>(factor * mxfp4_value<A>(*packed & 15U));
      out[1] = static_cast<T>(factor * mxfp4_value<A>(*packed >> 4U));
    }
  }
}

inline void check_mxfp4_extent(const char* what, index_t found, index_t wanted) {
  if (found != wanted) throw Error(std::string("MXFP4: ") + what, std::to_string(found), std::to_string(wanted));
}

}  // namespace detail

/// An MXFP4 weight as numbers.
/// \param packed  [out, in/2], the low four bits of a byte being the even element
/// \param scale   [out, in/32]
/// \param weight  [out, in]
/// \throws Error when run-time extents disagree or `in` is no multiple of 32
template <Element T, index_t PO, index_t PW, index_t SO, index_t SW, index_t Out, index_t In>
void dequantize_mxfp4(View<const std::uint8_t, PO, PW> packed, View<const std::uint8_t, SO, SW> scale,
                      View<T, Out, In> weight) {
  static_assert(In == dyn || In % mxfp4_block == 0,
                "an MXFP4 row is made of blocks of 32: its width must be a multiple");
  const index_t out = weight.extent(0), in = weight.extent(1);
  detail::check_mxfp4_extent("width beyond whole blocks of 32", in % mxfp4_block, 0);
  detail::check_mxfp4_extent("rows of packed", packed.extent(0), out);
  detail::check_mxfp4_extent("columns of packed", packed.extent(1), in / 2);
  detail::check_mxfp4_extent("rows of scale", scale.extent(0), out);
  detail::check_mxfp4_extent("columns of scale", scale.extent(1), in / mxfp4_block);
  for (index_t i = 0; i < out; ++i) detail::dequantize_row(packed.row(i), scale.row(i), weight.row(i), in);
}

}  // namespace K3SPEC_NAMESPACE::io
