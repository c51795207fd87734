#pragma once
/// \file
/// Where the frozen target of a training run is computed: on the draft's own device, or beside it on another one, as
/// long as a backend has no kernels for all that a target asks for.
/// defines: TargetPlace, target_device_t, target_device, runs_targets

#include <concepts>

#include <k3spec/core/device.hpp>

namespace K3SPEC_NAMESPACE {

/// D itself. A backend that cannot run a target specialises it, beside its tag.
template <class D>
struct TargetPlace {
  using type = D;
  static const D& of(const D& device) { return device; }
};

/// The device of the target that a draft on D learns from.
template <Device D>
using target_device_t = typename TargetPlace<D>::type;

/// That device itself, beside the draft's. `device` must outlive it.
template <Device D>
decltype(auto) target_device(const D& device) {
  return TargetPlace<D>::of(device);
}

/// Whether a target runs where its draft is trained.
template <Device D>
inline constexpr bool runs_targets = std::same_as<D, target_device_t<D>>;

}  // namespace K3SPEC_NAMESPACE
