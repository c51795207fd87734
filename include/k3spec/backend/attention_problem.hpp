#pragma once
/// \file
/// What every backend is handed of an attention op: plain structs of views and numbers.
/// defines: AttentionHeads, AttentionKeys, LogSumExp, log_sum_exp_t, AttentionResult, SqrtScale

#include <cmath>
#include <limits>
#include <type_traits>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// How many heads there are, and how wide their parts: a query or key is [nope ‖ rope], a key with its value
/// [k_nope ‖ v], and the rope slice of a key is shared by all heads.
template <index_t Count, index_t Nope, index_t Rope, index_t V>
struct AttentionHeads {
  static constexpr index_t count = Count, nope = Nope, rope = Rope, v = V;
  static constexpr index_t qk = Nope + Rope, kv = Nope + V;
};

/// Keys and values of all heads.
template <class T>
struct AttentionKeys {
  Matrix<T> kv;      ///< [rows, heads·(nope+v)], heads of [k_nope ‖ v]
  Matrix<T> k_rope;  ///< [rows, rope], shared by all heads
};

/// log Σ exp(s) of a query's scores as top + log_mass, not added up: the sum would round off of log_mass what does not
/// fit beside a large top, and every weight of the backward pass would be off by that.
template <class S>
struct LogSumExp {
  S top;       ///< the largest score
  S log_mass;  ///< log Σ exp(s - top)

  /// That of a query that saw nothing: every weight of it is 0.
  K3SPEC_HOST_DEVICE static constexpr LogSumExp nothing() { return {std::numeric_limits<S>::infinity(), S(0)}; }
};

/// Those beside results of type T.
template <class T>
using log_sum_exp_t =
    placed_as_t<std::conditional_t<std::is_const_v<T>, const LogSumExp<scalar_t<T>>, LogSumExp<scalar_t<T>>>, T>;

/// What forward makes and backward reads.
template <class T>
struct AttentionResult {
  using Sums = log_sum_exp_t<T>;
  Matrix<T> o;       ///< [rows, heads·v]
  Matrix<Sums> lse;  ///< [rows, heads] log of the softmax denominator

  template <class U>
    requires(std::is_same_v<U, const T> && !std::is_const_v<T>)
  constexpr operator AttentionResult<U>() const { return {o, lse}; }
};

/// What scores are multiplied by unless another scale is asked for: 1 / sqrt(the width of a query).
struct SqrtScale {
  template <class S>
  static S of(index_t width) {
    return S(1) / std::sqrt(static_cast<S>(width));
  }
};

}  // namespace K3SPEC_NAMESPACE
