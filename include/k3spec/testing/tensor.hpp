#pragma once
/// \file
/// A tensor that owns its values, with the shape that it had in a file.
/// defines: testing::Tensor, testing::like, testing::tensor_of

#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/view.hpp>
#include <k3spec/io/safetensors_reader.hpp>

namespace K3SPEC_NAMESPACE::testing {

/// Values, row-major, with their name and shape. No extents: one number.
template <class T>
struct Tensor {
  std::string name;
  std::vector<index_t> shape;
  std::vector<T> values;
  /// The type that the values came from: they have no more digits than it.
  DType stored = dtype_of<T>;

  /// Extent of the last axis; 1 of one number.
  index_t columns() const { return shape.empty() ? 1 : shape.back(); }
  /// Product of the other extents: [batch, length, hidden] has batch * length rows.
  index_t rows() const {
    return shape.empty() ? 1 : std::accumulate(shape.begin(), shape.end() - 1, index_t{1}, std::multiplies<>());
  }

  /// The values as [rows, C], as layers take them.
  /// \throws Error when the last axis has another extent
  template <index_t C>
  Rows<T, C> as_rows() & {
    check_columns(C);
    return Rows<T, C>(values.data(), rows());
  }
  /// The same, to be read.
  template <index_t C>
  Rows<const T, C> as_rows() const& {
    check_columns(C);
    return Rows<const T, C>(values.data(), rows());
  }
  /// Not of a tensor that is gone when the line ends.
  template <index_t C>
  void as_rows() const&& = delete;

  /// The values as a view of these extents; `dyn` stands for any.
  /// \throws Error when the tensor has others
  template <index_t... E>
  View<T, E...> as() & {
    return View<T, E...>(values.data(), extents<E...>());
  }
  /// The same, to be read.
  template <index_t... E>
  View<const T, E...> as() const& {
    return View<const T, E...>(values.data(), extents<E...>());
  }
  /// Not of a tensor that is gone when the line ends.
  template <index_t... E>
  void as() const&& = delete;

 private:
  void check_columns(index_t wanted) const {
    if (columns() == wanted) return;
    throw Error("'" + name + "': shape", io::shape_string(shape), "a last extent of " + std::to_string(wanted));
  }

  template <index_t... E>
  Extents<E...> extents() const {
    constexpr std::array<index_t, sizeof...(E)> wanted{E...};
    bool same = shape.size() == wanted.size();
    for (std::size_t i = 0; same && i < wanted.size(); ++i) same = wanted[i] == dyn || wanted[i] == shape[i];
    if (!same) {
      std::string text;
      for (const index_t n : wanted) text += (text.empty() ? "" : ", ") + (n == dyn ? "any" : std::to_string(n));
      throw Error("'" + name + "': shape", io::shape_string(shape), "[" + text + "]");
    }
    std::vector<index_t> left;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == dyn) left.push_back(shape[i]);
    }
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (sizeof...(I) == 0)
        return Extents<E...>();
      else
        return Extents<E...>(left[I]...);
    }
    (std::make_index_sequence<Extents<E...>::dynamic_rank>());
  }
};

/// A tensor of the same shape that holds `value`: by default NaN, which tells what was never written.
template <class T>
Tensor<T> like(const Tensor<T>& other, T value = static_cast<T>(std::numeric_limits<float>::quiet_NaN())) {
  return {other.name, other.shape, std::vector<T>(other.values.size(), value)};
}

/// A view's values as doubles, with its shape and type.
template <class T, index_t... E>
Tensor<double> tensor_of(const View<T, E...>& view, std::string name = {}) {
  Tensor<double> out{std::move(name), io::shape_of(view), {}, dtype_of<T>};
  out.values.reserve(static_cast<std::size_t>(view.size()));
  for (index_t i = 0; i < view.extent(0); ++i) {
    for (index_t j = 0; j < view.row_size(); ++j) out.values.push_back(static_cast<double>(view.row(i)[j]));
  }
  return out;
}

}  // namespace K3SPEC_NAMESPACE::testing
