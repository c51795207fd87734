#pragma once
/// \file
/// Where an element lives, as part of its type: what another device than the host holds cannot be read, written or
/// mixed with the host's by mistake. Views of it give shapes, rows and columns; only a backend looks behind them.
/// defines: Placed, is_placed, value_t, place_t, placed_as_t, bare

#include <type_traits>

#include <k3spec/core/host_device.hpp>
#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

struct Cpu;

/// A T in the memory of a device that the host does not share. There are none on the host, only pointers to them.
/// \tparam D  the device's tag
template <class T, class D>
class Placed {
 public:
  Placed() = delete;
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;

 private:
  T value_;
};

namespace detail {
template <class T>
struct Place {
  using value = T;
  using device = Cpu;
  template <class U>
  using as = U;
};
template <class T>
struct Place<const T> {
  using value = const typename Place<T>::value;
  using device = typename Place<T>::device;
  template <class U>
  using as = typename Place<T>::template as<U>;
};
template <class T, class D>
struct Place<Placed<T, D>> {
  using value = T;
  using device = D;
  template <class U>
  using as = Placed<U, D>;
};
template <class U, class T>
struct PlacedAs {
  using type = typename Place<T>::template as<U>;
};
template <class U, class T>
struct PlacedAs<const U, T> {
  using type = const typename Place<T>::template as<U>;
};
}  // namespace detail

/// The type of an element without its place.
template <class T>
using value_t = typename detail::Place<T>::value;

/// Whether T is an element that the host cannot read.
template <class T>
inline constexpr bool is_placed = !std::is_same_v<value_t<T>, T>;

/// The device whose memory an element is in.
template <class T>
using place_t = typename detail::Place<T>::device;

/// A U in the memory where T is.
template <class U, class T>
using placed_as_t = typename detail::PlacedAs<U, T>::type;

/// For backends: a pointer to the elements themselves.
template <class T>
K3SPEC_HOST_DEVICE constexpr value_t<T>* bare(T* p) {
  if constexpr (is_placed<T>) {
    return reinterpret_cast<value_t<T>*>(p);
  } else {
    return p;
  }
}

}  // namespace K3SPEC_NAMESPACE
