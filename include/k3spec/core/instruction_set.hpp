#pragma once
/// \file
/// K3SPEC_NAMESPACE, which every header opens: k3spec, and inside it an inline namespace named after the instruction
/// set that this unit is compiled for. Its name is part of every symbol, so that a program may hold units of several
/// `-march` (say, one per processor behind a run-time check) and each calls its own copy of an inline function. Without
/// it a linker keeps one copy of each, and the unit for the older processor may end up with instructions of the newer.
/// Source code goes on saying `k3spec::`. What the name cannot tell apart: code of other libraries (Eigen, the standard
/// library) that is not inlined, and flags other than the instruction set.
/// defines: K3SPEC_NAMESPACE

#include <k3spec/core/compiler.hpp>

// The levels of the x86-64 psABI, and Arm's vector extensions.
#if defined(__x86_64__) || defined(_M_X64)
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__)
#define K3SPEC_ISA_LEVEL x86_64_v4
#define K3SPEC_ISA_WHOLE
#define K3SPEC_ISA_AVX512
#elif defined(__AVX2__) && defined(__FMA__) && defined(__BMI__) && defined(__BMI2__) && defined(__F16C__) && \
    defined(__LZCNT__) && defined(__MOVBE__)
#define K3SPEC_ISA_LEVEL x86_64_v3
#define K3SPEC_ISA_WHOLE
#elif defined(__SSE4_2__) && defined(__SSSE3__) && defined(__POPCNT__)
#define K3SPEC_ISA_LEVEL x86_64_v2
#else
#define K3SPEC_ISA_LEVEL x86_64_v1
#endif
#elif defined(__ARM_FEATURE_SVE2)
#define K3SPEC_ISA_LEVEL arm_sve2
#elif defined(__ARM_FEATURE_SVE)
#define K3SPEC_ISA_LEVEL arm_sve
#else
#define K3SPEC_ISA_LEVEL portable
#endif

// What a compiler may use beyond the level, each group a letter; a set that has a level but for one part is the level
// below and letters.
#if defined(__AVX__) && !defined(K3SPEC_ISA_WHOLE)
#define K3SPEC_ISA_A a
#else
#define K3SPEC_ISA_A
#endif
#if defined(__AVX2__) && !defined(K3SPEC_ISA_WHOLE)
#define K3SPEC_ISA_B b
#else
#define K3SPEC_ISA_B
#endif
#if (defined(__FMA__) || defined(__FMA4__)) && !defined(K3SPEC_ISA_WHOLE)
#define K3SPEC_ISA_F f
#else
#define K3SPEC_ISA_F
#endif
#if (defined(__BMI__) || defined(__BMI2__) || defined(__LZCNT__) || defined(__TBM__)) && !defined(K3SPEC_ISA_WHOLE)
#define K3SPEC_ISA_I i
#else
#define K3SPEC_ISA_I
#endif
#if defined(__AVX512F__) && !defined(K3SPEC_ISA_AVX512)
#define K3SPEC_ISA_Z z
#else
#define K3SPEC_ISA_Z
#endif
#if defined(__AVX512BF16__) || defined(__AVX512FP16__)
#define K3SPEC_ISA_H h
#else
#define K3SPEC_ISA_H
#endif
#if defined(__AVX512VBMI__) || defined(__AVX512VBMI2__) || defined(__AVX512IFMA__) || defined(__AVX512BITALG__) || \
    defined(__AVX512VPOPCNTDQ__) || defined(__GFNI__)
#define K3SPEC_ISA_M m
#else
#define K3SPEC_ISA_M
#endif
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define K3SPEC_ISA_N n
#else
#define K3SPEC_ISA_N
#endif

#define K3SPEC_ISA_JOINED(level, a, b, f, i, z, h, m, n) level##a##b##f##i##z##h##m##n
#define K3SPEC_ISA_JOIN(...) K3SPEC_ISA_JOINED(__VA_ARGS__)
#define K3SPEC_NAMESPACE                                                                                   \
  k3spec::inline K3SPEC_ISA_JOIN(K3SPEC_ISA_LEVEL, K3SPEC_ISA_A, K3SPEC_ISA_B, K3SPEC_ISA_F, K3SPEC_ISA_I, \
                                 K3SPEC_ISA_Z, K3SPEC_ISA_H, K3SPEC_ISA_M, K3SPEC_ISA_N)

/// \namespace k3spec
/// The library. An inline namespace that is named after the instruction set stands in it, which no code names.
