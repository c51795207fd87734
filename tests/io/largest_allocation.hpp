#pragma once
/// \file
/// defines: test::largest_allocation

#include <cstddef>

namespace k3spec::test {

/// Bytes of the largest request to operator new in this executable since the last reset.
extern std::size_t largest_allocation;

}  // namespace k3spec::test
