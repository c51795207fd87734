#pragma once
// A draft's parameters and gradients on a device, and arrays beside them.
#include <cmath>
#include <vector>

#include <tests/support/mirror.hpp>
#include <k3spec/core/parameters.hpp>

namespace k3spec::test {

template <class Draft, class T, class D>
struct DraftModel {
  using S = accumulate_t<T>;
  Parameters<Draft, T, D> parameters{device<D>()};
  Gradients<Draft, T, D> gradients{device<D>()};

  /// The host's parameters.
  explicit DraftModel(const Parameters<Draft, T>& host) { upload<T>(device<D>(), host.all(), parameters.all()); }
  void get(Gradients<Draft, T>& host) { download<S>(device<D>(), gradients.flat(), host.flat()); }
};

/// A matrix that nobody has written.
template <class T, class D>
Mirror<T, D> empty(index_t rows, index_t columns) {
  return Mirror<T, D>(std::vector<T>(static_cast<std::size_t>(rows * columns), T(NAN)));
}
/// An array as rows of N columns.
template <index_t N, class T, class D>
Rows<element_t<D, T>, N> rows_of(Mirror<T, D>& m) {
  return m.matrix(N).template columns<0, N>();
}

}  // namespace k3spec::test
