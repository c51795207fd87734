#pragma once
/// \file
/// The convolutions of ops/short_conv.hpp on the CPU, sequence after sequence.
/// defines: short_conv_kernel

#include <algorithm>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/kda_problem.hpp>
#include <k3spec/expr/functors.hpp>

namespace K3SPEC_NAMESPACE {

namespace cpu {

/// window [K - 1 + n, C], w [K, C] -> y [n, C]
template <class T, class S>
void convolve(const Cpu& device, const Matrix<T>& window, const Matrix<const S>& w, const Matrix<S>& y) {
  using P = Packet<S>;
  const index_t n = y.extent(0), channels = y.extent(1), height = 16;
  const auto packet = [&](index_t t, index_t c, auto load) {
    P sum(S(0));
    for (index_t j = 0; j < w.extent(0); ++j) sum = fma(load(window.row(t + j) + c), load(w.row(j) + c), sum);
    return sum * functor::Sigmoid::value(sum);
  };
  parallel_for(for_work(device, n * channels * 8), ceil_div(n, height), [&](index_t piece) {
    for (index_t t = piece * height; t < std::min(n, (piece + 1) * height); ++t) {
      index_t c = 0;
      for (; c + P::width <= channels; c += P::width) {
        packet(t, c, [](const auto* p) { return P::load(p); }).store(y.row(t) + c);
      }
      const index_t rest = channels - c;
      if (rest > 0) packet(t, c, [=](const auto* p) { return P::load_first(p, rest); }).store_first(y.row(t) + c, rest);
    }
  });
}

/// One sequence. Its new inputs stand behind those before them in its own window, if they are logged, or in the
/// scratch.
template <Element T>
void convolve(const Cpu& device, const ShortConv<T>& x, const KdaSequence<T>& sequence) {
  const index_t n = sequence.tokens, row = sequence.row, before = x.before(), all = x.x.extent(1);
  const index_t channels = all / static_cast<index_t>(ShortConv<T>::parts);
  const Matrix<T>& memory = sequence.memory.window;
  if (sequence.pending > 0) std::copy_n(memory.row(sequence.pending), before * all, memory.row(0));
  const Matrix<T> window = (sequence.logged ? memory : x.scratch).rows(0, before + n);
  if (!sequence.logged) std::copy_n(memory.data(), before * all, window.data());
  evaluate(device, expr::arg<0>, window.rows(before, n), x.x.rows(row, n));
  for (std::size_t i = 0; i < ShortConv<T>::parts; ++i) {
    convolve(device, window.columns(static_cast<index_t>(i) * channels, channels), x.w[i], x.y[i].rows(row, n));
  }
  if (!sequence.logged) std::copy_n(window.row(n), before * all, memory.data());
}

}  // namespace cpu

/// See ops/short_conv.hpp, which has compared the shapes.
template <Element T>
void short_conv_kernel(const Cpu& device, const ShortConv<T>& problem) {
  for (index_t b = 0; b < problem.count; ++b) cpu::convolve(device, problem, problem.sequences[b]);
}

}  // namespace K3SPEC_NAMESPACE
