#pragma once
/// \file
/// How a matrix product reads its operands and writes its result, on every device.
/// defines: Op, Into, further, Destination, ProductShape, product_shape, gemm, MatrixBatch, batch, head_batch, batch_shape

#include <string>

#include <k3spec/core/device.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// How an operand is read.
enum class Op { plain, transposed };

/// Whether a result replaces the old value, is added to it, or is not wanted: then nothing is computed, and its view is
/// not looked at. So every gradient of an input goes; it is overwritten unless the caller says otherwise.
enum class Into { overwrite, accumulate, nothing };

/// Where a further term of a result goes whose first one went `into`.
constexpr Into further(Into into) { return into == Into::overwrite ? Into::accumulate : into; }

/// Where the gradient of an input goes, and how. A view alone is overwritten; none is not wanted.
template <class T>
struct Destination {
  Destination() = default;
  template <AnyView V>
  Destination(const V& view, Into how = Into::overwrite) : to(as_matrix(view)), into(how) {}

  bool is_wanted() const { return into != Into::nothing; }
  /// Where a further term goes.
  Destination more() const { return {to, further(into)}; }
  /// Refuses a view of another shape where the gradient is wanted.
  /// \throws Error when it is, and the view has not this shape
  void check(const char* argument, index_t rows, index_t columns) const {
    if (is_wanted()) require_shape(argument, to, rows, columns);
  }

  Matrix<T> to{};
  Into into = Into::nothing;
};

/// C [m, n] = op(A) [m, k] · op(B) [k, n]
struct ProductShape {
  index_t m, n, k;
};

namespace detail {
inline void require_extent(const char* subject, index_t found, index_t wanted) {
  if (found != wanted) throw Error(subject, std::to_string(found), std::to_string(wanted));
}

template <class A, class B, class C>
ProductShape product_shape(const A& a, Op op_a, const B& b, Op op_b, const C& c, std::size_t first_axis) {
  const auto rows = [=](const auto& x, Op op) { return x.extent(first_axis + (op == Op::plain ? 0 : 1)); };
  const auto columns = [=](const auto& x, Op op) { return x.extent(first_axis + (op == Op::plain ? 1 : 0)); };
  const ProductShape s{rows(c, Op::plain), columns(c, Op::plain), columns(a, op_a)};
  require_extent("gemm: rows of op(A)", rows(a, op_a), s.m);
  require_extent("gemm: rows of op(B)", rows(b, op_b), s.k);
  require_extent("gemm: columns of op(B)", columns(b, op_b), s.n);
  return s;
}
}  // namespace detail

/// The sizes of op(A) op(B) -> C.
/// \throws Error when the matrices do not fit together
template <class A, class B, class C>
ProductShape product_shape(const A& a, Op op_a, const B& b, Op op_b, const C& c) {
  return detail::product_shape(a, op_a, b, op_b, c, 0);
}

namespace detail {
constexpr bool may_be_equal(index_t a, index_t b) { return a == dyn || b == dyn || a == b; }
}  // namespace detail

/// C (= or +=) op(A) · op(B), by the device's own gemm. Extents that are in the types are compared when compiling, the
/// others when running.
/// \throws Error when the matrices do not fit together
template <Op op_a, Op op_b, Device D, AnyView A, AnyView B, AnyView C>
void gemm(const D& device, const A& a, const B& b, const C& c, Into into = Into::overwrite) {
  constexpr auto of_a = A::extents_type::statics, of_b = B::extents_type::statics, of_c = C::extents_type::statics;
  static_assert(A::rank == 2 && B::rank == 2 && C::rank == 2, "gemm: an operand is no matrix");
  static_assert(detail::may_be_equal(of_a[op_a != Op::plain], of_c[0]), "gemm: op(A) and C have other numbers of rows");
  static_assert(detail::may_be_equal(of_b[op_b != Op::plain], of_a[op_a == Op::plain]),
                "gemm: op(B) has not as many rows as op(A) has columns");
  static_assert(detail::may_be_equal(of_b[op_b == Op::plain], of_c[1]),
                "gemm: op(B) and C have other numbers of columns");
  gemm(device, a.matrix(), op_a, b.matrix(), op_b, c.matrix(), into);
}

/// `count` matrices [rows, columns] of the same distances: from row to row, and from matrix to matrix (which may be
/// smaller, as for the heads of [rows, heads, columns]).
template <class T>
struct MatrixBatch {
  T* data;
  index_t count, rows, columns, row_stride, batch_stride;

  /// Axis 0 is the batch.
  constexpr index_t extent(std::size_t axis) const { return axis == 0 ? count : (axis == 1 ? rows : columns); }
  constexpr Matrix<T> operator[](index_t i) const {
    return Matrix<T>(data + i * batch_stride, Extents<dyn, dyn>(rows, columns), row_stride);
  }
};

/// A view [count, rows, columns] as a batch.
template <class T, index_t... E>
  requires(sizeof...(E) == 3)
constexpr MatrixBatch<T> batch(const View<T, E...>& v) {
  return {v.data(), v.extent(0), v.extent(1), v.extent(2), v.extent(2), v.row_stride()};
}

/// Columns [0, heads · width) of a matrix [rows, heads · width] as `heads` matrices [rows, width].
template <class T, index_t... E>
  requires(sizeof...(E) == 2)
constexpr MatrixBatch<T> head_batch(const View<T, E...>& v, index_t heads) {
  const index_t width = heads == 0 ? 0 : v.extent(1) / heads;
  return {v.data(), heads, v.extent(0), width, v.row_stride(), width};
}

/// The sizes of every product of a batch.
/// \throws Error when the batches do not fit together
template <class A, class B, class C>
ProductShape batch_shape(const MatrixBatch<A>& a, Op op_a, const MatrixBatch<B>& b, Op op_b, const MatrixBatch<C>& c) {
  detail::require_extent("gemm: matrices of A", a.count, c.count);
  detail::require_extent("gemm: matrices of B", b.count, c.count);
  return detail::product_shape(a, op_a, b, op_b, c, 1);
}

}  // namespace K3SPEC_NAMESPACE
