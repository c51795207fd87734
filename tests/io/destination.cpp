// Output to what is no regular file: nothing that stands there is replaced but regular files.
#include <k3spec/io/atomic_file.hpp>

#include <doctest/doctest.h>

#include <string>

#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/temporary.hpp"

using namespace k3spec;
using namespace k3spec::io;
namespace fs = std::filesystem;

namespace {

/// The reading end of a FIFO, which does not wait for a writer.
class Reader {
 public:
  explicit Reader(const fs::path& path) : file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~Reader() { ::close(file_); }
  std::string read() const {
    char buffer[64];
    const ::ssize_t got = ::read(file_, buffer, sizeof(buffer));
    return {buffer, static_cast<std::size_t>(got < 0 ? 0 : got)};
  }

 private:
  int file_;
};

}  // namespace

TEST_CASE("a FIFO gets what is written and stays; without a reader it is refused, and nothing waits") {
  const test::TemporaryDirectory d;
  REQUIRE(::mkfifo((d / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("fifo", d / "link");
  CHECK_THROWS_WITH_AS(write_text(d / "fifo", "text"), doctest::Contains("or a FIFO that is read"), Error);
  const Reader reader(d / "fifo");
  write_text(d / "fifo", "text");
  CHECK(reader.read() == "text");
  write_text(d / "link", "more");
  CHECK(reader.read() == "more");
  CHECK(fs::is_fifo(d / "fifo"));
  CHECK(fs::is_symlink(d / "link"));
  CHECK(test::entries(d.path()) == 2);
}

TEST_CASE("a FIFO is no input: it is refused by name, and nothing waits for a writer") {
  const test::TemporaryDirectory d;
  REQUIRE(::mkfifo((d / "fifo").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(read_file(d / "fifo"), doctest::Contains("fifo: found a FIFO, wanted a regular file"), Error);
  CHECK_THROWS_WITH_AS(read_file("/dev/null"), "/dev/null: found a character device, wanted a regular file", Error);
}

TEST_CASE("of a link the file is written that it leads to, there or not") {
  const test::TemporaryDirectory d;
  fs::create_directory(d / "folder");
  write_text(d / "folder" / "file", "before");
  fs::create_symlink("folder/file", d / "relative");
  fs::create_symlink(d / "relative", d / "absolute");
  fs::create_symlink("folder/new", d / "dangling");
  write_text(d / "absolute", "after");
  write_text(d / "dangling", "new");
  CHECK(test::contents(d / "folder" / "file") == "after");
  CHECK(test::contents(d / "folder" / "new") == "new");
  for (const char* link : {"relative", "absolute", "dangling"}) CHECK(fs::is_symlink(d / link));
  CHECK(test::entries(d.path()) == 4);
  CHECK(test::entries(d / "folder") == 2);
  // A link to the folder: the file lies in it all the same.
  fs::create_directory_symlink("folder", d / "way");
  write_text(d / "way" / "file", "again");
  CHECK(test::contents(d / "folder" / "file") == "again");
}

TEST_CASE("a device that a link leads to is written to, and both stay") {
  const test::TemporaryDirectory d;
  fs::create_symlink("/dev/null", d / "null");
  const OutputFile to = destination(d / "null");
  REQUIRE(to.written_through);  // else the device itself would be at stake
  CHECK(to.path == "/dev/null");
  write_text(d / "null", "text");
  CHECK(fs::is_symlink(d / "null"));
  CHECK(fs::is_character_file("/dev/null"));
  fs::create_symlink("/dev/full", d / "full");
  CHECK_THROWS_WITH_AS(write_text(d / "full", "text"), doctest::Contains("No space left on device"), Error);
}

TEST_CASE("what the process has open is written to by its number, from where it has got on") {
  const test::TemporaryDirectory d;
  write_text(d / "file", "0123456789");
  const int file = ::open((d / "file").c_str(), O_WRONLY | O_CLOEXEC);
  fs::create_symlink("/dev/fd/" + std::to_string(file), d / "link");
  CHECK(::write(file, "a", 1) == 1);
  write_text("/dev/fd/" + std::to_string(file), "bc");
  write_text(d / "link", "d");
  CHECK(::write(file, "e", 1) == 1);  // still the same file, and behind what was written
  ::close(file);
  CHECK(test::contents(d / "file") == "abcde56789");
  CHECK(test::entries(d.path()) == 2);
  const int reading = ::open((d / "file").c_str(), O_RDONLY | O_CLOEXEC);
  CHECK_THROWS_AS(write_text("/dev/fd/" + std::to_string(reading), "x"), Error);
  ::close(reading);
}

TEST_CASE("no place to write to: folders, sockets and circles are refused by name, before anything is written") {
  const test::TemporaryDirectory d;
  fs::create_directory(d / "folder");
  fs::create_symlink("a", d / "b");
  fs::create_symlink("b", d / "a");
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ::sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (d / "socket").string().copy(address.sun_path, sizeof(address.sun_path) - 1);
  REQUIRE(::bind(socket, reinterpret_cast<const ::sockaddr*>(&address), sizeof(address)) == 0);
  const auto refuse = [&](const char* name, const char* message) {
    bool called = false;
    CHECK_THROWS_WITH_AS(write_atomically(d / name, [&](FileSink&) { called = true; }), doctest::Contains(message),
                         Error);
    CHECK_FALSE(called);
  };
  refuse("folder", "folder: found a directory, wanted a file, a character device or a FIFO");
  refuse("socket", "socket: found a socket, wanted");
  refuse("a", "a: found a circle of links");
  CHECK(test::entries(d.path()) == 4);
  ::close(socket);
}

TEST_CASE("a file that is replaced keeps its permissions") {
  const test::TemporaryDirectory d;
  write_text(d / "file", "before");
  fs::permissions(d / "file", fs::perms::owner_read | fs::perms::owner_write);
  write_text(d / "file", "after");
  CHECK(test::contents(d / "file") == "after");
  CHECK(fs::status(d / "file").permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("a file that cannot be made is called as it was named, not as what would have been moved into its place") {
  const test::TemporaryDirectory d;
  fs::create_symlink("missing/file", d / "link");
  for (const fs::path& path : {d / "missing" / "file", d / "link", d / std::string(250, 'x')}) {
    try {
      write_text(path, "text");
      FAIL("it could be made");
    } catch (const Error& e) {
      CHECK(e.subject() == path.string());
    }
  }
}
