#pragma once
/// \file
/// What a layer asks of the views it is called with: as many columns as it is made for, and elements that add up in the
/// same type as its own (bfloat16 beside float, but no double beside either). What the types say is refused when
/// compiling, in a sentence and with nothing behind it; the rest when running (core/require_shape.hpp).
/// defines: has_columns, adds_up_as, Operands

#include <concepts>
#include <type_traits>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// Whether a matrix may have N columns, as far as its type says.
template <class V, index_t N>
inline constexpr bool has_columns = V::rank == 2 &&
                                    (V::extents_type::statics.back() == dyn || V::extents_type::statics.back() == N);

/// Whether elements of both add up in one type: accumulate_t.
template <class V, class T>
inline constexpr bool adds_up_as = std::same_as<scalar_t<typename V::value_type>, scalar_t<T>>;

/// Views [rows, N] of a layer of element type T. `fit` is false where the types refuse them.
template <class T, index_t N, class... V>
struct Operands {
  static constexpr bool wide = (has_columns<V, N> && ...), same = (adds_up_as<V, T> && ...);
  static constexpr bool here = (std::same_as<place_t<typename V::value_type>, place_t<T>> && ...);
  static_assert(here, "a view is in another memory than the weights it meets");
  static constexpr bool fit = wide && same && here;
};

}  // namespace K3SPEC_NAMESPACE
