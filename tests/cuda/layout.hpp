#pragma once
/// \file
/// Matrices that stand somewhere in a buffer, with gaps between their rows: what lies between must stay as it is.
/// defines: test::Layout, test::Strided

#include <tests/cuda/both_devices.hpp>

namespace k3spec::test {

/// `rows` rows of `n`, `gap` elements between them, after `offset`.
struct Layout {
  index_t rows, n, offset = 0, gap = 0;

  index_t stride() const { return n + gap; }
  index_t elements() const { return offset + rows * stride(); }
};

/// Numbers in such a layout, on a device.
template <class T, class D>
class Strided {
 public:
  Strided(const Layout& layout, std::uint64_t seed) : Strided(layout, numbers<T>(layout.elements(), seed)) {}
  Strided(const Layout& layout, const std::vector<T>& values) : layout_(layout), memory_(values) {}

  Matrix<element_t<D, T>> matrix() {
    return {memory_.vector().data() + layout_.offset, Extents<dyn, dyn>(layout_.rows, layout_.n), layout_.stride()};
  }
  /// All of the buffer.
  std::vector<double> get() { return as_doubles(memory_.get()); }

 private:
  Layout layout_;
  Mirror<T, D> memory_;
};

}  // namespace k3spec::test
