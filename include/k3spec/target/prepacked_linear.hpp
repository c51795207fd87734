#pragma once
/// \file
/// Linear layers of the frozen target, laid out once for decoding.
/// defines: PrepackedLinear, detail::take_matrix

#include <algorithm>
#include <initializer_list>

#include <k3spec/backend/placed_weights.hpp>
#include <k3spec/core/arena.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
/// Points a matrix at new memory. The target's activations have run-time extents throughout, so that models of other
/// sizes share their loops.
template <Allocator A, class T>
constexpr void take_matrix(A& a, Matrix<T>& m, index_t rows, index_t columns) {
  m = Matrix<T>(a.template take<T>(checked_product(rows, columns)), rows, columns);
}

/// [W_0; W_1; …] of weights W_i [out_i, in], while it lives.
template <class T>
class Stacked {
 public:
  /// \throws Error when they do not read the same number of features
  explicit Stacked(std::initializer_list<Matrix<const T>> weights) {
    for (const auto& w : weights) in_ = w.extent(1), out_ += w.extent(0);
    for (const auto& w : weights) require_count("stacked weights: columns", w.extent(1), in_);
    memory_ = Buffer<T>(out_ * in_);
    T* to = memory_.data();
    for (const auto& w : weights) {
      for (index_t o = 0; o < w.extent(0); ++o, to += in_) std::copy_n(w.row(o), in_, to);
    }
  }
  Matrix<const T> matrix() const { return Matrix<const T>(memory_.data(), out_, in_); }

 private:
  index_t in_ = 0, out_ = 0;
  Buffer<T> memory_;
};
}  // namespace detail

/// A weight that never changes, laid out once for products with few rows: decoding is nothing else. Several weights
/// that read the same input become one, whose results stand side by side; no result's bits change by that.
template <Element T>
class PrepackedLinear {
  using D = place_t<T>;
  using HostMatrix = Matrix<const value_t<T>>;

 public:
  PrepackedLinear() = default;

  /// y = x [W_0; W_1; …]ᵀ with W_i [out_i, in], the host's
  /// \throws Error when they do not read the same number of features
  PrepackedLinear(const D& device, std::initializer_list<HostMatrix> weights)
      : packed_(device, detail::Stacked<value_t<T>>(weights).matrix()) {}

  /// y = x W with W [in, out]
  static PrepackedLinear plain(const D& device, const HostMatrix& w) {
    const index_t in = w.extent(0), out = w.extent(1);
    Buffer<value_t<T>> turned(out * in);
    for (index_t i = 0; i < in; ++i) {
      for (index_t o = 0; o < out; ++o) turned[o * in + i] = w(i, o);
    }
    return {device, {HostMatrix(turned.data(), out, in)}};
  }

  /// y [rows, out] (= or +=) x [rows, in] Wᵀ
  /// \throws Error on other shapes
  template <AnyView X, AnyView Y>
  void forward(const D& device, const X& x, const Y& y, Into into = Into::overwrite) const {
    require_rows("PrepackedLinear: y", y, x.extent(0));
    gemm(device, x.matrix(), packed_, y.matrix(), into);
  }

 private:
  PrepackedWeights<T> packed_;
};

}  // namespace K3SPEC_NAMESPACE
