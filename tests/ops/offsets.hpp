#pragma once
/// \file
/// Attention scores that are exact in every type, alone and with a large number added to all of them.
/// defines: test::Offset, test::offsets, test::round_to_eighths, test::set_column

#include <algorithm>
#include <cmath>
#include <vector>

#include <k3spec/core/dtype.hpp>

namespace k3spec::test {

/// An offset of all scores, from two numbers that bfloat16 can hold: of queries 16 wide, whose scale is 1/4, it is
/// q · k / 4.
struct Offset {
  double q, k;
};
inline constexpr Offset offsets[] = {{12, 10}, {-20, 20}, {48, 50}, {-50, 48}, {200, 200}, {200, -200}};

/// Each number as an eighth in [-1, 1]: products of two are multiples of 2⁻⁶, and with an offset of at most 1e4, 40000
/// before it is scaled, a sum of 16 of them has 22 bits. Such scores are exact in float, whatever their order.
template <class U>
void round_to_eighths(std::vector<U>& x) {
  using S = accumulate_t<U>;
  for (U& v : x) v = U(std::clamp(std::round(static_cast<S>(v) * 8), S(-8), S(8)) / 8);
}

/// Column `column` of rows `width` wide.
template <class U>
void set_column(std::vector<U>& x, std::size_t width, std::size_t column, double value) {
  for (std::size_t i = column; i < x.size(); i += width) x[i] = U(static_cast<accumulate_t<U>>(value));
}

}  // namespace k3spec::test
