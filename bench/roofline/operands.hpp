#pragma once
/// \file
/// Operands of what is measured.
/// defines: bench::Floats, bench::held, bench::random_floats, bench::matrix, bench::Pool

#include <memory>
#include <string_view>

#include <k3spec/core/buffer.hpp>
#include <k3spec/core/view.hpp>

#include "../hash_fill.hpp"

namespace k3spec::bench {

using Floats = Buffer<float>;

/// An object that a path's function keeps alive.
template <class T, class... X>
std::shared_ptr<T> held(X&&... x) {
  return std::make_shared<T>(std::forward<X>(x)...);
}

inline Floats random_floats(index_t count, Spread spread = {0, 1}) {
  Floats x(count);
  fill("operand", spread, x.data(), count);
  return x;
}

/// Rows of numbers from `first` on.
template <class T>
Matrix<T> matrix(Buffer<std::remove_const_t<T>>& x, index_t rows, index_t columns, index_t first = 0) {
  return Matrix<T>(x.data() + first, rows, columns);
}

/// Two arrays, each larger than caches, that all paths share which need such.
struct Pool {
  static constexpr index_t count = index_t{1} << 27;  // 512 MiB
  Floats from = random_floats(count), to = Floats(count);
};

}  // namespace k3spec::bench
