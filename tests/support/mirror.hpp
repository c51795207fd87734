#pragma once
/// \file
/// Tests that run on any device keep their data on the host and a twin of it on the device. Another device than Cpu
/// says in a header of its own how tests get it: device, device_t and allocations.
/// defines: test::device, test::device_t, test::allocations, test::Mirror

#include <vector>

#include <tests/backend/allocations.hpp>
#include <k3spec/core/memory.hpp>

namespace k3spec::test {

/// How tests get a device: TestDevice<D>::get(threads).
template <class D>
struct TestDevice;

template <>
struct TestDevice<Cpu> {
  static constexpr bool rows_of_products_are_alone = true;
  static Cpu get(int threads) { return Cpu{threads}; }
  static long allocations() { return ::allocations(); }
};

template <class D>
decltype(auto) device(int threads = 1) {
  return TestDevice<D>::get(threads);
}
template <class D>
using device_t = decltype(TestDevice<D>::get(1));

/// Calls for memory of the device so far.
template <class D>
long allocations() {
  return TestDevice<D>::allocations();
}

/// A std::vector's twin in the memory of a device.
template <class T, class D>
class Mirror {
 public:
  Mirror() = default;
  explicit Mirror(const std::vector<T>& values) { resize(values.size()), put(values); }

  void resize(std::size_t size) { buffer_ = buffer_t<D, T>(device<D>(), static_cast<index_t>(size)); }
  void put(const std::vector<T>& from) {
    upload(device<D>(), Vector<const T>(from.data(), static_cast<index_t>(from.size())), vector());
  }
  void get(std::vector<T>& to) {
    download(device<D>(), Vector<const element_t<D, T>>(vector()),
             Vector<T>(to.data(), static_cast<index_t>(to.size())));
  }
  std::vector<T> get() {
    std::vector<T> to(static_cast<std::size_t>(buffer_.size()));
    get(to);
    return to;
  }

  Vector<element_t<D, T>> vector() { return Vector<element_t<D, T>>(buffer_.data(), buffer_.size()); }
  Matrix<element_t<D, T>> matrix(index_t columns) {
    return Matrix<element_t<D, T>>(buffer_.data(), columns == 0 ? 0 : buffer_.size() / columns, columns);
  }

 private:
  buffer_t<D, T> buffer_;
};

}  // namespace k3spec::test
