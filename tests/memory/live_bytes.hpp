#pragma once
/// \file
/// defines: test::live_bytes, test::peak_bytes, test::forget_peak

#include <cstddef>

namespace k3spec::test {

/// Bytes that this executable has from operator new now, and the most since forget_peak.
std::size_t live_bytes();
std::size_t peak_bytes();
void forget_peak();

}  // namespace k3spec::test
