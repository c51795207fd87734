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
#include <k3spec/train/documents.hpp>

namespace k3spec {

/// Tokens to learn from, [batch, length].
struct TextWindows {
  Matrix<const index_t> ids;
  Vector<const std::uint8_t> loss_mask = {};  ///< [batch · length] 0: not to be learnt; empty: all are

  /// [batch, most documents] tokens of each document, zero-padded; empty: every window is one. Needs Packing::apart.
  Matrix<const index_t> seq_lens = {};

  bool counts(index_t row) const { return loss_mask.extent(0) == 0 || loss_mask(row) != 0; }

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

/// Owns the target and the states of one batch at a time. R = batch · length rows.
template <class Config, Element T>
class TargetStates {
 public:
  using Target = K3Target<Config>;
  static constexpr index_t hidden = Target::hidden;

  TargetStates(Parameters<Target, T> parameters, std::vector<Tap> taps, index_t batch, index_t length,
               Packing packing = Packing::none)
      : parameters_(std::move(parameters)),
        target_(parameters_.weights()),
        taps_(std::move(taps)),
        packing_(packing),
        state_({.sequences = batch, .capacity = length, .rollback = 0}),
        arena_(bytes(batch, length, tap_count())) {
    rows_ = Kept::allocate(arena_, batch * length, tap_count());
    for (index_t b = 0; packing == Packing::apart && b < batch; ++b) packed_rows_.emplace_back(length);
  }

  /// Bytes of the states and of what is needed to make them; the target's weights and caches not counted.
  static constexpr std::size_t bytes(index_t batch, index_t length, index_t taps, Packing packing = Packing::none) {
    const std::size_t packed =
        packing == Packing::apart ? static_cast<std::size_t>(batch) * PackedRow::bytes(length) : 0;
    return packed + plan_bytes([&](ArenaPlan& a) {
             Kept::allocate(a, batch * length, taps);
             a.borrow(FrozenTarget<Config, T>::scratch_bytes(batch, length));
           });
  }

  /// Each window, or each of its documents, is a sequence of its own.
  /// \throws Error on windows of another shape, or ids out of range
  void run(const Cpu& cpu, const TextWindows& windows) {
    windows.check(state_.sequences(), length(), packing_);
    run_checked(cpu, windows);
  }

  /// The same with windows whose check() was made already.
  void run_checked(const Cpu& cpu, const TextWindows& windows) {
    if (windows.seq_lens.extent(0) > 0) return run_documents(cpu, windows);
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
  /// What one row needs for its documents, which run one behind the other.
  struct PackedRow {
    TargetState<Config, T> state;
    Arena arena;

    explicit PackedRow(index_t length)
        : state({.sequences = 1, .capacity = length, .rollback = 0}), arena(bytes(length)) {}
    static constexpr std::size_t bytes(index_t length) { return FrozenTarget<Config, T>::scratch_bytes(1, length); }
  };

  index_t length() const { return state_.sequences() == 0 ? 0 : rows_.last.extent(0) / state_.sequences(); }

  /// No state depends on what runs beside it, nor on the number of threads: where there are too few rows for all
  /// threads, each row has them all.
  void run_documents(const Cpu& cpu, const TextWindows& windows) {
    const index_t batch = windows.ids.extent(0);
    if (batch < cpu.threads) {
      for (index_t b = 0; b < batch; ++b) run_row(cpu, windows, b);
    } else {
      parallel_for(cpu, batch, [&](index_t b) { run_row(Cpu{1}, windows, b); });
    }
  }

  void run_row(const Cpu& cpu, const TextWindows& windows, index_t b) {
    PackedRow& packed = packed_rows_[static_cast<std::size_t>(b)];
    index_t row = b * length();
    for (index_t d = 0; d < windows.seq_lens.extent(1); ++d) {
      const index_t n = windows.seq_lens(b, d), width = tap_count() * hidden;
      if (n == 0) continue;
      packed.state.reset(0);
      target_.forward(cpu, packed.state, Matrix<const index_t>(windows.ids.data() + row, 1, n),
                      {rows_.last.rows(row, n).matrix(), taps_, Matrix<T>(rows_.tapped.row(row), n, width)},
                      packed.arena);
      row += n;
    }
  }

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
  Packing packing_;
  TargetState<Config, T> state_;
  std::vector<PackedRow> packed_rows_;  // [batch] with documents, else none
  Arena arena_;
  Kept rows_;
};

}  // namespace k3spec
