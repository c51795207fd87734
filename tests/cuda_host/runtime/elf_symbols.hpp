#pragma once
/// \file
/// What the executable's symbol table says: the `__shared__` variables and the names of kernels.
/// defines: shared_spans, function_name

#include <cstdint>
#include <string>
#include <vector>

#include "control.hpp"

namespace cuda_host {

/// Where the thread-local variables of functions lie: in the sources compiled for this runtime these are `__shared__`.
std::vector<SharedSpan> shared_spans();

/// The function that contains this address, as written in C++; empty if it is unknown.
std::string function_name(std::uint64_t address);

}  // namespace cuda_host
