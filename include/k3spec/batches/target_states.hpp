#pragma once
/// \file
/// The frozen target's side of training: windows of text go through it, or are looked up in a cache of what it said of
/// them, and the states that a draft learns from stay.
/// defines: TextWindows, MicroBatch, StatesSize, TargetStates

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/backend/cpu/batch_parts.hpp>
#include <k3spec/batches/documents.hpp>
#include <k3spec/batches/teacher.hpp>
#include <k3spec/batches/teaching_target.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/core/arena.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// Tokens to learn from, [batch, length].
struct TextWindows {
  Matrix<const index_t> ids;
  Vector<const std::uint8_t> loss_mask = {};  ///< [batch · length] 0: not to be learnt; empty: all are

  /// [batch, most documents] tokens of each document, zero-padded; empty: every window is one. Needs Packing::apart.
  Matrix<const index_t> seq_lens = {};

  /// Windows [first, first + n), with all that belongs to them.
  /// \throws Error when there are not so many of something
  TextWindows part(index_t first, index_t n) const {
    const index_t length = ids.extent(1);
    require_part("windows: part", first, n, ids.extent(0));
    if (loss_mask.extent(0) > 0) require_rows("windows: loss_mask", loss_mask, ids.extent(0) * length);
    if (seq_lens.extent(0) > 0) require_rows("windows: seq_lens", seq_lens, ids.extent(0));
    TextWindows some{ids.rows(first, n)};
    if (loss_mask.extent(0) > 0) some.loss_mask = loss_mask.rows(first * length, n * length);
    if (seq_lens.extent(0) > 0) some.seq_lens = seq_lens.rows(first, n);
    return some;
  }

  /// Whether a row is to be learnt.
  /// \throws Error when the loss mask has no such row
  bool counts(index_t row) const {
    if (loss_mask.extent(0) == 0) return true;
    require_index("windows: loss_mask: row", row, loss_mask.extent(0));
    return loss_mask(row) != 0;
  }

  /// Refuses windows of another size.
  /// \throws Error on other shapes, documents that do not fill their windows, documents without packing
  void check(index_t batch, index_t length, Packing packing) const {
    const auto shape = [](index_t a, index_t b) { return std::to_string(a) + " x " + std::to_string(b); };
    if (ids.extent(0) != batch || ids.extent(1) != length || !ids.is_packed()) {
      throw Error("windows", shape(ids.extent(0), ids.extent(1)), shape(batch, length) + ", packed");
    }
    if (loss_mask.extent(0) != 0 && loss_mask.extent(0) != batch * length) {
      throw Error("windows: loss_mask", std::to_string(loss_mask.extent(0)),
                  std::to_string(batch * length) + " or none");
    }
    const index_t packed = seq_lens.extent(0);
    if (packed == 0) return;
    require(packing == Packing::apart, "windows: seq_lens", "documents", "none, or packing apart");
    if (packed != batch) throw Error("windows: seq_lens", std::to_string(packed) + " rows", std::to_string(batch));
    check_documents(seq_lens, length);
  }
};

/// Which of a step's equally large batches this is. What is drawn for a window hangs on its place in the step: it is
/// the same however many batches the step is cut into, and whichever rank has which of them.
struct MicroBatch {
  index_t step = 0;
  index_t index = 0;  ///< among all the step's batches
  index_t slot = 0;   ///< among this rank's
};

/// How many states there are: of every batch alike.
struct StatesSize {
  index_t batch, length;            ///< windows, and their tokens
  Packing packing = Packing::none;  ///< whether windows may have documents
  index_t slots = 1;                ///< batches whose states are kept

  constexpr index_t rows() const { return batch * length; }
};

namespace detail {

/// The last and the tapped states of one batch in each slot, R rows each.
template <class E, index_t hidden>
class KeptStates {
 public:
  template <Allocator A>
  static constexpr KeptStates allocate(A& a, const StatesSize& size, index_t taps) {
    const index_t rows = size.slots * size.rows();
    KeptStates k;
    k.size_ = size;
    take_rows(a, rows, k.last_);
    k.tapped_ = Matrix<E>(a.template take<E>(checked_product(rows, taps * hidden)), rows, taps * hidden);
    return k;
  }

  // ---- Each throws Error where there is no such slot

  Rows<E, hidden> last(index_t slot) const { return last_.rows(first(slot), size_.rows()); }
  Matrix<E> tapped(index_t slot) const { return tapped_.rows(first(slot), size_.rows()); }
  template <Device D>
  void shift_last(const D& device, index_t slot) const {
    shift_states_left(device, last(slot), size_.length);
  }

 private:
  index_t first(index_t slot) const {
    require_index("target states: slot", slot, size_.slots);
    return slot * size_.rows();
  }

  StatesSize size_{0, 0};
  Rows<E, hidden> last_;
  Matrix<E> tapped_;
};

}  // namespace detail

/// Owns the target or its cache, and the states of one batch at a time in each of its slots, in a device's memory. R =
/// batch · length rows.
template <ForTarget Given, Element T, Device D = Cpu>
class TargetStates {
  using Config = complete_target_t<Given>;
  using E = element_t<D, T>;

 public:
  using Target = K3Target<Given>;
  static constexpr index_t hidden = Target::hidden;

  TargetStates(Parameters<Target, T> parameters, std::vector<Tap> taps, const StatesSize& size, const D& device = D{})
      : TargetStates(TeachingTarget<Given, T, D>(device, std::move(parameters)), std::move(taps), size, device) {}
  TargetStates(TeachingTarget<Given, T, D> target, std::vector<Tap> taps, const StatesSize& size, const D& device = D{})
      : target_(std::move(target)),
        taps_(std::move(taps)),
        size_(size),
        arena_(device, own_bytes(size, tap_count(), !target_.stored())) {
    if (const auto& stored = target_.stored()) stored->check(taps_, size.length, size.packing);
    kept_ = Kept::allocate(arena_, size, tap_count());
    if (target_.stored()) return;
    state_.emplace(StateSize{size.batch, size.length, 0}, device);
    for (index_t b = 0; size.packing == Packing::apart && b < size.batch; ++b) {
      packed_rows_.emplace_back(size.length, device);
    }
  }

  /// Bytes of the states and of what a target needs to make them; its weights and caches not counted.
  /// \param runs  false: of the states alone, which a cache has
  static constexpr std::size_t bytes(const StatesSize& size, index_t taps, bool runs = true) {
    const bool packed = runs && size.packing == Packing::apart;
    return own_bytes(size, taps, runs) +
           (packed ? static_cast<std::size_t>(size.batch) * PackedRow::bytes(size.length) : 0);
  }

  /// Each window, or each of its documents, is a sequence of its own.
  /// \throws Error on windows of another shape, ids out of range, a slot that is not there, or a window that the cache
  ///         does not have
  void run(const D& device, const TextWindows& windows, index_t slot = 0) {
    check(windows);
    const auto last = kept_.last(slot);
    const auto tapped = kept_.tapped(slot);
    if (const auto& stored = target_.stored()) return stored->read(device, windows, last, tapped);
    if (windows.seq_lens.extent(0) > 0) return run_documents(device, windows, slot);
    for (index_t b = 0; b < size_.batch; ++b) state_->reset(b, device);
    target().forward(device, *state_, windows.ids, {last.matrix(), taps_, tapped}, arena_);
  }

  /// Refuses other windows than run takes.
  /// \throws Error on windows of another shape
  void check(const TextWindows& windows) const { windows.check(size_.batch, size_.length, size_.packing); }

  // ---- Each throws Error where there is no such slot

  /// Moves the last states to where teachers want them (batches/teacher.hpp), until the slot runs again.
  void shift_last(const D& device, index_t slot = 0) { kept_.shift_last(device, slot); }

  /// [R, hidden], post-norm: what the target's head reads.
  Rows<const E, hidden> last(index_t slot = 0) const { return kept_.last(slot); }
  /// [R, taps · hidden]
  Matrix<const E> tapped(index_t slot = 0) const { return kept_.tapped(slot); }
  index_t tap_count() const { return static_cast<index_t>(taps_.size()); }

  /// The cache that the states come from; none: a target runs.
  const std::optional<StoredFeatures<Given, T>>& stored() const { return target_.stored(); }
  /// The target, which there is where there is no cache.
  const FrozenTarget<Given, T, D>& target() const { return target_.frozen(); }
  typename TeachingTarget<Given, T, D>::Tables tables() const { return target_.tables(); }

 private:
  using Kept = detail::KeptStates<E, hidden>;

  /// What one row needs for its documents, which run one behind the other.
  struct PackedRow {
    TargetState<Given, T, D> state;
    arena_t<D> arena;

    PackedRow(index_t length, const D& device)
        : state({.sequences = 1, .capacity = length, .rollback = 0}, device), arena(device, bytes(length)) {}
    static constexpr std::size_t bytes(index_t length) { return FrozenTarget<Given, T, D>::scratch_bytes(1, length); }
  };

  static constexpr std::size_t own_bytes(const StatesSize& size, index_t taps, bool runs) {
    return plan_bytes([&](ArenaPlan& a) {
      Kept::allocate(a, size, taps);
      if (runs) a.borrow(FrozenTarget<Given, T, D>::scratch_bytes(size.batch, size.length));
    });
  }

  /// No state depends on what runs beside it.
  void run_documents(const D& device, const TextWindows& windows, index_t slot) {
    run_each(device, windows.ids.extent(0), [&](const D& own, index_t b) { run_row(own, windows, slot, b); });
  }

  void run_row(const D& device, const TextWindows& windows, index_t slot, index_t b) {
    PackedRow& packed = packed_rows_[static_cast<std::size_t>(b)];
    const index_t* ids = windows.ids.data() + b * size_.length;
    const auto last = kept_.last(slot);
    const auto tapped = kept_.tapped(slot);
    index_t row = b * size_.length;
    for (index_t d = 0; d < windows.seq_lens.extent(1); ++d) {
      const index_t n = windows.seq_lens(b, d), width = tap_count() * hidden;
      if (n == 0) continue;
      packed.state.reset(0, device);
      target().forward(device, packed.state, Matrix<const index_t>(ids, 1, n),
                       {last.rows(row, n).matrix(), taps_, Matrix<E>(tapped.row(row), n, width)}, packed.arena);
      row += n, ids += n;
    }
  }

  TeachingTarget<Given, T, D> target_;
  std::vector<Tap> taps_;
  StatesSize size_;
  std::optional<TargetState<Given, T, D>> state_;  // none beside a cache
  std::vector<PackedRow> packed_rows_;             // [batch] with documents, else none
  arena_t<D> arena_;
  Kept kept_;
};

}  // namespace K3SPEC_NAMESPACE
