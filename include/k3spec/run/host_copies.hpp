#pragma once
/// \file
/// What training keeps in a device's memory, while files are read and written from the host's. Where the device is the
/// host, nothing is copied.
/// defines: to_device, on_host

#include <concepts>
#include <optional>
#include <utility>

#include <k3spec/core/memory.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/optimiser/ema.hpp>

namespace K3SPEC_NAMESPACE {

/// Moves parameters into a device's memory.
template <class Model, Element T, Device D>
Parameters<Model, T, D> to_device(const D& device, Parameters<Model, T> host) {
  if constexpr (std::same_as<D, Cpu>) {
    return host;
  } else {
    Parameters<Model, T, D> moved(device);
    upload<T>(device, std::as_const(host).all(), moved.all());
    return moved;
  }
}

/// Gives an optimizer the moments, masters and counts of one on the host.
template <class Model, Element T, Device D>
void to_device(const D& device, AdamW<Model, T>& host, AdamW<Model, T, D>& optimizer) {
  const auto from = host.state();
  const auto to = optimizer.state();
  for (std::size_t i = 0; i < to.size(); ++i) upload<typename AdamW<Model, T>::State>(device, from[i], to[i]);
  optimizer.restore_counts(host.steps(), host.skipped(), host.skipped_in_a_row());
}

/// Parameters as the host can read them.
template <class Model, Element T, Device D>
decltype(auto) on_host(const D& device, const Parameters<Model, T, D>& parameters) {
  if constexpr (std::same_as<D, Cpu>) {
    return (parameters);
  } else {
    Parameters<Model, T> host;
    download<T>(device, parameters.all(), host.all());
    return host;
  }
}

/// An optimizer as the host can read it.
/// \param parameters  those that it moves, on the host
template <class Model, Element T, Device D>
decltype(auto) on_host(const D& device, AdamW<Model, T, D>& optimizer, const Parameters<Model, T>& parameters) {
  if constexpr (std::same_as<D, Cpu>) {
    return (optimizer);
  } else {
    AdamW<Model, T> host(optimizer.options(), parameters);
    const auto from = optimizer.state();
    const auto to = host.state();
    for (std::size_t i = 0; i < to.size(); ++i) download<typename AdamW<Model, T>::State>(device, from[i], to[i]);
    host.restore_counts(optimizer.steps(), optimizer.skipped(), optimizer.skipped_in_a_row());
    return host;
  }
}

/// Gives an average what one on the host has.
template <class Model, Element T, Device D>
void to_device(const D& device, Ema<Model, T>& host, Ema<Model, T, D>& average) {
  upload<typename Ema<Model, T>::State>(device, host.state(), average.state());
  average.round(device);
}

/// An average, if there is one, as the host can read it.
/// \param parameters  those that it is of, on the host
template <class Model, Element T, Device D>
decltype(auto) on_host(const D& device, std::optional<Ema<Model, T, D>>& average,
                       const Parameters<Model, T>& parameters) {
  if constexpr (std::same_as<D, Cpu>) {
    return (average);
  } else {
    std::optional<Ema<Model, T>> host;
    if (!average) return host;
    host.emplace(average->decay(), parameters);
    download<typename Ema<Model, T>::State>(device, average->state(), host->state());
    host->round();
    return host;
  }
}

}  // namespace K3SPEC_NAMESPACE
