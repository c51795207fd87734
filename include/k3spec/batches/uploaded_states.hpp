#pragma once
/// \file
/// The frozen target's side of training where the draft's device cannot run a target: the target runs on another device
/// beside it (core/target_device.hpp), and its states are sent over. So are the states of a cache. Both go through
/// memory of the host from which the device takes them beside it (core/staging.hpp).
/// defines: UploadedStates, states_for_t

#include <algorithm>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <k3spec/batches/target_states.hpp>
#include <k3spec/core/staging.hpp>

namespace K3SPEC_NAMESPACE {

/// What TargetStates has, in the memory of D, of a target that runs on another device, whose memory is the host's.
template <ForTarget Given, Element T, Device D>
class UploadedStates {
  using Beside = target_device_t<D>;
  using Running = TargetStates<Given, T, Beside>;
  using Teacher = TeachingTarget<Given, T, Beside>;
  using E = element_t<D, T>;
  static_assert(!runs_targets<D> && shares_memory<Beside>, "UploadedStates: the target's memory is not the host's");

 public:
  using Target = typename Running::Target;
  static constexpr index_t hidden = Target::hidden;

  UploadedStates(Teacher target, std::vector<Tap> taps, const StatesSize& size, const D& device)
      : size_(size),
        taps_(static_cast<index_t>(taps.size())),
        arena_(device, own_bytes(size, taps_)),
        staging_(device, staged_bytes(size, taps_)) {
    kept_ = Kept::allocate(arena_, size, taps_);
    if (const auto& stored = target.stored()) {
      stored->check(taps, size.length, size.packing);
      cache_.emplace(std::move(target));
    } else {
      running_.emplace(std::move(target), std::move(taps), of_one_slot(size), target_device(device));
    }
  }

  /// Bytes in both memories: of the states, and of what a target needs to make them.
  /// \param runs  false: of the states alone, which a cache has
  static constexpr std::size_t bytes(const StatesSize& size, index_t taps, bool runs = true) {
    return own_bytes(size, taps) + staged_bytes(size, taps) + (runs ? Running::bytes(of_one_slot(size), taps) : 0);
  }

  /// As TargetStates::run; what is asked of D from now on finds the states.
  /// \throws Error as that does
  void run(const D& device, const TextWindows& windows, index_t slot = 0) {
    check(windows);
    const auto last = kept_.last(slot);
    const auto tapped = kept_.tapped(slot);
    if (running_) running_->run(target_device(device), windows);
    const Staged staged(staging_.writable(), size_.rows(), taps_);
    if (running_) {
      std::copy_n(running_->last().data(), running_->last().size(), staged.last.data());
      std::copy_n(running_->tapped().data(), running_->tapped().size(), staged.tapped.data());
    } else {
      stored()->read(target_device(device), windows, staged.last, staged.tapped);
    }
    staging_.template send<T>(device, 0, Vector<E>(last.data(), last.size()));
    staging_.template send<T>(device, Staged::last_bytes(size_.rows()), Vector<E>(tapped.data(), tapped.size()));
  }

  /// Refuses other windows than run takes.
  /// \throws Error on windows of another shape
  void check(const TextWindows& windows) const { windows.check(size_.batch, size_.length, size_.packing); }

  // ---- Each throws Error where there is no such slot

  /// As TargetStates::shift_last; those of `beside` stay.
  void shift_last(const D& device, index_t slot = 0) { kept_.shift_last(device, slot); }
  /// [R, hidden], post-norm: what the target's head reads.
  Rows<const E, hidden> last(index_t slot = 0) const { return kept_.last(slot); }
  /// [R, taps · hidden]
  Matrix<const E> tapped(index_t slot = 0) const { return kept_.tapped(slot); }

  index_t tap_count() const { return taps_; }

  /// The same where the target ran last, [R, hidden], in whichever slot; none beside a cache.
  Rows<const T, hidden> last_beside() const { return running_->last(); }

  /// The cache that the states come from; none: a target runs.
  const std::optional<StoredFeatures<Given, T>>& stored() const {
    return running_ ? running_->stored() : cache_->stored();
  }
  /// The target, which there is where there is no cache.
  const FrozenTarget<Given, T, Beside>& target() const { return running_->target(); }
  typename Teacher::Tables tables() const { return running_ ? running_->tables() : cache_->tables(); }

 private:
  using Kept = detail::KeptStates<E, hidden>;

  /// The states of one batch on their way: the last ones, then the tapped ones.
  struct Staged {
    Rows<T, hidden> last;
    Matrix<T> tapped;

    Staged(std::byte* bytes, index_t rows, index_t taps)
        : last(reinterpret_cast<T*>(bytes), rows),
          tapped(reinterpret_cast<T*>(bytes + last_bytes(rows)), rows, taps * hidden) {}
    static constexpr std::size_t last_bytes(index_t rows) {
      return aligned(static_cast<std::size_t>(checked_product(rows, hidden)) * sizeof(T));
    }
  };

  static constexpr StatesSize of_one_slot(StatesSize size) {
    size.slots = 1;
    return size;
  }
  static constexpr std::size_t own_bytes(const StatesSize& size, index_t taps) {
    return plan_bytes([&](ArenaPlan& a) { Kept::allocate(a, size, taps); });
  }

  static constexpr std::size_t staged_bytes(const StatesSize& size, index_t taps) {
    return Staged::last_bytes(size.rows()) * static_cast<std::size_t>(1 + taps);
  }

  StatesSize size_;
  index_t taps_;
  arena_t<D> arena_;
  Staging<D> staging_;
  Kept kept_;
  std::optional<Running> running_;
  std::optional<Teacher> cache_;  // where none runs
};

/// The target's states for a draft on D.
template <ForTarget Given, Element T, Device D>
using states_for_t = std::conditional_t<runs_targets<D>, TargetStates<Given, T, D>, UploadedStates<Given, T, D>>;

}  // namespace K3SPEC_NAMESPACE
