#pragma once
/// \file
/// How sure a draft is of its next tokens: the largest probability in each row of its logits. It is known before a
/// token is drawn, and does not depend on the draw.
/// defines: TokenConfidences

#include <span>

#include <k3spec/core/buffer.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/expr/reduce.hpp>

namespace K3SPEC_NAMESPACE {

/// Of rows on a device, for the host.
template <Device D, class S>
class TokenConfidences {
  using E = element_t<D, S>;

 public:
  /// Room for some rows.
  /// \param rows  the most at a time; 0: it is never asked
  TokenConfidences(const D& device, index_t rows) : found_(device, rows), host_(rows) {}

  /// Bytes that it holds, on device and host together.
  static constexpr std::size_t bytes(index_t rows) { return 2 * sizeof(S) * static_cast<std::size_t>(rows); }

  /// The probability, at temperature 1 and of all tokens, of each row's likeliest one.
  /// \param logits  [rows, tokens]
  /// \returns [rows], not a number where a row has a NaN; valid until the next call
  /// \throws Error on more rows than planned
  std::span<const S> of(const D& device, const Matrix<E>& logits) {
    const index_t n = logits.extent(0);
    require_part("confidences: rows", 0, n, host_.size());
    const Vector<E> found(found_.data(), n);
    evaluate_rows(device, expr::as_expression(1.0) / row_sum(exp(expr::arg<0> - row_max(expr::arg<0>))), found, logits);
    download(device, Vector<const E>(found.data(), n), Vector<S>(host_.data(), n));
    return {host_.data(), static_cast<std::size_t>(n)};
  }

 private:
  buffer_t<D, S> found_;
  Buffer<S> host_;
};

}  // namespace K3SPEC_NAMESPACE
