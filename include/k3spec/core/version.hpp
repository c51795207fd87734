#pragma once
/// \file
/// This library's version, which CMake reads here: as numbers to compare when compiling, and as text.
/// defines: K3SPEC_VERSION_MAJOR, K3SPEC_VERSION_MINOR, K3SPEC_VERSION_PATCH, K3SPEC_VERSION

#include <k3spec/core/compiler.hpp>

/// Of "1.2.3" the 1.
#define K3SPEC_VERSION_MAJOR 0
/// The 2.
#define K3SPEC_VERSION_MINOR 1
/// The 3.
#define K3SPEC_VERSION_PATCH 0
/// All of it.
#define K3SPEC_VERSION "0.1.0"
