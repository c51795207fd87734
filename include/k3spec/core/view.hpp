#pragma once
/// \file
/// Non-owning row-major tensor views. The last axis is contiguous and so are all axes after the first; only the
/// distance between rows (axis 0) may be larger than a row, which is what a column slice needs.
/// defines: View, AnyView, Matrix, Vector, Rows, index_beside_t, as_matrix, bare

#include <array>
#include <cassert>
#include <concepts>
#include <type_traits>

#include <k3spec/core/extents.hpp>
#include <k3spec/core/placed.hpp>

namespace K3SPEC_NAMESPACE {

/// A tensor's elements in memory that another object owns, with its extents.
template <class T, index_t... E>
class View {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using extents_type = Extents<E...>;
  static constexpr std::size_t rank = sizeof...(E);
  static_assert(rank >= 1, "a view has at least one axis");

  /// Refers to nothing; only to be assigned to.
  constexpr View() = default;

  /// A packed tensor of all-static shape.
  K3SPEC_HOST_DEVICE constexpr explicit View(T* data) requires(extents_type::dynamic_rank == 0)
      : View(data, extents_type{}) {}

  K3SPEC_HOST_DEVICE constexpr View(T* data, extents_type extents) : View(data, extents, extents.product(1)) {}

  /// A view of rows that have gaps between them.
  /// \param row_stride  elements from one row to the next, at least the size of a row
  K3SPEC_HOST_DEVICE constexpr View(T* data, extents_type extents, index_t row_stride)
      : data_(data), extents_(extents), row_stride_(row_stride) {}

  /// A packed tensor with one argument for each `dyn` extent: `Rows<float, 8>(p, rows)`.
  template <std::convertible_to<index_t>... I>
    requires(sizeof...(I) == extents_type::dynamic_rank && sizeof...(I) > 0)
  K3SPEC_HOST_DEVICE constexpr explicit View(T* data, I... sizes) : View(data, extents_type(sizes...)) {}

  /// Adds const, or forgets static extents.
  template <class U, index_t... F>
    requires(sizeof...(F) == rank && std::is_convertible_v<U (*)[], T (*)[]> && ((F == E || E == dyn) && ...))
  K3SPEC_HOST_DEVICE constexpr View(const View<U, F...>& other)
      : data_(other.data()), extents_(convert(other.extents())), row_stride_(other.row_stride()) {}

  K3SPEC_HOST_DEVICE constexpr T* data() const { return data_; }
  K3SPEC_HOST_DEVICE constexpr const extents_type& extents() const { return extents_; }
  K3SPEC_HOST_DEVICE constexpr index_t extent(std::size_t axis) const { return extents_[axis]; }
  K3SPEC_HOST_DEVICE constexpr index_t size() const { return extents_.product(); }
  /// Elements per row: the product of all extents but the first.
  K3SPEC_HOST_DEVICE constexpr index_t row_size() const { return extents_.product(1); }
  K3SPEC_HOST_DEVICE constexpr index_t row_stride() const { return row_stride_; }
  K3SPEC_HOST_DEVICE constexpr bool is_packed() const { return row_stride_ == row_size() || extent(0) <= 1; }

  /// Element access, one index per axis, where the host can read them.
  template <std::convertible_to<index_t>... I>
    requires(sizeof...(I) == rank && !is_placed<T>)
  K3SPEC_HOST_DEVICE constexpr T& operator()(I... at) const {
    const std::array<index_t, rank> index{static_cast<index_t>(at)...};
    index_t offset = 0;
    for (std::size_t axis = 1; axis < rank; ++axis) offset = offset * extents_[axis] + index[axis];
    return data_[index[0] * row_stride_ + offset];
  }

  /// Pointer to the first element of row i (its `row_size()` elements are contiguous).
  K3SPEC_HOST_DEVICE constexpr T* row(index_t i) const { return data_ + i * row_stride_; }

  /// Rows [begin, begin + count).
  K3SPEC_HOST_DEVICE constexpr auto rows(index_t begin, index_t count) const {
    assert(begin >= 0 && count >= 0 && begin + count <= extent(0));
    return with_rows<E...>(row(begin), count);
  }

  /// [rows, row_size]: every axis after the first flattened into one.
  K3SPEC_HOST_DEVICE constexpr View<T, dyn, dyn> matrix() const {
    return {data_, Extents<dyn, dyn>(extent(0), row_size()), row_stride_};
  }

  /// Columns [Begin, Begin + Count) of a matrix, the row distance kept.
  template <index_t Begin, index_t Count>
    requires(rank == 2)
  K3SPEC_HOST_DEVICE constexpr View<T, extents_type::statics[0], Count> columns() const {
    assert(Begin + Count <= extent(1));
    if constexpr (extents_type::statics[0] == dyn) {
      return {data_ + Begin, Extents<dyn, Count>(extent(0)), row_stride_};
    } else {
      return {data_ + Begin, Extents<extents_type::statics[0], Count>(), row_stride_};
    }
  }

  /// Columns [begin, begin + count) of a matrix, the row distance kept.
  K3SPEC_HOST_DEVICE constexpr View<T, dyn, dyn> columns(index_t begin, index_t count) const requires(rank == 2) {
    assert(begin >= 0 && begin + count <= extent(1));
    return {data_ + begin, Extents<dyn, dyn>(extent(0), count), row_stride_};
  }

 private:
  template <class U, index_t... F>
  friend class View;

  template <index_t First, index_t... Rest>
  K3SPEC_HOST_DEVICE constexpr View<T, dyn, Rest...> with_rows(T* data, index_t count) const {
    static_assert(((Rest != dyn) && ...) || rank == 2, "row ranges of views with run-time inner axes: use matrix()");
    if constexpr (((Rest != dyn) && ...)) {
      return {data, Extents<dyn, Rest...>(count), row_stride_};
    } else {
      return {data, Extents<dyn, Rest...>(count, extent(1)), row_stride_};
    }
  }

  template <index_t... F>
  K3SPEC_HOST_DEVICE static constexpr extents_type convert(const Extents<F...>& from) {
    if constexpr (extents_type::dynamic_rank == 0) {
      return extents_type{};
    } else {
      const auto pick = [&]<std::size_t... I>(std::index_sequence<I...>) {
        return extents_type(from[dynamic_axis(I)]...);
      };
      return pick(std::make_index_sequence<extents_type::dynamic_rank>{});
    }
  }

  /// The axis of the slot-th run-time extent.
  K3SPEC_HOST_DEVICE static constexpr std::size_t dynamic_axis(std::size_t slot) {
    constexpr std::array<index_t, rank> fixed{E...};
    std::size_t axis = 0;
    for (;; ++axis) {
      if (fixed[axis] != dyn) continue;
      if (slot == 0) return axis;
      --slot;
    }
  }

  T* data_ = nullptr;
  extents_type extents_{};
  index_t row_stride_ = 0;
};

namespace detail {
template <class V>
inline constexpr bool is_view = false;
template <class T, index_t... E>
inline constexpr bool is_view<View<T, E...>> = true;
}  // namespace detail

/// A View of any type and shape.
template <class V>
concept AnyView = detail::is_view<std::remove_cvref_t<V>>;

/// Row numbers and ids in the memory where a view's elements are.
template <AnyView X>
using index_beside_t = placed_as_t<index_t, typename X::element_type>;

template <class T>
using Matrix = View<T, dyn, dyn>;

template <class T>
using Vector = View<T, dyn>;

/// `rows` run-time rows of C columns each: the shape of every activation.
template <class T, index_t C>
using Rows = View<T, dyn, C>;

/// For backends: a view of the elements themselves.
template <class T, index_t... E>
K3SPEC_HOST_DEVICE constexpr View<value_t<T>, E...> bare(const View<T, E...>& v) {
  return {bare(v.data()), v.extents(), v.row_stride()};
}

/// Any view as [rows, columns]; a vector is one row.
template <class T, index_t... E>
K3SPEC_HOST_DEVICE constexpr Matrix<T> as_matrix(const View<T, E...>& v) {
  if constexpr (sizeof...(E) == 1) {
    return Matrix<T>(v.data(), Extents<dyn, dyn>(1, v.extent(0)), v.extent(0));
  } else {
    return v.matrix();
  }
}

}  // namespace K3SPEC_NAMESPACE
