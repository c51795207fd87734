#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include <k3spec/core/buffer.hpp>
#include <k3spec/core/dtype.hpp>

using namespace k3spec;

static_assert(aligned(0) == 0 && aligned(1) == 64 && aligned(64) == 64 && aligned(65) == 128);
static_assert(!std::is_copy_constructible_v<Buffer<float>> && std::is_nothrow_move_constructible_v<Buffer<float>>);

namespace {
template <class T>
void make(index_t count) {
  const Buffer<T> buffer(count);
}

/// The kernel's flags of the mapping that holds p, as /proc/self/smaps lists them; nothing where there is none.
std::string mapping_flags(const void* p) {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  std::ifstream maps("/proc/self/smaps");
  bool holds = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') holds = begin <= at && at < end;
    if (holds && line.starts_with("VmFlags:")) return line + ' ';
  }
  return {};
}
/// Pages that this process has in memory; 0 where nobody says.
std::int64_t resident_pages() {
  std::int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}
}  // namespace

TEST_CASE("a buffer that is written by whoever made it takes no memory before that") {
  const std::int64_t before = resident_pages();
  Buffer<std::uint8_t> buffer(uninitialized, 256 << 20);
  CHECK(buffer.size() == 256 << 20);
  CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment == 0);
  CHECK(resident_pages() - before < (64 << 20) / 4096);
  buffer.fill(3);
  CHECK(buffer[buffer.size() - 1] == 3);
  CHECK(Buffer<int>(uninitialized, 0).size() == 0);
  CHECK_THROWS_WITH_AS(Buffer<float>(uninitialized, -1), "buffer: elements: found -1, wanted 0 to 2305843009213693951",
                       Error);
}

TEST_CASE("a buffer is zero, also where memory was used before, and aligned") {
  for (const index_t count : {0, 1, 3, 63, 64, 65, 1000}) {
    Buffer<bfloat16>(uninitialized, count).fill(bfloat16(1.0F));
    Buffer<bfloat16> buffer(count);
    CHECK(buffer.size() == count);
    CHECK(buffer.end() - buffer.begin() == count);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment == 0);
    CHECK(std::all_of(buffer.begin(), buffer.end(), [](bfloat16 x) { return x.bits == 0; }));
  }
}

TEST_CASE("a large buffer asks for huge pages") {
  const Buffer<char> large(64 << 20);
  const std::string flags = mapping_flags(large.data() + large.size() / 2);
  const bool are_there = std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
  // What runs programs of another processor shows other mappings than its own.
  const bool is_emulated = std::getenv("QEMU_LD_PREFIX") != nullptr;
  if (!flags.empty() && are_there && !is_emulated) CHECK_MESSAGE(flags.find(" hg ") != std::string::npos, flags);
  CHECK(large[large.size() - 1] == 0);
}

TEST_CASE("moving hands the memory on") {
  Buffer<int> a(3);
  a[2] = 7;
  const int* memory = a.data();
  const Buffer<int> b(std::move(a));
  CHECK(b.data() == memory);
  CHECK(b[2] == 7);
}

TEST_CASE("a moved-from buffer is empty") {
  Buffer<int> a(3);
  const Buffer<int> b(std::move(a));
  CHECK(a.data() == nullptr);  // NOLINT(bugprone-use-after-move): the state after is what is tested
  CHECK(a.size() == 0);
  a = Buffer<int>(2);
  CHECK(a.size() == 2);
  CHECK(a[1] == 0);
}

TEST_CASE("counts that cannot be are refused by name") {
  constexpr index_t most = std::numeric_limits<index_t>::max();
  CHECK_THROWS_WITH_AS(make<float>(-1), "buffer: elements: found -1, wanted 0 to 2305843009213693951", Error);
  CHECK_THROWS_AS(make<float>(std::numeric_limits<index_t>::min()), Error);
  CHECK_THROWS_AS(make<float>(most / 4 + 1), Error);  // the bytes would overflow
  CHECK_THROWS_AS(make<char>(most), Error);           // they do not, but no machine has them
  CHECK_THROWS_WITH_AS(make<float>(index_t{1} << 60),
                       "buffer: memory: found none left, wanted 4611686018427387904 bytes", Error);
}
