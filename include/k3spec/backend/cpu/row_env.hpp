#pragma once
/// \file
/// The CPU's side of an expression: where a packet's lanes come from.
/// defines: cpu::RowEnv, cpu::row_constants, cpu::for_packets

#include <tuple>

#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/core/view.hpp>
#include <k3spec/expr/nodes.hpp>

namespace K3SPEC_NAMESPACE::cpu {

/// The lanes at [row, column … column + count) of a tuple of operands. `Full`: count is the packet's width. Which: the
/// nodes of a tree that are computed here.
template <class S, bool Full, class Operands, expr::Part Which>
struct RowEnv {
  using scalar = S;
  static constexpr expr::Part part = Which;

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

/// Computes a row's constants alone, in every lane.
template <class S, class Operands>
RowEnv<S, false, Operands, expr::Part::row_constants> row_constants(const Operands& operands, const S* reduced,
                                                                    index_t row) {
  return {operands, reduced, row, 0, 1};
}

/// Calls f(env) for each packet of a row's columns [begin, end); the last one may be partial. A row's constants are not
/// computed by env: row_constants does that before. All of it is made one loop with what calls it, so that views and
/// constants stay in registers; f must be inline, too.
template <class S, class Operands, class F>
[[gnu::always_inline]] inline void for_packets(const Operands& operands, const S* reduced, index_t row, index_t begin,
                                               index_t end, F&& f) {
  constexpr index_t width = Packet<S>::width;
  const Operands here = operands;
  index_t j = begin;
  for (; j + width <= end; j += width) f(RowEnv<S, true, Operands, expr::Part::elements>{here, reduced, row, j, width});
  if (j < end) f(RowEnv<S, false, Operands, expr::Part::elements>{here, reduced, row, j, end - j});
}

}  // namespace K3SPEC_NAMESPACE::cpu
