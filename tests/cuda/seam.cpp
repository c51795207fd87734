// Streams, events, memory and errors.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include <tests/cuda/device.hpp>
#include <k3spec/batches/state_storage.hpp>
#include <k3spec/core/mirror.hpp>

using namespace k3spec;

namespace {

__global__ void add_one(float* x, index_t n) {
  const index_t i = index_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}

}  // namespace

TEST_CASE("a failed call says file, line, the call and CUDA's own words") {
  const Cuda& cuda = test::device<Cuda>();
  test::Mirror<float, Cuda> x(std::vector<float>(3));
  std::string message;
  try {
    cuda::launch(cuda, {dim3(0), dim3(32)}, add_one, bare(x.vector().data()), index_t{3});
  } catch (const CudaError& e) {
    message = e.what();
  }
  CHECK(message.find("launch.hpp:") != std::string::npos);
  CHECK(message.find("cudaLaunchKernelEx") != std::string::npos);
  CHECK(message.find("cudaErrorInvalidConfiguration (") != std::string::npos);
  CHECK_THROWS_WITH_AS(cuda::check(CUBLAS_STATUS_INVALID_VALUE, "cublasDid"), doctest::Contains("seam.cpp:"),
                       CudaError);
  CHECK_THROWS_WITH_AS(cuda::check(CUBLAS_STATUS_INVALID_VALUE, "cublasDid"),
                       doctest::Contains("cublasDid: found CUBLAS_STATUS_INVALID_VALUE ("), CudaError);
  // The refused launch leaves no error behind.
  CHECK_NOTHROW(cuda.synchronize());
}

TEST_CASE("no such device: a sentence") {
  CHECK_THROWS_WITH_AS(Cuda({.ordinal = 99}), doctest::Contains("wanted device 99"), Error);
  CHECK_THROWS_WITH_AS(Cuda({.ordinal = -1}), doctest::Contains("wanted device -1"), Error);
}

TEST_CASE("buffers are zero when made, move, and know their limits") {
  const Cuda& cuda = test::device<Cuda>();
  using OnCard = element_t<Cuda, double>;
  CudaBuffer<double> a(cuda, 33);
  std::vector<double> host(33, 1.0);
  download<double>(cuda, Vector<OnCard>(a.data(), 33), Vector<double>(host.data(), 33));
  CHECK(host == std::vector<double>(33, 0.0));
  CudaBuffer<double> b = std::move(a);
  CHECK(b.size() == 33);
  a = std::move(b);
  CHECK(a.size() == 33);
  CHECK(CudaBuffer<float>(cuda, 0).data() == nullptr);
  CHECK_THROWS_WITH_AS(CudaBuffer<double>(cuda, -1), doctest::Contains("CUDA buffer: elements: found -1"), Error);
  CHECK_THROWS_AS(CudaBuffer<double>(cuda, std::numeric_limits<index_t>::max()), Error);
  CHECK_THROWS_WITH_AS(CudaBuffer<double>(cuda, index_t{1} << 58), doctest::Contains("cudaMalloc"), CudaError);
  CHECK_THROWS_WITH_AS(upload<double>(cuda, Vector<double>(host.data(), 33), Vector<OnCard>(a.data(), 32)),
                       "upload: found 32 elements, wanted 33", Error);
  const Vector<double> on_host(host.data(), 33);
  CHECK_THROWS_WITH_AS(upload<double>(cuda, on_host, test::taken_for_the_cards(on_host)),
                       "upload: destination: found host memory, wanted device memory", Error);
}

TEST_CASE("an arena plans device memory as Cpu's does, and its poison is NaN") {
  const Cuda& cuda = test::device<Cuda>();
  const auto take = [](auto& a) {
    Rows<element_t<Cuda, float>, 7> x, y;
    take_rows(a, 5, x), take_rows(a, 3, y);
    return std::pair(x, y);
  };
  CudaArena arena(cuda, plan_bytes(take));
  arena.poison();
  const auto [x, y] = take(arena);
  CHECK(arena.used() == arena.capacity());
  CHECK(reinterpret_cast<std::uintptr_t>(y.data()) % 64 == 0);
  std::vector<float> host(21);
  download<float>(cuda, Vector<element_t<Cuda, float>>(y.data(), 21), Vector<float>(host.data(), 21));
  for (const float v : host) CHECK(v != v);
  CHECK_THROWS_WITH_AS(arena.take<float>(1), doctest::Contains("arena: bytes left: found 0"), Error);
}

TEST_CASE("a mirror's arrays are the card's once they are uploaded, and the host's again once they are downloaded") {
  const Cuda& cuda = test::device<Cuda>();
  const auto take = [](auto& m) { return std::pair(m.template take<index_t>(3), m.template take<float>(33)); };
  MirrorPlan<Cuda> plan;
  take(plan);
  Mirror<Cuda> mirror(cuda, plan.bytes());
  const auto [ids, values] = take(mirror);
  CHECK_THROWS_WITH_AS(mirror.take<float>(1), doctest::Contains("mirror: bytes left: found 0"), Error);
  for (index_t i = 0; i < 33; ++i) values.host(i) = static_cast<float>(i);
  for (index_t i = 0; i < 3; ++i) ids.host(i) = 30 + i;
  mirror.upload(cuda);
  // Rows 30 to 32 of the values, in front of them.
  const Matrix<element_t<Cuda, float>> table(values.device.data(), 33, 1);
  gather_rows(cuda, ids.device, table, table.rows(0, 3));
  evaluate(cuda, expr::arg<0> * 2.0, values.device, values.device);
  cuda.synchronize();
  for (index_t i = 0; i < 33; ++i) CHECK(values.host(i) == static_cast<float>(i));
  mirror.download(cuda);
  for (index_t i = 0; i < 33; ++i) CHECK(values.host(i) == static_cast<float>(2 * (i < 3 ? 30 + i : i)));
  for (index_t i = 0; i < 3; ++i) CHECK(ids.host(i) == 30 + i);
}

TEST_CASE("an event orders two streams") {
  const Cuda a(test::small_workspaces), b(test::small_workspaces);
  CudaBuffer<float> x(a, 1000);
  const Vector<element_t<Cuda, float>> v(x.data(), 1000);
  const cuda::Event zeroed, added;
  zeroed.record(a.stream());
  cuda::launch(a, {dim3(8), dim3(128)}, add_one, bare(x.data()), index_t{1000});
  added.record(a.stream());
  added.hold_back(b.stream());
  evaluate(b, expr::arg<0> * 3.0, v, v);
  std::vector<float> host(1000);
  download<float>(b, v, Vector<float>(host.data(), 1000));
  CHECK(host == std::vector<float>(1000, 3.0f));
  added.synchronize();
  CHECK(added.since(zeroed) >= 0);
}

TEST_CASE("states of a cache come to a card as they were, narrower ones in pieces") {
  const Cuda& cuda = test::device<Cuda>();
  constexpr index_t width = 2 * 1024 + 37, states = 2;  // two whole pieces of a state, and some
  std::vector<float> numbers(width * states), found(numbers.size()), scales(states);
  for (index_t i = 0; i < width * states; ++i)
    numbers[static_cast<std::size_t>(i)] = static_cast<float>(i % 251) - 0.5F;
  numbers[7] = numbers[width + 7] = 448;  // scales of 1
  using OnCard = element_t<Cuda, float>;
  for (const DType dtype : {DType::F32, DType::BF16, DType::F8_E4M3}) {
    const StateStorage<float> storage(dtype, width);
    CHECK(storage.narrow() == (dtype != DType::F32));
    std::vector<std::byte> bytes(storage.bytes(states));
    REQUIRE(bytes.size() == numbers.size() * size_of(dtype));
    storage.store(numbers.data(), states, bytes.data(), scales.data());
    CudaBuffer<float> on_card(cuda, width * states);
    storage.load(cuda, bytes.data(), scales.data(), Vector<OnCard>(on_card.data(), width * states));
    storage.load(cuda, bytes.data(), scales.data(), Vector<OnCard>(on_card.data(), 0));
    download<float>(cuda, Vector<OnCard>(on_card.data(), width * states), Vector<float>(found.data(), width * states));
    for (std::size_t i = 0; i < found.size(); ++i) {
      // From 128 on bfloat16 has whole numbers: of two that are as near, the even one.
      float wanted = dtype == DType::F32 || numbers[i] < 128 ? numbers[i] : std::nearbyint(numbers[i]);
      if (dtype == DType::F8_E4M3) wanted = float8_e4m3fn(numbers[i]);
      REQUIRE(found[i] == wanted);
    }
  }
}
