#pragma once
/// \file
/// Numbers that are not finite, found before they do harm.
/// defines: first_not_finite, number_text, require_finite

#include <algorithm>
#include <cmath>
#include <string>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/held.hpp>
#include <k3spec/core/parameters.hpp>

namespace K3SPEC_NAMESPACE {

/// Where the first element of p [n] that is infinite or NaN stands; n when all are finite.
template <class T>
index_t first_not_finite(const T* p, index_t n) {
  const auto finite = [&](index_t i) { return std::isfinite(static_cast<accumulate_t<T>>(p[i])); };
  constexpr index_t block = 1024;  // looked at without a branch
  for (index_t begin = 0; begin < n; begin += block) {
    const index_t end = std::min(n, begin + block);
    bool all = true;
    for (index_t i = begin; i < end; ++i) all &= finite(i);
    for (index_t i = begin; !all; ++i) {
      if (!finite(i)) return i;
    }
  }
  return n;
}

/// A number in a message: NaN has no sign there.
inline std::string number_text(double x) { return std::isnan(x) ? "nan" : fmt::format("{}", x); }

/// Refuses tensors with an element that is not finite.
/// \param weights  of Model; views that refer to nothing are left out, tensors still to be read are read one by one
/// \throws Error naming the tensor, and the element by its place in row-major order
template <class Model, class Weights>
void require_finite(const Weights& weights, const std::string& subject) {
  const auto check = [&](const Path& path, const auto& view) {
    if (view.data() == nullptr) return;
    const index_t at = first_not_finite(view.data(), view.size());
    if (at == view.size()) return;
    throw Error(fmt::format("{}: '{}': element {}", subject, path.str(), at),
                number_text(static_cast<double>(view.data()[at])), "a finite number");
  };
  Model::visit(weights, Path{}, [&](const Path& path, const auto& view, auto) {
    if constexpr (requires { view.tensor(); }) {
      check(path, on_host(view).view());
    } else {
      check(path, view);
    }
  });
}

}  // namespace K3SPEC_NAMESPACE
