#pragma once
/// \file
/// The CPU's side of an expression: where a packet's lanes come from.
/// defines: cpu::RowEnv, cpu::for_packets

#include <tuple>

#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/core/view.hpp>
#include <k3spec/expr/nodes.hpp>

namespace K3SPEC_NAMESPACE::cpu {

/// The lanes at [row, column … column + count) of a tuple of operands. `Full`: count is the packet's width.
template <class S, bool Full, class Operands>
struct RowEnv {
  using scalar = S;

  const Operands& operands;
  const S* reductions;
  index_t row_index, column_index, count;

  template <int I, expr::Reads What>
  K3SPEC_HOST_DEVICE Packet<S> load() const {
    const auto& operand = std::get<I>(operands);
    if constexpr (What == expr::Reads::element) return lanes(operand.row(row_index) + column_index);
    if constexpr (What == expr::Reads::column) return lanes(operand.data() + column_index);
    if constexpr (What == expr::Reads::row) return Packet<S>(static_cast<S>(operand.data()[row_index]));
  }
  K3SPEC_HOST_DEVICE S reduced(int which) const { return reductions[which]; }

 private:
  template <class T>
  K3SPEC_HOST_DEVICE Packet<S> lanes(const T* p) const {
    if constexpr (Full) return Packet<S>::load(p);
    return Packet<S>::load_first(p, count);
  }
};

/// Calls f(env) for each packet of a row's columns [begin, end); the last one may be partial.
template <class S, class Operands, class F>
void for_packets(const Operands& operands, const S* reduced, index_t row, index_t begin, index_t end, F&& f) {
  constexpr index_t width = Packet<S>::width;
  index_t j = begin;
  for (; j + width <= end; j += width) f(RowEnv<S, true, Operands>{operands, reduced, row, j, width});
  if (j < end) f(RowEnv<S, false, Operands>{operands, reduced, row, j, end - j});
}

}  // namespace K3SPEC_NAMESPACE::cpu
