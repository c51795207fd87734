// The matrix unit's fragments, every lane and register of them: one element at a time is 1, and the product says which
// it was. Where an element lies is written here the other way round than in the header: from (row, column) to the
// register.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <vector>

#include <tests/cuda/device.hpp>
#include <k3spec/backend/cuda/async_copy.hpp>
#include <k3spec/backend/cuda/matrix_unit.hpp>

using namespace k3spec;

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Numbers of products, those of one after those of the other.
template <class T>
using Many = std::vector<T>;

// ---- kernels: block p is product p, thread l lane l

__global__ void multiply_bfloat16(const std::uint32_t* a, const std::uint32_t* b, const float* c, float* d) {
  const unsigned lane = blockIdx.x * 32 + threadIdx.x;
  std::uint32_t of_a[4], of_b[2];
  float sum[4];
  for (unsigned i = 0; i < 4; ++i) of_a[i] = a[lane * 4 + i], sum[i] = c[lane * 4 + i];
  for (unsigned i = 0; i < 2; ++i) of_b[i] = b[lane * 2 + i];
  cuda::multiply_add(sum, of_a, of_b);
  for (unsigned i = 0; i < 4; ++i) d[lane * 4 + i] = sum[i];
}

__global__ void multiply_double(const double* a, const double* b, const double* c, double* d) {
  const unsigned lane = blockIdx.x * 32 + threadIdx.x;
  double sum[2] = {c[lane * 2], c[lane * 2 + 1]};
  cuda::multiply_add(sum, a[lane], b[lane]);
  d[lane * 2] = sum[0], d[lane * 2 + 1] = sum[1];
}

/// Rows of 8, those of a warp's 4 matrices, at slots of shared memory that are in no order.
__global__ void load_eights(const bfloat16* from, std::uint32_t* plain, std::uint32_t* transposed) {
  __shared__ __align__(16) bfloat16 slots[32][24];
  const unsigned lane = threadIdx.x, slot = (lane * 11 + 5) % 32;
  for (unsigned j = 0; j < 8; ++j) slots[slot][j + 8] = from[lane * 8 + j];
  __syncwarp();
  std::uint32_t to[4], turned[4];
  cuda::load_matrices(to, slots[slot] + 8);
  cuda::load_matrices_transposed(turned, slots[slot] + 8);
  for (unsigned i = 0; i < 4; ++i) plain[lane * 4 + i] = to[i], transposed[lane * 4 + i] = turned[i];
}

/// Three groups of copies, of which each thread reads its neighbour's as they arrive. bytes [3, threads].
__global__ void copy_groups(const float* from, const unsigned* bytes, float* to) {
  constexpr unsigned threads = 64;
  __shared__ __align__(16) float rows[3][threads][4];
  const unsigned t = threadIdx.x, next = (t + 33) % threads;
  for (unsigned g = 0; g < 3; ++g) {
    cuda::copy_async(rows[g][t], from + (g * threads + t) * 4, bytes[g * threads + t]);
    cuda::commit_copies();
  }
  const auto read = [&](unsigned g) {
    __syncthreads();
    for (unsigned j = 0; j < 4; ++j) to[(g * threads + next) * 4 + j] = rows[g][next][j];
  };
  cuda::wait_for_copies<2>();
  read(0);
  cuda::wait_for_copies<1>();
  read(1);
  cuda::wait_for_copies<0>();
  read(2);
}

// ---- where elements lie

/// A lane, its register, and which of the two in it.
struct Register {
  int lane, index, half;
};
Register left(int row, int column) { return {row % 8 * 4 + column % 8 / 2, row / 8 + 2 * (column / 8), column % 2}; }
Register right(int row, int column) { return {column * 4 + row % 8 / 2, row / 8, row % 2}; }
Register sum(int row, int column) { return {row % 8 * 4 + column / 2, row / 8 * 2 + column % 2, 0}; }

/// Products of [16, 16] by [16, 8] in registers, all 0 at first.
struct Products {
  int count;
  Many<std::uint32_t> a, b;
  Many<float> c;
  explicit Products(int n) : count(n), a(at(n * 128)), b(at(n * 64)), c(at(n * 128)) {}

  static void put(std::uint32_t& pair, int half, float value) {
    pair |= std::uint32_t{bfloat16(value).bits} << (half == 0 ? 0U : 16U);
  }
  void put_a(int product, const Register& r, float value) {
    put(a[at((product * 32 + r.lane) * 4 + r.index)], r.half, value);
  }
  void put_b(int product, const Register& r, float value) {
    put(b[at((product * 32 + r.lane) * 2 + r.index)], r.half, value);
  }
  Many<float> run() const {
    const Cuda& cuda = test::device<Cuda>();
    test::Mirror<std::uint32_t, Cuda> of_a(a), of_b(b);
    test::Mirror<float, Cuda> of_c(c), d(Many<float>(c.size(), NAN));
    cuda::launch(cuda, {dim3(static_cast<unsigned>(count)), dim3(32)}, multiply_bfloat16, bare(of_a.vector()).data(),
                 bare(of_b.vector()).data(), bare(of_c.vector()).data(), bare(d.vector()).data());
    return d.get();
  }
};

/// An element's number, different for all; exact in bfloat16.
float number(int row, int column, int columns) { return static_cast<float>(row * columns + column + 1); }

}  // namespace

TEST_CASE("a lane's sums lie where the PTX ISA says") {
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      const Register r = sum(row, column);
      const cuda::MatrixPlace place = cuda::accumulator_place(r.lane, r.index);
      CHECK(place.row == row);
      CHECK(place.column == column);
    }
  }
  // Read off the ISA's figure: the corners, and T6 { c0, c1, c2, c3 }.
  const auto is = [](int lane, int i, int row, int column) {
    const cuda::MatrixPlace p = cuda::accumulator_place(lane, i);
    return p.row == row && p.column == column;
  };
  CHECK((is(0, 0, 0, 0) && is(3, 1, 0, 7) && is(0, 2, 8, 0) && is(31, 3, 15, 7)));
  CHECK((is(6, 0, 1, 4) && is(6, 1, 1, 5) && is(6, 2, 9, 4) && is(6, 3, 9, 5)));
}

TEST_CASE("two numbers in a register: the first is the lower half, each rounded to nearest even") {
  CHECK(cuda::pack(1.0F, -2.0F) == 0xc0003f80U);
  CHECK(cuda::pack(1.00390625F, 1.01171875F) == 0x3f823f80U);
}

TEST_CASE("bfloat16: every element of a, then of b, then of the sum, alone") {
  Products of_a(256), of_b(128), of_c(128);
  for (int p = 0; p < 256; ++p) {
    of_a.put_a(p, left(p / 16, p % 16), 1);
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 8; ++n) of_a.put_b(p, right(k, n), number(k, n, 8));
    }
  }
  for (int p = 0; p < 128; ++p) {
    of_b.put_b(p, right(p / 8, p % 8), 1);
    for (int m = 0; m < 16; ++m) {
      for (int k = 0; k < 16; ++k) of_b.put_a(p, left(m, k), number(m, k, 16));
    }
    const Register r = sum(p / 8, p % 8);
    of_c.c[at((p * 32 + r.lane) * 4 + r.index)] = 1;
  }
  const Many<float> by_a = of_a.run(), by_b = of_b.run(), by_c = of_c.run();
  int wrong = 0;
  const auto check = [&](const Many<float>& d, int p, int m, int n, float wanted) {
    const Register r = sum(m, n);
    if (d[at((p * 32 + r.lane) * 4 + r.index)] != wanted) ++wrong;
  };
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      for (int p = 0; p < 256; ++p) check(by_a, p, m, n, m == p / 16 ? number(p % 16, n, 8) : 0);
      for (int p = 0; p < 128; ++p) check(by_b, p, m, n, n == p % 8 ? number(m, p / 8, 16) : 0);
      for (int p = 0; p < 128; ++p) check(by_c, p, m, n, m == p / 8 && n == p % 8 ? 1 : 0);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("bfloat16: products and sums are those of float, with what was there before") {
  Products x(1);
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < 16; ++k) x.put_a(0, left(m, k), number(m, k, 16) / 64);
    for (int n = 0; n < 8; ++n) {
      x.put_b(0, right(m, n), number(n, m, 16) - 64);
      const Register r = sum(m, n);
      x.c[at(r.lane * 4 + r.index)] = static_cast<float>(m - n);
    }
  }
  const Many<float> d = x.run();
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      float wanted = static_cast<float>(m - n);  // all exact
      for (int k = 0; k < 16; ++k) wanted += number(m, k, 16) / 64 * (number(n, k, 16) - 64);
      const Register r = sum(m, n);
      CHECK(d[at(r.lane * 4 + r.index)] == wanted);
    }
  }
}

TEST_CASE("double: every element of a, then of b, then of the sum, alone") {
  const int products = 32 + 32 + 64;
  Many<double> a(at(products * 32)), b(at(products * 32)), c(at(products * 64));
  for (int p = 0; p < 32; ++p) {
    a[at(p * 32 + p)] = 1;
    b[at((32 + p) * 32 + p)] = 1;
    for (int k = 0; k < 4; ++k) {
      for (int j = 0; j < 8; ++j) {
        b[at(p * 32 + j * 4 + k)] = number(k, j, 8);
        a[at((32 + p) * 32 + j * 4 + k)] = number(j, k, 4);
      }
    }
  }
  for (int p = 0; p < 64; ++p) c[at((64 + p) * 64 + p)] = 1;
  const Cuda& cuda = test::device<Cuda>();
  test::Mirror<double, Cuda> of_a(a), of_b(b), of_c(c), d(Many<double>(c.size(), NAN));
  cuda::launch(cuda, {dim3(static_cast<unsigned>(products)), dim3(32)}, multiply_double, bare(of_a.vector()).data(),
               bare(of_b.vector()).data(), bare(of_c.vector()).data(), bare(d.vector()).data());
  const Many<double> found = d.get();
  int wrong = 0;
  const auto check = [&](int p, int m, int n, double wanted) {
    if (found[at(p * 64 + (m * 4 + n / 2) * 2 + n % 2)] != wanted) ++wrong;
  };
  for (int m = 0; m < 8; ++m) {
    for (int n = 0; n < 8; ++n) {
      for (int p = 0; p < 32; ++p) {
        check(p, m, n, m == p / 4 ? number(p % 4, n, 8) : 0);
        check(32 + p, m, n, n == p / 4 ? number(m, p % 4, 4) : 0);
      }
      for (int p = 0; p < 64; ++p) check(64 + p, m, n, m == p / 8 && n == p % 8 ? 1 : 0);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("four matrices of shared memory, as they are and transposed") {
  Many<bfloat16> numbers;
  for (int i = 0; i < 256; ++i) numbers.push_back(bfloat16(static_cast<float>(i)));
  const Cuda& cuda = test::device<Cuda>();
  test::Mirror<bfloat16, Cuda> from(numbers);
  test::Mirror<std::uint32_t, Cuda> plain(Many<std::uint32_t>(128)), transposed(Many<std::uint32_t>(128));
  cuda::launch(cuda, {dim3(1), dim3(32)}, load_eights, bare(from.vector()).data(), bare(plain.vector()).data(),
               bare(transposed.vector()).data());
  const Many<std::uint32_t> found = plain.get(), turned = transposed.get();
  const auto half = [](const Many<std::uint32_t>& x, int lane, int m, int which) {
    const std::uint32_t bits = x[at(lane * 4 + m)] >> (which == 0 ? 0U : 16U) & 0xffffU;
    return static_cast<int>(std::bit_cast<float>(bits << 16U));
  };
  int wrong = 0;
  for (int m = 0; m < 4; ++m) {
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 8; ++column) {
        const int element = m * 64 + row * 8 + column;
        if (half(found, row * 4 + column / 2, m, column % 2) != element) ++wrong;
        if (half(turned, column * 4 + row / 2, m, row % 2) != element) ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("copies arrive in groups, and what is not read of 16 bytes is 0") {
  constexpr int threads = 64;
  Many<float> values, wanted;
  Many<unsigned> bytes;
  for (int i = 0; i < 3 * threads; ++i) {
    bytes.push_back(static_cast<unsigned>(i % 5 * 4));
    for (int j = 0; j < 4; ++j) {
      values.push_back(static_cast<float>(4 * i + j + 1));
      wanted.push_back(j < i % 5 ? values.back() : 0);
    }
  }
  const Cuda& cuda = test::device<Cuda>();
  test::Mirror<float, Cuda> from(values), to(Many<float>(values.size(), NAN));
  test::Mirror<unsigned, Cuda> sizes(bytes);
  cuda::launch(cuda, {dim3(1), dim3(threads)}, copy_groups, bare(from.vector()).data(), bare(sizes.vector()).data(),
               bare(to.vector()).data());
  CHECK(to.get() == wanted);
}
