#include "examples/common/memory.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/temporary.hpp"

using namespace k3spec;
using examples::available_memory;

namespace {

void put(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

}  // namespace

TEST_CASE("available memory is the least that system and control groups leave") {
  const test::TemporaryDirectory at;
  const auto proc = at.path() / "proc", groups = at.path() / "groups";
  CHECK(available_memory(proc, groups) == std::nullopt);
  put(proc / "meminfo", "MemTotal:       9000 kB\nMemAvailable:   5000 kB\n");
  CHECK(available_memory(proc, groups) == 5000 * 1024);

  // Version 2: what is used, but for files that could be dropped, is taken from the limit of each group above.
  put(proc / "self/cgroup", "0::/outer/inner\n");
  put(groups / "outer/inner/memory.max", "max\n");
  put(groups / "outer/inner/memory.current", "100\n");
  put(groups / "outer/memory.max", "1000000\n");
  put(groups / "outer/memory.current", "700000\n");
  put(groups / "outer/memory.stat", "anon 5\ninactive_file 100000\n");
  CHECK(available_memory(proc, groups) == 400000);
  put(groups / "outer/inner/memory.max", "50\n");
  CHECK(available_memory(proc, groups) == 0);

  // Version 1, whose group is at the root in a container.
  put(proc / "self/cgroup", "9:cpu:/\n4:memory:/elsewhere\n0::/\n");
  put(groups / "memory/memory.limit_in_bytes", "3000000\n");
  put(groups / "memory/memory.usage_in_bytes", "1000000\n");
  CHECK(available_memory(proc, groups) == 2000000);
}

TEST_CASE("a plan that does not fit is refused with both figures") {
  CHECK_NOTHROW(examples::check_memory("--length", 1000, std::nullopt));
  CHECK_NOTHROW(examples::check_memory("--length", 1000, 1000));
  CHECK_THROWS_WITH_AS(examples::check_memory("--length", 12'340'000'000, 500'000'000),
                       "--length: found a plan of 12.3 GB of memory, wanted at most 500.0 MB, which are available",
                       Error);
}
