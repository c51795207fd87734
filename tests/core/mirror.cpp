// Small arrays on both sides, and what the host has made for a device: on Cpu the same memory, elsewhere copies.
#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include <tests/support/far_device.hpp>
#include <k3spec/core/held.hpp>
#include <k3spec/core/mirror.hpp>

using namespace k3spec;

namespace {

/// What a device has of an array.
template <class D, class T>
std::vector<T> on_device(const Vector<const element_t<D, T>>& from) {
  std::vector<T> to(static_cast<std::size_t>(from.extent(0)));
  download(D{}, from, Vector<T>(to.data(), from.extent(0)));
  return to;
}

template <class D>
constexpr std::size_t planned() {
  MirrorPlan<D> plan;
  plan.template take<index_t>(3), plan.template take<std::uint8_t>(0), plan.template take<float>(5);
  return plan.bytes();
}

}  // namespace

TEST_CASE_TEMPLATE("a mirror has its arrays on both sides, in as many bytes as planned", D, Cpu, Far) {
  const D device{};
  Mirror<D> mirror(device, planned<D>());
  const auto ids = mirror.template take<index_t>(3);
  const auto none = mirror.template take<std::uint8_t>(0);
  const auto values = mirror.template take<float>(5);
  CHECK(none.host.extent(0) == 0);
  std::iota(ids.host.data(), ids.host.data() + 3, 7);
  std::fill_n(values.host.data(), 5, 0.5F);
  CHECK(on_device<D, index_t>(ids.device) ==
        (shares_memory<D> ? std::vector<index_t>{7, 8, 9} : std::vector<index_t>(3)));
  mirror.upload(device);
  CHECK(on_device<D, index_t>(ids.device) == std::vector<index_t>{7, 8, 9});
  CHECK(on_device<D, float>(values.device) == std::vector<float>(5, 0.5F));
  const std::vector<float> found{1, 2, 3, 4, 5};
  upload(device, Vector<const float>(found.data(), 5), values.device);
  mirror.download(device);
  CHECK(std::equal(found.begin(), found.end(), values.host.data()));
  CHECK(ids.host(2) == 9);
  CHECK_THROWS_WITH_AS(mirror.template take<float>(1), "mirror: bytes left: found 0, wanted 64", Error);
  CHECK_THROWS_WITH_AS(MirrorPlan<D>{}.template take<float>(-1), doctest::Contains("elements: found -1"), Error);
}

TEST_CASE_TEMPLATE("what is copied has as many elements as there is room for, of rows with gaps, too", D, Cpu, Far) {
  const D device{};
  std::vector<float> x(3 * 4, 1);
  buffer_t<D, float> memory(device, 12);
  const auto there = [&](index_t n) { return Vector<element_t<D, float>>(memory.data(), n); };
  const auto seen = [&](index_t n) { return Vector<const element_t<D, float>>(memory.data(), n); };
  const Vector<const float> five(x.data(), 5);
  CHECK_THROWS_WITH_AS(upload(device, five, there(4)), "upload: found 4 elements, wanted 5", Error);
  CHECK_THROWS_WITH_AS(upload(device, five, there(6)), "upload: found 6 elements, wanted 5", Error);
  CHECK_THROWS_WITH_AS(download(device, seen(4), Vector<float>(x.data(), 3)), "download: found 3 elements, wanted 4",
                       Error);
  CHECK_THROWS_WITH_AS(download(device, seen(4), Vector<float>(x.data(), 5)), "download: found 5 elements, wanted 4",
                       Error);
  const Matrix<const float> packed(x.data(), 3, 3), cut(x.data(), Extents<dyn, dyn>(3, 3), 4);
  for (const auto& rows : {packed, cut}) {
    CHECK_THROWS_WITH_AS(upload_rows<float>(device, rows, there(8)), "upload: found 8 elements, wanted 9", Error);
    CHECK_THROWS_WITH_AS(upload_rows<float>(device, rows, there(12)), "upload: found 12 elements, wanted 9", Error);
  }
  CHECK(on_device<D, float>(seen(12)) == std::vector<float>(12));
}

TEST_CASE_TEMPLATE("what is held for a device is the tensor itself or a copy, of rows with gaps, too", D, Cpu, Far) {
  const D device{};
  std::vector<float> x(3 * 4);
  std::iota(x.begin(), x.end(), 1.0F);
  const Matrix<const float> packed(x.data(), 3, 4), cut(x.data(), Extents<dyn, dyn>(3, 3), 4), none(x.data(), 0, 4);
  const auto elements = [&](const Held<D, float, dyn, dyn>& held) {
    std::vector<float> all;
    for (index_t r = 0; r < held.view().extent(0); ++r) {
      std::vector<float> row(static_cast<std::size_t>(held.view().extent(1)));
      download(device, Vector<const element_t<D, float>>(held.view().row(r), held.view().extent(1)),
               Vector<float>(row.data(), held.view().extent(1)));
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  };
  CHECK(elements({device, packed}) == x);
  CHECK(elements({device, cut}) == std::vector<float>{1, 2, 3, 5, 6, 7, 9, 10, 11});
  CHECK(elements({device, none}).empty());
  const Held<D, float, dyn> vector(device, Vector<const float>(x.data(), 5));
  x[0] = 100;
  CHECK(on_device<D, float>(vector.view())[0] == (shares_memory<D> ? 100.0F : 1.0F));
}
