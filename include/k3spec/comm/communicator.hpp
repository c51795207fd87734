#pragma once
/// \file
/// What ranks share: each has a place among all, and numbers that are summed over all of them.
/// defines: Communicator

#include <concepts>
#include <cstdint>
#include <span>

#include <k3spec/core/device.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// A rank's way to the others. Every rank calls the same sums in the same order, each with its own numbers and as many
/// as the others; where all have called, each has the sum in their place. It is the same bits on every rank and in
/// every run: the communicators of this room add in the order of ranks, another one in an order that only the number of
/// ranks and of summands decides.
/// ```text
/// rank(), size()        of all ranks 0 to size() - 1 this one
/// sum(span)             a few numbers in the host's memory: losses, weights, 64-bit counts
/// sum(device, vector)   many numbers in the device's memory, in the order of what else the device does: gradients
/// leave()               this rank sums no more: sums of the others end with an Error, those that wait, too
/// ```
/// sum throws Error on every rank when the numbers are not as many on all of them, and when a rank has left.
/// \tparam D  the device whose vectors it sums
template <class C, class D = Cpu>
concept Communicator = Device<D> && requires(C& comm, const C& seen, const D& device, std::span<double> numbers,
                                             std::span<std::int64_t> counts, Vector<float> f, Vector<double> d) {
  { seen.rank() } -> std::same_as<index_t>;
  { seen.size() } -> std::same_as<index_t>;
  { comm.sum(numbers) } -> std::same_as<void>;
  { comm.sum(counts) } -> std::same_as<void>;
  { comm.sum(device, f) } -> std::same_as<void>;
  { comm.sum(device, d) } -> std::same_as<void>;
  { comm.leave() } -> std::same_as<void>;
};

}  // namespace K3SPEC_NAMESPACE
