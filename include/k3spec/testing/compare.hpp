#pragma once
/// \file
/// One tensor against another: how far apart they are, and where first.
/// defines: testing::Tolerance, testing::Row, testing::ulp_distance, testing::same_shape, testing::compare

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <k3spec/core/format.hpp>
#include <k3spec/io/convert.hpp>
#include <k3spec/testing/tensor.hpp>

namespace K3SPEC_NAMESPACE::testing {

/// An element is good when |found - wanted| <= absolute + relative * max|wanted|, the largest of the whole tensor.
struct Tolerance {
  double relative = 1e-10;
  double absolute = 0;
};

/// What a comparison found.
struct Row {
  std::string name{};
  /// The wanted tensor's.
  std::vector<index_t> shape{};
  /// max|found - wanted|; infinite when a NaN or an infinity is in one only.
  double max_abs = 0;
  /// max|found - wanted| / max|wanted|, of finite elements; where all wanted ones are 0: 0 or infinite.
  double relative = 0;
  /// Of the two as vectors, elements that are not finite left out; 1 of two vectors of zeros, 0 where one is.
  double cosine = 1;
  /// The largest distance between two elements, counted in numbers of the narrower of the two types (F16 counts as
  /// F32), to which both are rounded. Elements that are not finite are left out.
  std::uint64_t ulps = 0;
  DType ulp_type = DType::F64;
  /// How many elements are bad, and the first of them: where, and what was there.
  index_t bad = 0;
  std::vector<index_t> first_bad{};
  double found = 0, wanted = 0;
  /// What else there is to say.
  std::string note{};
  /// Whether there were elements to compare: false of other shapes, and of a tensor that is not there.
  bool measured = false;
  bool ok = true;
};

/// How many numbers of type T lie from one to the other, the last counted; +0 and -0 are one. Neither is NaN.
template <Element T>
std::uint64_t ulp_distance(T a, T b) {
  // The bits of a positive number count up with it; those of a negative one, without the sign, down.
  const auto place = [](T x) {
    if constexpr (std::is_same_v<T, bfloat16>) {
      const auto magnitude = static_cast<std::int64_t>(x.bits & 0x7fffU);
      return (x.bits & 0x8000U) != 0 ? -magnitude : magnitude;
    } else if constexpr (std::is_same_v<T, float>) {
      const auto magnitude = static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffU);
      return std::signbit(x) ? -magnitude : magnitude;
    } else {
      const auto magnitude = static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(x) & (~std::uint64_t{0} >> 1U));
      return std::signbit(x) ? -magnitude : magnitude;
    }
  };
  const std::int64_t from = place(a), to = place(b);
  const auto difference = static_cast<std::uint64_t>(from) - static_cast<std::uint64_t>(to);
  return from >= to ? difference : std::uint64_t{0} - difference;
}

/// Whether shapes are alike: the same, or the same when all axes but the last of one of them are taken as one, as
/// [batch, length, hidden] is [batch * length, hidden].
inline bool same_shape(const Tensor<double>& a, const Tensor<double>& b) {
  if (a.shape == b.shape) return true;
  const bool flat = std::min(a.shape.size(), b.shape.size()) <= 2;
  return flat && a.rows() == b.rows() && a.columns() == b.columns();
}

namespace detail {

/// The place of the i-th element.
inline std::vector<index_t> multi_index(std::span<const index_t> shape, index_t i) {
  std::vector<index_t> at(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; i /= shape[axis]) at[axis] = i % shape[axis];
  return at;
}

/// Largest absolute value of what is finite.
inline double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double x : values) {
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  }
  return most;
}

inline bool both_finite(double a, double b) { return std::isfinite(a) && std::isfinite(b); }

/// NaN is like NaN, an infinity like the same infinity.
inline bool alike(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

inline double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  const double scale_a = largest(a), scale_b = largest(b);
  if (scale_a == 0 || scale_b == 0) return scale_a == scale_b ? 1 : 0;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!both_finite(a[i], b[i])) continue;
    const double x = a[i] / scale_a, y = b[i] / scale_b;
    ab += x * y, aa += x * x, bb += y * y;
  }
  return aa == 0 || bb == 0 ? (aa == bb ? 1 : 0) : ab / (std::sqrt(aa) * std::sqrt(bb));
}

/// What is compared as: the type with fewer digits.
inline DType narrower(DType a, DType b) {
  if (a == DType::BF16 || b == DType::BF16) return DType::BF16;
  const auto is_double = [](DType t) { return t != DType::F32 && t != DType::F16; };
  return is_double(a) && is_double(b) ? DType::F64 : DType::F32;
}

inline std::uint64_t ulps(DType type, double a, double b) {
  if (type == DType::BF16) return ulp_distance(io::to_bfloat16(a), io::to_bfloat16(b));
  if (type == DType::F32) return ulp_distance(static_cast<float>(a), static_cast<float>(b));
  return ulp_distance(a, b);
}

/// Fills what is measured of two tensors of as many elements. \param limit  of |found - wanted|, by element
inline void measure(Row& row, const Tensor<double>& found, const Tensor<double>& wanted,
                    const std::function<double(std::size_t)>& limit) {
  row.ulp_type = narrower(found.stored, wanted.stored);
  row.cosine = cosine(found.values, wanted.values);
  index_t special = 0;
  double apart = 0;
  bool broken = false;
  for (std::size_t i = 0; i < wanted.values.size(); ++i) {
    const double a = found.values[i], b = wanted.values[i];
    const bool finite = both_finite(a, b), same = !finite && alike(a, b);
    special += same ? 1 : 0;
    broken = broken || (!finite && !same);
    if (finite) apart = std::max(apart, std::abs(a - b)), row.ulps = std::max(row.ulps, ulps(row.ulp_type, a, b));
    if (same || (finite && std::abs(a - b) <= limit(i))) continue;
    if (row.bad++ == 0) {
      row.first_bad = multi_index(row.shape, static_cast<index_t>(i));
      row.found = a, row.wanted = b;
    }
  }
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double most = largest(wanted.values);
  row.max_abs = broken ? infinity : apart;
  row.relative = apart == 0 ? 0 : most == 0 ? infinity : apart / most;
  if (special > 0) row.note = fmt::format("{} NaN or infinite in both", special);
  if (wanted.values.empty()) row.note = "empty";
  row.measured = true;
  row.ok = row.bad == 0;
}

/// Whether one matrix is the other turned.
inline bool is_transpose(const Tensor<double>& found, const Tensor<double>& wanted, double limit) {
  if (found.shape.size() != 2 || wanted.shape.size() != 2) return false;
  const auto m = static_cast<std::size_t>(wanted.shape[0]), n = static_cast<std::size_t>(wanted.shape[1]);
  if (found.shape != std::vector<index_t>{wanted.shape[1], wanted.shape[0]} || m < 2 || n < 2) return false;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double a = found.values[j * m + i], b = wanted.values[i * n + j];
      if (!(std::abs(a - b) <= limit)) return false;
    }
  }
  return true;
}

}  // namespace detail

/// Compares two tensors. NaN in one only is bad, the same infinity in both is not; other shapes make a row that is not
/// ok and says both (see same_shape).
inline Row compare(std::string name, const Tensor<double>& found, const Tensor<double>& wanted,
                   const Tolerance& tolerance = {}) {
  Row row{std::move(name), wanted.shape};
  const double limit = tolerance.absolute + tolerance.relative * detail::largest(wanted.values);
  if (same_shape(found, wanted)) {
    detail::measure(row, found, wanted, [&](std::size_t) { return limit; });
  } else {
    row.note = fmt::format("shape {}, wanted {}", io::shape_string(found.shape), io::shape_string(wanted.shape));
    row.ok = false;
  }
  if (!row.ok && detail::is_transpose(found, wanted, limit)) {
    row.note += row.note.empty() ? "it is the transpose" : "; it is the transpose";
  }
  return row;
}

/// The same of a view.
template <class T, index_t... E>
Row compare(std::string name, const View<T, E...>& found, const Tensor<double>& wanted,
            const Tolerance& tolerance = {}) {
  return compare(std::move(name), tensor_of(found), wanted, tolerance);
}

/// The same of elements without a shape, as many as are wanted.
template <class T>
Row compare(std::string name, std::span<const T> found, const Tensor<double>& wanted, const Tolerance& tolerance = {}) {
  auto all = tensor_of(Vector<const T>(found.data(), static_cast<index_t>(found.size())));
  if (all.values.size() == wanted.values.size()) all.shape = wanted.shape;
  return compare(std::move(name), all, wanted, tolerance);
}

}  // namespace K3SPEC_NAMESPACE::testing
