// Nothing that a program reads, or that it did not write, is written over.
#include <k3spec/io/outputs.hpp>

#include <doctest/doctest.h>

#include <string>

#include <k3spec/io/atomic_file.hpp>

#include "tests/support/temporary.hpp"

using namespace k3spec;
using namespace k3spec::io;
namespace fs = std::filesystem;

namespace {

struct Files : test::TemporaryDirectory {
  fs::path text = *this / "text", folder = *this / "folder", shard = folder / "1.safetensors";
  std::vector<NamedPath> inputs{{"--train", text}, {"--target", folder}, {"--init-from", *this / "nowhere"}};

  Files() {
    test::write(text, "text");
    fs::create_directory(folder);
    test::write(shard, "weights");
  }
  void refuse(const fs::path& output, const std::string& message) const {
    CAPTURE(output.string());
    const auto contains = doctest::Contains(message.c_str());
    CHECK_THROWS_WITH_AS(refuse_inputs({"--out", output}, inputs), contains, Error);
    CHECK_THROWS_AS(refuse_other_files({"--out", output}, inputs, "ours", [](const auto&) { return true; }), Error);
  }
};

}  // namespace

TEST_CASE("an output that is an input is refused, by whatever name") {
  const Files f;
  const std::string which = ", which is also --train, wanted another one than what is read";
  f.refuse(f.text, "--out: found " + f.text.string() + which);
  f.refuse(f.folder / ".." / "folder" / "../text", which);
  fs::create_symlink("text", f / "link");
  f.refuse(f / "link", which);
  fs::create_symlink("link", f / "link2");
  f.refuse(f / "link2", which);
  fs::create_hard_link(f.text, f / "hard");
  f.refuse(f / "hard", which);
  f.refuse(fs::relative(f.text), which);
  f.refuse(f.shard, f.shard.string() + " of --target");
  fs::create_hard_link(f.shard, f / "shard");
  f.refuse(f / "shard", " of --target");
  fs::create_directory_symlink("folder", f / "way");
  f.refuse(f / "way", ", which is also --target");
  f.refuse(f.folder / "", ", which is also --target");
  const int file = ::open(f.text.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  f.refuse("/dev/fd/" + std::to_string(file), which);
  ::close(file);
  // An index reads the shards beside it.
  test::write(f / "other.json", "{}");
  const std::vector<NamedPath> index{{"--target", f / "other.json"}};
  CHECK_THROWS_AS(refuse_inputs({"--out", f.text}, index), Error);
  CHECK_NOTHROW(refuse_inputs({"--out", f.text}, {{"--target", f.shard}}));
  // Other JSON does not, and is an input itself.
  const std::vector<NamedPath> alone{{"--decoding", f / "other.json", true}};
  CHECK_NOTHROW(refuse_inputs({"--out", f.text}, alone));
  CHECK_THROWS_AS(refuse_inputs({"--out", f / "other.json"}, alone), Error);
}

TEST_CASE("new outputs, devices and what is no input are no input") {
  const Files f;
  test::write(f / "other", "text");
  fs::create_symlink("nothing", f / "dangling");
  for (const fs::path& output : {f / "other", f / "new", f / "no" / "folder", f / "dangling", f.folder / "new",
                                 f.path(), fs::path("/dev/null")}) {
    CHECK_NOTHROW(refuse_inputs({"--out", output}, f.inputs));
  }
  CHECK_NOTHROW(refuse_inputs({"--out", "/dev/null"}, {{"--train", "/dev/null"}}));
}

TEST_CASE("a file that is there is written over if it is empty or was written by such a program") {
  const Files f;
  const auto check = [&](const fs::path& output, bool own) {
    refuse_other_files({"--out", output}, f.inputs, "a picture of ours", [own](const fs::path&) { return own; });
  };
  test::write(f / "other", "mine");
  test::write(f / "empty", "");
  fs::create_symlink("other", f / "link");
  for (const char* name : {"other", "link"}) {
    CHECK_NOTHROW(check(f / name, true));
    const std::string message = "--out: found " + (f / name).string() +
                                ", a file that is not a picture of ours, wanted a new file, or a picture of ours to "
                                "write over";
    CHECK_THROWS_WITH_AS(check(f / name, false), message.c_str(), Error);
  }
  for (const fs::path& output : {f / "empty", f / "new", f / "no" / "folder", fs::path("/dev/null")}) {
    CHECK_NOTHROW(check(output, false));
  }
  CHECK_THROWS_WITH_AS(check(f.path(), true), doctest::Contains("found a directory"), Error);
  fs::permissions(f.path(), fs::perms::all);
  fs::permissions(f / "other", fs::perms::owner_read | fs::perms::others_read);
  const bool root = ::geteuid() == 0;  // who may write anything
  if (root) REQUIRE(::setresuid(65534, 65534, 0) == 0);
  CHECK_THROWS_WITH_AS(check(f / "other", true), doctest::Contains("other: found Permission denied"), Error);
  if (root) REQUIRE(::setresuid(0, 0, 0) == 0);
  CHECK(test::contents(f / "other") == "mine");
}
