#pragma once
/// \file
/// Tokens chosen from rows of logits, on a device: the likeliest ones, or drawn at a temperature
/// (backend/sampling.hpp). Logits stay where they are; only draws and tokens travel. A backend brings
/// choose_tokens_kernel with its tag.
/// defines: TokenChoices

#include <span>

#include <k3spec/backend/cpu/sampling.hpp>
#include <k3spec/core/mirror.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// Draws that are made together.
template <Device D = Cpu>
class TokenChoices {
 public:
  TokenChoices() = default;
  /// Room for some draws.
  /// \param most  draws at a time
  /// \throws Error on a number that is negative or cannot be allocated
  TokenChoices(const D& device, index_t most)
      : asked_(device, detail::piece<Draw>(most)),
        chosen_(device, detail::piece<index_t>(most)),
        draws_(asked_.template take<Draw>(most)),
        tokens_(chosen_.template take<index_t>(most)) {}

  /// Bytes that it holds, on the device or the host, whichever are more.
  static constexpr std::size_t bytes(index_t most) { return detail::piece<Draw>(most) + detail::piece<index_t>(most); }

  void clear() { count_ = 0; }
  /// One draw more.
  /// \throws Error on more draws than planned
  void add(const Draw& draw) {
    require_index("sampling: draws", count_, draws_.host.extent(0));
    draws_.host(count_++) = draw;
  }

  /// The tokens of all draws since clear(). Rows that are drawn from at a temperature become weights; the likeliest
  /// token of a row weighs 1.
  /// \param logits  [rows, tokens]
  /// \returns -1 where a row has a NaN or no finite largest value; valid until the next call
  /// \throws Error on draws from rows that are not there, and on rows of nothing
  template <Element E>
  std::span<const index_t> choose(const D& device, const Matrix<E>& logits) {
    if (count_ == 0) return {};
    if (logits.extent(1) < 1) throw Error("sampling: logits: tokens", "0", "at least 1");
    for (index_t i = 0; i < count_; ++i) require_index("sampling: logits: row", draws_.host(i).row, logits.extent(0));
    asked_.upload(device);
    choose_tokens_kernel(device, TokenDraws<E>{logits, draws_.device.rows(0, count_), tokens_.device.rows(0, count_)});
    chosen_.download(device);
    return {tokens_.host.data(), static_cast<std::size_t>(count_)};
  }
  /// The token of one draw; -1 as above.
  template <Element E>
  index_t choose(const D& device, const Matrix<E>& logits, const Draw& draw) {
    clear(), add(draw);
    return choose(device, logits).front();
  }

 private:
  Mirror<D> asked_, chosen_;
  Mirrored<D, Draw> draws_;
  Mirrored<D, index_t> tokens_;
  index_t count_ = 0;
};

}  // namespace K3SPEC_NAMESPACE
