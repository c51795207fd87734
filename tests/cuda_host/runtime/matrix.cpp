#include "cuda_host/matrix.h"

#include <bit>
#include <cmath>

#include "device_process.hpp"
#include "shared_memory.hpp"

// Products of small matrices: fragments are put together to whole matrices, as the PTX ISA says where each register
// lies.

namespace cuda_host {
namespace {

constexpr unsigned lanes = 32;

struct MmaBf16 {
  float* d;
  const std::uint32_t *a, *b;
};

float bf16(std::uint32_t pair, unsigned which) {
  return std::bit_cast<float>(which == 0 ? pair << 16U : pair & 0xffff0000U);
}

void multiply_bf16(void* const* all) {
  float a[16][16], b[16][8];
  for (unsigned l = 0; l < lanes; ++l) {
    const MmaBf16& lane = *static_cast<const MmaBf16*>(all[l]);
    const unsigned group = l >> 2U, in_group = l % 4;
    for (unsigned i = 0; i < 8; ++i) {
      const unsigned row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      const unsigned column = in_group * 2 + (i & 1U) + (i >= 4 ? 8 : 0);
      a[row][column] = bf16(lane.a[i / 2], i % 2);
    }
    for (unsigned i = 0; i < 4; ++i) b[in_group * 2 + (i & 1U) + (i >= 2 ? 8 : 0)][group] = bf16(lane.b[i / 2], i % 2);
  }
  for (unsigned l = 0; l < lanes; ++l) {
    float* d = static_cast<const MmaBf16*>(all[l])->d;
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = i < 2 ? l >> 2U : (l >> 2U) + 8, column = l % 4 * 2 + (i & 1U);
      for (unsigned k = 0; k < 16; ++k) d[i] = std::fma(a[row][k], b[k][column], d[i]);
    }
  }
}

struct MmaDouble {
  double *d, a, b;
};

void multiply_double(void* const* all) {
  double a[8][4], b[4][8];
  for (unsigned l = 0; l < lanes; ++l) {
    const MmaDouble& lane = *static_cast<const MmaDouble*>(all[l]);
    a[l >> 2U][l % 4] = lane.a;
    b[l % 4][l >> 2U] = lane.b;
  }
  for (unsigned l = 0; l < lanes; ++l) {
    double* d = static_cast<const MmaDouble*>(all[l])->d;
    for (unsigned i = 0; i < 2; ++i) {
      for (unsigned k = 0; k < 4; ++k) d[i] = std::fma(a[l >> 2U][k], b[k][l % 4 * 2 + i], d[i]);
    }
  }
}

struct Rows {
  const unsigned char* row;
  std::uint32_t* to;
  bool transposed;
};

/// Lane l has of each 8 x 8 matrix elements 2 (l % 4) and the next of row l / 4; transposed, of column l / 4.
void load_rows(void* const* all) {
  for (unsigned l = 0; l < lanes; ++l) {
    const Rows& lane = *static_cast<const Rows*>(all[l]);
    for (unsigned m = 0; m < 4; ++m) {
      std::uint32_t pair = 0;
      for (unsigned i = 0; i < 2; ++i) {
        const unsigned along = l % 4 * 2 + i, across = l >> 2U;
        const unsigned row = lane.transposed ? along : across, column = lane.transposed ? across : along;
        const unsigned char* p = static_cast<const Rows*>(all[m * 8 + row])->row + 2 * column;
        pair |= static_cast<std::uint32_t>(p[0] | p[1] << 8U) << 16U * i;
      }
      lane.to[m] = pair;
    }
  }
}

}  // namespace

void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], const char* file,
                  unsigned int line) {
  MmaBf16 operands{d, a, b};
  detail::meet_all(multiply_bf16, &operands, file, line);
}

void mma_m8n8k4(double (&d)[2], double a, double b, const char* file, unsigned int line) {
  MmaDouble operands{d, a, b};
  detail::meet_all(multiply_double, &operands, file, line);
}

void ldmatrix_x4(std::uint32_t (&to)[4], const void* row, bool transposed, const char* file, unsigned int line) {
  require_device("ldmatrix");
  if (address_of(row) % 16 != 0)
    detail::fault(cudaErrorMisalignedAddress, "ldmatrix: a row that is not at a multiple of 16 bytes", file, line, row);
  if (!in_shared(address_of(row), 16))
    detail::fault(cudaErrorInvalidAddressSpace, "ldmatrix: a row outside shared memory", file, line, row);
  Rows operands{static_cast<const unsigned char*>(row), to, transposed};
  detail::meet_all(load_rows, &operands, file, line);
}

}  // namespace cuda_host
