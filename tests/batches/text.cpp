#include <k3spec/batches/text.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "tests/support/temporary.hpp"

using namespace k3spec;

namespace {

struct Text : test::TemporaryDirectory {
  explicit Text(std::size_t size) {
    std::string bytes(size, '\0');
    std::iota(bytes.begin(), bytes.end(), '\0');  // 0 to 255, then again
    test::write(*this / "text", bytes);
  }
  ByteText open() const { return ByteText(*this / "text"); }
};

std::vector<index_t> windows(const ByteText& text, std::uint64_t seed, index_t step, index_t batch, index_t length) {
  std::vector<index_t> ids(static_cast<std::size_t>(batch * length), -1);
  text.random_windows(seed, step, Matrix<index_t>(ids.data(), batch, length));
  return ids;
}

}  // namespace

TEST_CASE("a window is a piece of the text, bytes above 127 included") {
  const Text file(256);
  const auto text = file.open();
  const auto ids = windows(text, 1, 0, 50, 10);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i % 10 != 0) REQUIRE(ids[i] == ids[i - 1] + 1);
    REQUIRE(ids[i] >= 0);
    REQUIRE(ids[i] <= 255);
  }
}

TEST_CASE("windows depend on seed and step alone") {
  const Text file(5000);
  const auto text = file.open();
  CHECK(windows(text, 1, 3, 4, 16) == windows(file.open(), 1, 3, 4, 16));
  CHECK(windows(text, 1, 3, 4, 16) != windows(text, 1, 4, 4, 16));
  CHECK(windows(text, 1, 3, 4, 16) != windows(text, 2, 3, 4, 16));
  // Words 0 and 1 of Philox with seed 1, stream "text" and counters 12 to 15, modulo the 4,985 places, and 256.
  const auto ids = windows(text, 1, 3, 4, 16);
  CHECK(std::vector<index_t>{ids[0], ids[16], ids[32], ids[48]} == std::vector<index_t>{154, 244, 69, 104});
}

TEST_CASE("every place of the text can be a window's first, the last one too") {
  const Text file(12);
  std::vector<bool> seen(12);
  for (const index_t id : windows(file.open(), 5, 0, 400, 10)) seen[static_cast<std::size_t>(id)] = true;
  CHECK(seen == std::vector<bool>(12, true));
  CHECK(windows(file.open(), 5, 0, 1, 12).front() == 0);
}

TEST_CASE("windows one behind the other cover the text but for its rest") {
  const Text file(35);
  const auto text = file.open();
  CHECK(text.windows(10) == 3);
  std::vector<std::int32_t> ids(20);
  text.consecutive_windows(1, Matrix<std::int32_t>(ids.data(), 2, 10));
  CHECK(ids.front() == 10);
  CHECK(ids.back() == 29);
  CHECK_THROWS_AS(text.consecutive_windows(2, Matrix<std::int32_t>(ids.data(), 2, 10)), Error);
}

TEST_CASE("a text too short or absent is refused") {
  const Text file(9), empty(0);
  CHECK_THROWS_WITH_AS(windows(file.open(), 1, 0, 1, 10),
                       doctest::Contains("text: found 9 bytes, wanted a window of 10 bytes"), Error);
  CHECK_THROWS_WITH_AS(windows(empty.open(), 1, 0, 1, 1), doctest::Contains("found 0 bytes, wanted a window of 1 byte"),
                       Error);
  CHECK_NOTHROW(file.open().check_windows(3, 3));
  CHECK_THROWS_WITH_AS(file.open().check_windows(2, 5),
                       doctest::Contains("text: found 9 bytes, wanted 2 windows of 5 bytes each, 10 bytes"), Error);
  CHECK_THROWS_WITH_AS(file.open().check_windows(1, 0), doctest::Contains("window length: found 0, wanted at least 1"),
                       Error);
  CHECK(empty.open().windows(1) == 0);
  CHECK_THROWS_AS(ByteText(file / "none"), Error);
}

TEST_CASE("a text that is cut while a run learns from it stays what it was for the run") {
  const Text file(20'000);
  const auto text = file.open();
  const auto before = windows(text, 1, 0, 4, 16);
  std::filesystem::resize_file(file / "text", 3);
  CHECK(windows(text, 1, 0, 4, 16) == before);
  CHECK(text.size() == 20'000);
}
