#pragma once
/// \file
/// defines: test::allocations

#include <cstddef>

namespace k3spec::test {

/// Calls of operator new by this program so far.
std::size_t allocations();

}  // namespace k3spec::test
