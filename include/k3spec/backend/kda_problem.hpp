#pragma once
/// \file
/// What Kimi delta attention computes on, on every device: what a sequence keeps from call to call, and the problems of
/// ops/kda.hpp and ops/short_conv.hpp.
/// defines: KdaLayout, KdaMemory, KdaSequence, KdaRecurrence, ShortConv

#include <array>
#include <type_traits>

#include <k3spec/core/buffer.hpp>
#include <k3spec/core/dtype.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// How a head's state [D, D] and the log of a token lie in memory.
template <class S, index_t D>
struct KdaLayout {
  static_assert(D > 0, "KDA: the head dimension must be positive");
  /// Elements of a row of the state, those past D being zeros.
  static constexpr index_t columns = static_cast<index_t>(aligned(static_cast<std::size_t>(D) * sizeof(S)) / sizeof(S));
  static constexpr index_t state_size = D * columns;
  /// Of one token: k, e^g, u.
  static constexpr index_t log_size = 3 * columns;
};

/// The part of one KDA layer and sequence.
template <Element T>
struct KdaMemory {
  using S = accumulate_t<T>;
  S* recurrent;      ///< [heads, state_size]
  S* log;            ///< [heads, rollback, log_size]
  Matrix<T> window;  ///< [K - 1 + rollback, C]: the convolutions' inputs before the states, then logged
  index_t rollback;
};

/// What a call does to a sequence: its state is brought over the tokens that are pending in the log, then run over the
/// new ones. If those are logged, the state stays before them and the log gets what leads on from there.
template <Element T>
struct KdaSequence {
  KdaMemory<T> memory;
  index_t row, tokens;  ///< the new ones' rows
  index_t pending;      ///< tokens that stand in the log and not yet in the state
  bool logged;
};

/// The recurrence over several sequences' new tokens, all heads. \tparam D  of a head
template <Element T, index_t D>
struct KdaRecurrence {
  using S = accumulate_t<T>;
  Matrix<const S> q, k, v, decay;  ///< [rows, heads · D]; decay is e^g
  Matrix<const S> beta;            ///< [rows, heads]
  Matrix<S> o;                     ///< [rows, heads · D]
  const KdaSequence<T>* sequences;
  index_t count;

  constexpr index_t rows() const { return q.extent(0); }
  constexpr index_t heads() const { return q.extent(1) / D; }
};

/// Three convolutions of inputs that stand side by side, those of q, k and v.
template <Element T>
struct ShortConv {
  using S = accumulate_t<T>;
  static constexpr std::size_t parts = 3;
  Matrix<const S> x;                     ///< [rows, parts · C]
  std::array<Matrix<const S>, parts> w;  ///< [K, C]
  std::array<Matrix<S>, parts> y;        ///< [rows, C]
  Matrix<T> scratch;                     ///< [K - 1 + most tokens of a sequence that are not logged, parts · C]
  const KdaSequence<T>* sequences;
  index_t count;

  constexpr index_t rows() const { return x.extent(0); }
  constexpr index_t before() const { return w[0].extent(0) - 1; }
};

static_assert(std::is_trivially_copyable_v<KdaSequence<bfloat16>>);
static_assert(std::is_trivially_copyable_v<KdaRecurrence<bfloat16, 8>>);
static_assert(std::is_trivially_copyable_v<ShortConv<bfloat16>>);

}  // namespace K3SPEC_NAMESPACE
