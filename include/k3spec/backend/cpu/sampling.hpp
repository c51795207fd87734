#pragma once
/// \file
/// The choice of tokens on the CPU (decode/sampling.hpp).
/// defines: weigh_row, choose_row, choose_tokens_kernel

#include <cmath>
#include <optional>
#include <span>

#include <k3spec/backend/cpu/argmax.hpp>
#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/truncate.hpp>
#include <k3spec/backend/distribution.hpp>
#include <k3spec/backend/sampling.hpp>
#include <k3spec/expr/reduce.hpp>

namespace K3SPEC_NAMESPACE {

/// Logits [1, tokens] -> weights, in place; the likeliest token weighs 1. \param sampling  at a temperature
template <class S>
void weigh_row(const Cpu& device, const Sampling& sampling, const Matrix<S>& logits) {
  evaluate(device, exp((expr::arg<0> - row_max(expr::arg<0>)) * (1 / sampling.temperature)), logits, logits);
  truncate_row(sampling.truncation, std::span<S>(logits.data(), static_cast<std::size_t>(logits.extent(1))));
}

/// The token of its logits [1, tokens], which become weights unless the choice is greedy; none when they have a NaN or
/// no finite largest value.
template <class S>
std::optional<index_t> choose_row(const Cpu& device, const Draw& draw, const Matrix<S>& logits) {
  const index_t likeliest = argmax_row(logits.data(), logits.extent(1));
  if (!std::isfinite(logits(0, likeliest))) return std::nullopt;
  if (draw.sampling.is_greedy()) return likeliest;
  weigh_row(device, draw.sampling, logits);
  return pick(Distribution<S>({logits.data(), static_cast<std::size_t>(logits.extent(1))}), draw.uniform());
}

/// See decode/sampling.hpp, which has compared the shapes.
template <class S>
void choose_tokens_kernel(const Cpu& device, const TokenDraws<S>& problem) {
  const index_t n = problem.draws.extent(0), work = 8;  // multiply-adds that a logit is about worth
  parallel_for(cpu::for_work(device, n * problem.logits.extent(1) * work), n, [&](index_t i) {
    const Draw& draw = problem.draws(i);
    problem.tokens(i) = choose_row(Cpu{1}, draw, problem.logits.rows(draw.row, 1)).value_or(-1);
  });
}

}  // namespace K3SPEC_NAMESPACE
