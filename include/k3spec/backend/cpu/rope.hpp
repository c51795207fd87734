#pragma once
/// \file
/// Rotary positions on the CPU. Nothing is checked: see ops/rope.hpp.
/// defines: rope_kernel, cpu::RopeAngles

#include <cmath>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/rope_problem.hpp>

namespace K3SPEC_NAMESPACE {

namespace cpu {

/// cos and sin of a position's angles, [rope/2], in the arithmetic of what is stored as T.
template <index_t Rope, Element T>
struct RopeAngles {
  using S = accumulate_t<T>;
  using P = Packet<S>;
  static constexpr index_t pairs = Rope / 2, padded = ceil_div(pairs, P::width) * P::width;
  using Lanes = std::array<S, static_cast<std::size_t>(padded)>;
  Lanes cos{}, sin{};

  RopeAngles(const RopeFrequencies<Rope>& f, index_t position, Rotation to = Rotation::forward) {
    for (std::size_t i = 0; i < f.size(); ++i) {
      const float angle = static_cast<float>(position) * f[i];
      cos[i] = std::cos(static_cast<S>(angle));
      sin[i] = to == Rotation::back ? -std::sin(static_cast<S>(angle)) : std::sin(static_cast<S>(angle));
    }
  }

  /// x [rope], in place. Packets, because g++ 12 at -O3 makes fused multiply-adds of a plain loop over such pairs, even
  /// with -ffp-contract=off: its bits would hang on where it is inlined.
  void rotate(T* x) const {
    Lanes a{}, b{};
    for (std::size_t i = 0; i < static_cast<std::size_t>(pairs); ++i) {
      a[i] = static_cast<S>(x[2 * i]), b[i] = static_cast<S>(x[2 * i + 1]);
    }
    for (index_t i = 0; i < padded; i += P::width) {
      const P u = P::load(a.data() + i), v = P::load(b.data() + i);
      const P c = P::load(cos.data() + i), s = P::load(sin.data() + i);
      (u * c - v * s).store(a.data() + i);
      (u * s + v * c).store(b.data() + i);
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(pairs); ++i) {
      x[2 * i] = static_cast<T>(a[i]), x[2 * i + 1] = static_cast<T>(b[i]);
    }
  }
};

}  // namespace cpu

/// Either rotation, without checks.
template <class Heads, class T>
void rope_kernel(const Cpu& cpu, const RopeProblem<Heads, T>& p, Rotation to) {
  constexpr index_t rope = Heads::rope, qk = Heads::qk;
  const index_t work = (Heads::count + 1) * rope;
  cpu::for_pieces(cpu, p.q.extent(0), work, false, [&](index_t begin, index_t end, index_t, index_t) {
    for (index_t r = begin; r < end; ++r) {
      const cpu::RopeAngles<rope, T> angles(p.frequencies, p.positions(r), to);
      for (index_t h = 0; h < Heads::count; ++h) angles.rotate(p.q.row(r) + h * qk + Heads::nope);
      angles.rotate(p.k_rope.row(r));
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
