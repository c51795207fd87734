#pragma once
/// \file
/// A row of a device's logits in the host's hands, for what users bring: the host's code.
/// defines: HostRow

#include <span>

#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// Brings rows to the host and back. Where host and device share their memory nothing is copied.
template <Device D, class S>
class HostRow {
  using E = element_t<D, S>;

 public:
  explicit HostRow(index_t columns) : memory_(shares_memory<D> ? 0 : columns) {}

  /// Bytes that it holds.
  static constexpr std::size_t bytes(index_t columns) {
    return shares_memory<D> ? 0 : sizeof(S) * static_cast<std::size_t>(columns);
  }

  /// Has f(span of the row) change it. When f throws, the row is what it was, or, where memory is shared, what f left.
  /// \param row  [1, columns]
  /// \throws Error on another shape, and what f throws
  template <class F>
  void change(const D& device, const Matrix<E>& row, F&& f) {
    require_rows("HostRow: row", row, 1);
    if constexpr (shares_memory<D>) {
      f(std::span<S>(row.data(), static_cast<std::size_t>(row.size())));
    } else {
      require_count("HostRow: row", row.size(), memory_.size(), " columns");
      download(device, Vector<const E>(row.data(), row.size()), Vector<S>(memory_.data(), row.size()));
      f(std::span<S>(memory_.data(), static_cast<std::size_t>(row.size())));
      upload(device, Vector<const S>(memory_.data(), row.size()), Vector<E>(row.data(), row.size()));
    }
  }

  /// Has f(span of const numbers) look at it.
  /// \param row  [1, columns]
  /// \returns what f does
  /// \throws Error on another shape, and what f throws
  template <class F>
  auto read(const D& device, const Matrix<E>& row, F&& f) {
    require_rows("HostRow: row", row, 1);
    if constexpr (shares_memory<D>) {
      return f(std::span<const S>(row.data(), static_cast<std::size_t>(row.size())));
    } else {
      require_count("HostRow: row", row.size(), memory_.size(), " columns");
      download(device, Vector<const E>(row.data(), row.size()), Vector<S>(memory_.data(), row.size()));
      return f(std::span<const S>(memory_.data(), static_cast<std::size_t>(row.size())));
    }
  }

 private:
  Buffer<S> memory_;
};

}  // namespace K3SPEC_NAMESPACE
