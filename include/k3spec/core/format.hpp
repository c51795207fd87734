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
// Up to version 10 both are in the header that costs a third less, behind which the library formats.
#include <fmt/core.h>
#if FMT_VERSION >= 110000
#include <fmt/format.h>
#endif
