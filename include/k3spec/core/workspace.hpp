#pragma once
/// \file
/// What a backward pass is handed beside its operands.
/// defines: Workspace

#include <k3spec/core/memory.hpp>

namespace K3SPEC_NAMESPACE {

/// Where something runs, and the memory that it may use on the way and gives back.
template <Device D, Allocator A = arena_t<D>>
struct Workspace {
  Workspace(const D& where, A& memory) : device(where), scratch(memory) {}

  const D& device;
  A& scratch;
};

}  // namespace K3SPEC_NAMESPACE
