#include "tests/support/golden_check.hpp"

#include <limits>
#include <vector>

#include "tests/support/temporary.hpp"

#include <k3spec/core/dtype.hpp>

using namespace k3spec;
using test::BitHash;

TEST_CASE("golden bits: every bit counts, NaNs are alike, and a file's header does not count") {
  const auto of = [](std::vector<double> x) { return BitHash().numbers(x).value(); };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(of({1, 2}) == of({1, 2}));
  CHECK(of({1, 2}) != of({2, 1}));
  CHECK(of({1}) != of({std::nextafter(1.0, 2.0)}));
  CHECK(of({0.0}) != of({-0.0}));
  CHECK(of({nan}) == of({-nan}));
  CHECK(of({}) != of({0}));
  using namespace std::string_literals;
  const auto file = [](const std::string& bytes) { return BitHash().tensors(bytes).value(); };
  CHECK(file("\2\0\0\0\0\0\0\0{}data"s) == file("\3\0\0\0\0\0\0\0{ }data"s));
  CHECK(file("\2\0\0\0\0\0\0\0{}data"s) != file("\2\0\0\0\0\0\0\0{}date"s));
  CHECK(file("short") == file("\x7f\0\0\0\0\0\0\0{}"s));
}

TEST_CASE("golden bits: the table says what differs, and only for the build that it is of") {
  const test::TemporaryDirectory directory;
  const auto table = [&](const std::string& build) {
    test::write(directory / "bits.txt", build + "\n00000000000000ff a line\n");
    return test::GoldenTable((directory / "bits.txt").string());
  };
  const auto own = table(test::golden_build());
  CHECK(own.applies());
  CHECK(own.check("a line", 255).empty());
  CHECK(own.check("a line", 254) == "golden bits of 'a line': found 00000000000000fe, wanted 00000000000000ff");
  CHECK(own.check("b line", 255) == "golden bits of 'b line': found 00000000000000ff, wanted a line in bits.txt");
  // Names of types have this unit's namespace in them, the table's lines have not.
  CHECK(test::golden_name(__PRETTY_FUNCTION__).find("x86_64") == std::string::npos);
  const auto name_of = []<class T>(const T&) { return std::string(__PRETTY_FUNCTION__); };
  CHECK(test::golden_name(name_of(bfloat16())).find("k3spec::bfloat16") != std::string::npos);
  CHECK(name_of(bfloat16()).find("k3spec::bfloat16") == std::string::npos);
  const auto other = table("(another) 0");
  CHECK_FALSE(other.applies());
  CHECK(other.check("a line", 254).empty());
}

TEST_CASE("golden bits: the project's table is there, and of this build or not") {
  CHECK_FALSE(test::golden_table().build().empty());
  const std::string applies = test::golden_table().applies() ? "this build: " : "another build, nothing is compared: ";
  MESSAGE("the golden bits are of ", applies, test::golden_table().build());
}
