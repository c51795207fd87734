#pragma once
/// \file
/// The CPU's side of an expression: where a packet's lanes come from and where its adjoints go.
/// defines: cpu::as_matrix, cpu::RowEnv, cpu::AdjointSink

#include <array>
#include <tuple>

#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/core/view.hpp>
#include <k3spec/expr/reduce.hpp>

namespace k3spec::cpu {

/// Any view as [rows, columns]; a vector is one row.
template <class T, index_t... E>
constexpr Matrix<T> as_matrix(const View<T, E...>& v) {
  if constexpr (sizeof...(E) == 1) {
    return Matrix<T>(v.data(), Extents<dyn, dyn>(1, v.extent(0)), v.extent(0));
  } else {
    return v.matrix();
  }
}

/// The lanes at [row, column … column + count) of a tuple of operands. `Full`: count is the packet's width.
template <class S, bool Full, class Operands>
struct RowEnv {
  using scalar = S;

  const Operands& operands;
  const S* reductions;
  index_t row_index, column_index, count;

  template <int I, expr::Reads What>
  Packet<S> load() const {
    const auto& operand = std::get<I>(operands);
    if constexpr (What == expr::Reads::element) return lanes(operand.row(row_index) + column_index);
    if constexpr (What == expr::Reads::column) return lanes(operand.data() + column_index);
    if constexpr (What == expr::Reads::row) return Packet<S>(static_cast<S>(operand.data()[row_index]));
  }
  S reduced(int which) const { return reductions[which]; }

 private:
  template <class T>
  Packet<S> lanes(const T* p) const {
    if constexpr (Full) return Packet<S>::load(p);
    return Packet<S>::load_first(p, count);
  }
};

/// Adjoints of N operands and M reductions, summed over a tree walk.
template <class S, int N, int M>
struct AdjointSink {
  std::array<Packet<S>, static_cast<std::size_t>(N)> operands;
  std::array<Packet<S>, static_cast<std::size_t>(M == 0 ? 1 : M)> reductions;

  AdjointSink() {
    operands.fill(Packet<S>(S(0)));
    reductions.fill(Packet<S>(S(0)));
  }
  template <int I>
  void add(Packet<S> d) {
    operands[I] = operands[I] + d;
  }
  template <int R>
  void add_reduced(Packet<S> d) {
    reductions[R] = reductions[R] + d;
  }
};

}  // namespace k3spec::cpu
