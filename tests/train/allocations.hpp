#pragma once
/// \file
/// defines: test::allocations

#include <atomic>

namespace k3spec::test {

/// Calls of operator new in this executable so far.
extern std::atomic<long> allocations;

}  // namespace k3spec::test
