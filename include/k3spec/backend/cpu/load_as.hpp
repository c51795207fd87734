#pragma once
/// \file
/// A packet of numbers that are stored in another type, or of fewer than it holds.
/// defines: detail::load_as

#include <algorithm>
#include <concepts>

#include <k3spec/backend/cpu/packet.hpp>

namespace K3SPEC_NAMESPACE::detail {

/// The first n elements at p as a packet of S, as many as fit; zeros after them, and nothing past them is read.
template <class S, class T>
Packet<S> load_as(const T* p, index_t n) {
  if constexpr (std::same_as<T, S> || (std::same_as<T, bfloat16> && std::same_as<S, float>)) {
    return n >= Packet<S>::width ? Packet<S>::load(p) : Packet<S>::load_first(p, n);
  } else {
    typename Packet<S>::Lanes lanes{};
    for (index_t i = 0; i < std::min(n, Packet<S>::width); ++i)
      lanes[static_cast<std::size_t>(i)] = static_cast<S>(p[i]);
    return Packet<S>(lanes);
  }
}

}  // namespace K3SPEC_NAMESPACE::detail
