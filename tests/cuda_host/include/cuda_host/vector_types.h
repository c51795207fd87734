#pragma once
/// \file
/// float4 and its like, with CUDA's alignments, and dim3.
/// defines: char1 ... double4, make_*, dim3

// NOLINTBEGIN: CUDA's names
#define CUDA_HOST_VECTORS(name, T, align2, align4)                              \
  struct name##1 {                                                              \
    T x;                                                                        \
  };                                                                            \
  struct alignas(align2) name##2 {                                              \
    T x, y;                                                                     \
  };                                                                            \
  struct name##3 {                                                              \
    T x, y, z;                                                                  \
  };                                                                            \
  struct alignas(align4) name##4 {                                              \
    T x, y, z, w;                                                               \
  };                                                                            \
  constexpr name##1 make_##name##1(T x) { return name##1 {x}; }                 \
  constexpr name##2 make_##name##2(T x, T y) { return name##2 {x, y}; }         \
  constexpr name##3 make_##name##3(T x, T y, T z) { return name##3 {x, y, z}; } \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return name##4 {x, y, z, w}; }

CUDA_HOST_VECTORS(char, signed char, 2, 4)
CUDA_HOST_VECTORS(uchar, unsigned char, 2, 4)
CUDA_HOST_VECTORS(short, short, 4, 8)
CUDA_HOST_VECTORS(ushort, unsigned short, 4, 8)
CUDA_HOST_VECTORS(int, int, 8, 16)
CUDA_HOST_VECTORS(uint, unsigned int, 8, 16)
CUDA_HOST_VECTORS(longlong, long long, 16, 16)
CUDA_HOST_VECTORS(ulonglong, unsigned long long, 16, 16)
CUDA_HOST_VECTORS(float, float, 8, 16)
CUDA_HOST_VECTORS(double, double, 16, 16)
#undef CUDA_HOST_VECTORS

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
};
// NOLINTEND
