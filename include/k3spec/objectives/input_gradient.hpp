#pragma once
/// \file
/// Where an objective's gradient of a batch's states goes.
/// defines: InputGradient

#include <k3spec/backend/product.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// A gradient [rows, columns] as it is asked for; made without arguments, it is not. \tparam S  where the device has it
template <class S>
struct InputGradient {
  Matrix<S> to = {};
  Into into = Into::nothing;

  InputGradient() = default;
  InputGradient(const Matrix<S>& view, Into how = Into::overwrite) : to(view), into(how) {}

  /// Refuses a view of another shape where the gradient is asked for.
  /// \throws Error when it is, and the view has not this shape
  void check(const char* argument, index_t rows, index_t columns) const {
    if (into != Into::nothing) require_shape(argument, to, rows, columns);
  }
};

}  // namespace K3SPEC_NAMESPACE
