#pragma once
/// \file
/// What the executable's symbol table says: the `__shared__` variables and the names of kernels.
/// defines: shared_variables, function_name

#include <cstdint>
#include <string>
#include <vector>

#include "control.hpp"

namespace cuda_host {

/// Thread-local variables of functions: in the sources compiled for this runtime these are `__shared__`.
std::vector<SharedVariable> shared_variables();

/// The function that contains this address, as written in C++; empty if it is unknown.
std::string function_name(std::uint64_t address);

}  // namespace cuda_host
