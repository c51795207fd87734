#pragma once
/// \file
/// Linear layers of the frozen target, laid out once for decoding.
/// defines: PrepackedLinear, detail::take_matrix

#include <initializer_list>

#include <k3spec/core/arena.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/target/stacked_weights.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
/// Points a matrix at new memory. The target's activations have run-time extents throughout, so that models of other
/// sizes share their loops.
template <Allocator A, class T>
constexpr void take_matrix(A& a, Matrix<T>& m, index_t rows, index_t columns) {
  m = Matrix<T>(a.template take<T>(checked_product(rows, columns)), rows, columns);
}
}  // namespace detail

/// A weight that never changes, laid out once for products with few rows: decoding is nothing else. Several weights
/// that read the same input become one, whose results stand side by side; no result's bits change by that.
template <Element T>
class PrepackedLinear {
  using D = place_t<T>;
  using HostMatrix = Matrix<const value_t<T>>;
  using UnreadMatrix = Matrix<Unread<value_t<T>>>;

 public:
  PrepackedLinear() = default;

  /// y = x [W_0; W_1; …]ᵀ with W_i [out_i, in], the host's
  /// \throws Error when they do not read the same number of features
  PrepackedLinear(const D& device, std::initializer_list<HostMatrix> weights, KeepWeights keep = KeepWeights::native)
      : packed_(detail::prepack_stacked<T>(device, weights, keep)) {}
  /// The same of weights that are still to be read.
  PrepackedLinear(const D& device, std::initializer_list<UnreadMatrix> weights)
      : packed_(detail::prepack_stacked<T>(device, weights, kept_as(*weights.begin()))) {}

  /// y = x W with W [in, out]
  static PrepackedLinear plain(const D& device, const HostMatrix& w, KeepWeights keep = KeepWeights::native) {
    const index_t in = w.extent(0), out = w.extent(1);
    Buffer<value_t<T>> turned(out * in);
    for (index_t i = 0; i < in; ++i) {
      for (index_t o = 0; o < out; ++o) turned[o * in + i] = w(i, o);
    }
    return {device, {HostMatrix(turned.data(), out, in)}, keep};
  }

  /// y [rows, out] (= or +=) x [rows, in] Wᵀ
  /// \throws Error on other shapes
  template <AnyView X, AnyView Y>
  void forward(const D& device, const X& x, const Y& y, Into into = Into::overwrite) const {
    require_rows("PrepackedLinear: y", y, x.extent(0));
    gemm(device, x.matrix(), packed_, y.matrix(), into);
  }

  /// What it holds.
  index_t bytes() const { return packed_.bytes(); }

 private:
  PrepackedWeights<T> packed_;
};

}  // namespace K3SPEC_NAMESPACE
