#pragma once
/// \file
/// The error of a batch that teaches nothing.
/// defines: NothingSupervised

#include <k3spec/core/error.hpp>

namespace K3SPEC_NAMESPACE {

/// A batch from which nothing can be learnt: a training loop counts it and goes on with the next.
class NothingSupervised : public Error {
 public:
  using Error::Error;
};

}  // namespace K3SPEC_NAMESPACE
