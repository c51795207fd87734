#pragma once
/// \file
/// What no translation unit can do without, refused in a sentence: C++20, exceptions, and arithmetic as IEEE 754 has it
/// (-ffast-math and its parts let a compiler take a NaN for a number, and sums in another order). Every other header
/// reaches this one before it says anything. Of those options clang tells by macros only -ffinite-math-only and what
/// implies it, nvcc nothing of --use_fast_math.
/// defines: nothing of its own

#if __cplusplus < 202002L
#error "k3spec is C++20: compile with -std=c++20 or newer"
#define K3SPEC_REFUSED
#elif !defined(__cpp_exceptions) && !defined(__EXCEPTIONS)
#error "k3spec reports errors by exceptions: compile without -fno-exceptions"
#define K3SPEC_REFUSED
#elif defined(__FAST_MATH__) || __FINITE_MATH_ONLY__
#error "k3spec looks for NaN and infinity: compile without -ffast-math, -Ofast and -ffinite-math-only"
#define K3SPEC_REFUSED
#elif defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error "k3spec promises the same bits everywhere: compile without -funsafe-math-optimizations and its parts"
#define K3SPEC_REFUSED
#endif

#ifdef K3SPEC_REFUSED
#include <see_the_error_above>  // a missing file is the error after which compilers stop
#endif
