#pragma once
/// \file
/// Text from values: fmt::format and fmt::print. The one file that includes fmt.
/// defines: nothing of its own

#include <k3spec/core/compiler.hpp>

// fmt 9 takes nvcc for a compiler without constexpr, but not for one without consteval: then no format string is a
// constant expression ("call to consteval function ... did not produce a valid constant expression"). It has both. The
// target k3spec::k3spec defines the same for CUDA sources, so that they may include fmt before k3spec too.
#if defined(__NVCC__) && !defined(FMT_USE_CONSTEXPR)
#define FMT_USE_CONSTEXPR 1
#endif
#include <fmt/format.h>
