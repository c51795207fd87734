#pragma once
/// \file
/// The frozen target's side of training: windows of text go through it, and the states that a draft learns from stay.
/// defines: TextWindows, TargetStates

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/arena.hpp>
#include <k3spec/target/forward.hpp>

namespace k3spec {

/// Tokens to learn from, [batch, length].
struct TextWindows {
  Matrix<const index_t> ids;
  Vector<const std::uint8_t> loss_mask = {};  ///< [batch · length] 0: not to be learnt; empty: all are

  bool counts(index_t row) const { return loss_mask.extent(0) == 0 || loss_mask(row) != 0; }

  /// \throws Error on other shapes
  void check(index_t batch, index_t length) const {
    const auto shape = [](index_t a, index_t b) { return std::to_string(a) + " x " + std::to_string(b); };
    if (ids.extent(0) != batch || ids.extent(1) != length || !ids.is_packed()) {
      throw Error("windows", shape(ids.extent(0), ids.extent(1)), shape(batch, length) + ", packed");
    }
    if (loss_mask.extent(0) == 0 || loss_mask.extent(0) == batch * length) return;
    throw Error("windows: loss_mask", std::to_string(loss_mask.extent(0)), std::to_string(batch * length) + " or none");
  }
};

/// Owns the target and the states of one batch at a time. R = batch · length rows.
template <class Config, Element T>
class TargetStates {
 public:
  using Target = K3Target<Config>;
  static constexpr index_t hidden = Target::hidden;

  TargetStates(Parameters<Target, T> parameters, std::vector<Tap> taps, index_t batch, index_t length)
      : parameters_(std::move(parameters)),
        target_(parameters_.weights()),
        taps_(std::move(taps)),
        state_({.sequences = batch, .capacity = length, .rollback = 0}),
        arena_(bytes(batch, length, tap_count())) {
    rows_ = Kept::allocate(arena_, batch * length, tap_count());
  }

  /// Bytes of the states and of what is needed to make them; the target's weights and caches not counted.
  static constexpr std::size_t bytes(index_t batch, index_t length, index_t taps) {
    return plan_bytes([&](ArenaPlan& a) {
      Kept::allocate(a, batch * length, taps);
      a.borrow(FrozenTarget<Config, T>::scratch_bytes(batch, length));
    });
  }

  /// Each window is a sequence of its own.
  /// \throws Error on windows of another shape, or ids out of range
  void run(const Cpu& cpu, const TextWindows& windows) {
    windows.check(state_.sequences(), state_.sequences() == 0 ? 0 : rows_.last.extent(0) / state_.sequences());
    for (index_t b = 0; b < state_.sequences(); ++b) state_.reset(b);
    target_.forward(cpu, state_, windows.ids, {rows_.last.matrix(), taps_, rows_.tapped}, arena_);
  }

  /// [R, hidden], post-norm: what the target's head reads.
  Rows<const T, hidden> last() const { return rows_.last; }
  /// [R, taps · hidden]
  Matrix<const T> tapped() const { return rows_.tapped; }
  index_t tap_count() const { return static_cast<index_t>(taps_.size()); }

  const FrozenTarget<Config, T>& target() const { return target_; }
  typename Target::template Weights<const T> weights() const { return parameters_.weights(); }

 private:
  struct Kept {
    Rows<T, hidden> last;
    Matrix<T> tapped;

    template <Allocator A>
    static constexpr Kept allocate(A& a, index_t rows, index_t taps) {
      Kept k;
      take_rows(a, rows, k.last);
      k.tapped = Matrix<T>(a.template take<T>(checked_product(rows, taps * hidden)), rows, taps * hidden);
      return k;
    }
  };

  Parameters<Target, T> parameters_;
  FrozenTarget<Config, T> target_;
  std::vector<Tap> taps_;
  TargetState<Config, T> state_;
  Arena arena_;
  Kept rows_;
};

}  // namespace k3spec
