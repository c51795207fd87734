#include <k3spec/io/json_log.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <unistd.h>

#include "tests/support/temporary.hpp"

using namespace k3spec;

namespace {
struct Log : test::TemporaryDirectory {
  std::filesystem::path file = *this / "log.jsonl";
  /// Steps done + 1 to `to`.
  void steps(index_t done, index_t to) const {
    JsonLog log(file, done);
    for (index_t i = done + 1; i <= to; ++i) log.write({{"step", i}, {"run", done}});
  }
};
}  // namespace

TEST_CASE("one object a line, at once, and null for what is not finite") {
  const Log log;
  JsonLog out(log.file, 0);
  out.write({{"step", 0}, {"loss", std::nan("")}, {"norm", std::numeric_limits<double>::infinity()}, {"lr", 0.5}});
  CHECK(test::contents(log.file) == "{\"step\":0,\"loss\":null,\"norm\":null,\"lr\":0.5}\n");
  out.write({{"step", 1}, {"text", "a\nb\xff"}});
  CHECK(test::contents(log.file).find("{\"step\":1,\"text\":\"a\\nb\xEF\xBF\xBD\"}\n") != std::string::npos);
}

TEST_CASE("a resumed run has every step once") {
  const Log log;
  log.steps(0, 5);
  log.steps(3, 6);
  CHECK(test::contents(log.file) ==
        "{\"step\":1,\"run\":0}\n{\"step\":2,\"run\":0}\n{\"step\":3,\"run\":0}\n"
        "{\"step\":4,\"run\":3}\n{\"step\":5,\"run\":3}\n{\"step\":6,\"run\":3}\n");
  log.steps(0, 1);
  CHECK(test::contents(log.file) == "{\"step\":1,\"run\":0}\n");
  test::write(log.file, "{\"step\":1}\n{\"step\":18446744073709551615}\n");
  JsonLog(log.file, 1);
  CHECK(test::contents(log.file) == "{\"step\":1}\n");
}

TEST_CASE("a line cut off is dropped; one broken in the middle is an error, and the log is left alone") {
  const Log log;
  log.steps(0, 2);
  const std::string whole = test::contents(log.file);
  test::write(log.file, whole + "{\"step\":2,\"ru");
  log.steps(2, 2);
  CHECK(test::contents(log.file) == whole);
  test::write(log.file, "{\"step\":\n" + whole);
  CHECK_THROWS_WITH_AS(log.steps(2, 3), doctest::Contains("log.jsonl: line 1"), Error);
  CHECK(test::contents(log.file) == "{\"step\":\n" + whole);
  test::write(log.file, "3\n");
  CHECK_THROWS_WITH_AS(log.steps(2, 3), doctest::Contains("line 1: found no record of a training step"), Error);
  test::write(log.file, whole + "3\n" + whole);
  CHECK_THROWS_WITH_AS(log.steps(2, 3), doctest::Contains("line 3: found number, wanted a JSON object"), Error);
}

TEST_CASE("a file that is no log of this kind is not written over, nor gone on with") {
  const Log log;
  const auto is_own = [](const io::json& record) { return record.contains("loss"); };
  const auto own = R"({"step":1,"loss":2})"
                   "\n";
  const auto refuse = [&](const std::string& text, bool also_resumed) {
    CAPTURE(text);
    test::write(log.file, text);
    CHECK_THROWS_AS(JsonLog::check(log.file, true, is_own), Error);
    CHECK_THROWS_AS(JsonLog(log.file, 0, is_own), Error);
    if (also_resumed) {
      CHECK_THROWS_AS(JsonLog::check(log.file, false, is_own), Error);
      CHECK_THROWS_AS(JsonLog(log.file, 3, is_own), Error);
    }
    CHECK(test::contents(log.file) == text);
  };
  for (const char* text : {"Some text of mine.\n", "notes without an end", "\n", "[1]\n", "{\"text\":1}\n",
                           "{\"step\":1}\n", "{\"step\":1}", "{\"step\":1,\"text\":2} ", "{} notes", "{\n"}) {
    refuse(text, true);
  }
  refuse(std::string(1000000, 'x'), true);
  refuse(own + std::string("{\"text\":1}\n"), false);
  refuse(own + std::string("notes"), true);
  refuse(own + std::string(R"({"step":2,"text":3})"), true);
  test::write(log.file, own + std::string(R"({"step":7})") + "\n");  // it would be taken out
  CHECK_THROWS_WITH_AS(JsonLog(log.file, 3, is_own), doctest::Contains("line 2: found no record"), Error);
  for (const std::string& text : {std::string(), own + std::string(R"({"step":2,"l)"), own + std::string("{"),
                                  std::string(R"({"st)"), own + std::string(R"({"step":2,"loss":3})")}) {
    test::write(log.file, text);
    JsonLog::check(log.file, true, is_own);
    CHECK(test::contents(log.file) == text);
    JsonLog(log.file, 0, is_own);
    CHECK(test::contents(log.file).empty());
  }
  CHECK_NOTHROW(JsonLog::check(log / "new", true, is_own));
  CHECK_FALSE(std::filesystem::exists(log / "new"));
}

TEST_CASE("two runs do not log to one file") {
  const Log log;
  for (const index_t done : {0, 3, 0}) {
    JsonLog first(log.file, done);
    CHECK_THROWS_WITH_AS(JsonLog(log.file, 0), doctest::Contains("found a file that another process logs to"), Error);
    CHECK_THROWS_AS(JsonLog::check(log.file, true), Error);
    first.write({{"step", 4}});
    CHECK(test::contents(log.file).find("{\"step\":4}\n") != std::string::npos);
  }
}

TEST_CASE("the other name of a log keeps what it has, and so does a log that somebody put in another order") {
  const Log log;
  log.steps(0, 3);
  const std::string whole = test::contents(log.file);
  std::filesystem::create_hard_link(log.file, log / "kept");
  JsonLog first(log.file, 1);
  CHECK(test::contents(log / "kept") == whole);
  CHECK(test::contents(log.file) == "{\"step\":1,\"run\":0}\n");
  CHECK_THROWS_AS(JsonLog(log.file, 1), Error);  // what replaced it is locked, too
  test::write(log / "mixed", "{\"step\":1}\n{\"step\":3}\n{\"step\":2}\n");
  JsonLog(log / "mixed", 2);
  CHECK(test::contents(log / "mixed") == "{\"step\":1}\n{\"step\":2}\n");
  CHECK(test::entries(log.path()) == 3);
}

TEST_CASE("a log that is not there yet is begun, and one that cannot be is an error") {
  const Log log;
  log.steps(7, 8);
  CHECK(test::contents(log.file) == "{\"step\":8,\"run\":7}\n");
  CHECK_THROWS_AS(JsonLog(log / "no" / "log", 0), Error);
}

TEST_CASE("a log that cannot be read is an error, and stays") {
  const Log log;
  std::filesystem::create_symlink("/proc/self/mem", log.file);  // opens, but has nothing at its beginning
  CHECK_THROWS_WITH_AS(JsonLog(log.file, 2), doctest::Contains("wanted a file that can be read"), Error);
  CHECK(std::filesystem::is_symlink(log.file));
}

TEST_CASE("a log that may not be written is an error, and is not emptied") {
  const Log log;
  test::write(log.file, "what stood there");
  std::filesystem::permissions(log.path(), std::filesystem::perms::all);
  std::filesystem::permissions(log.file, std::filesystem::perms::owner_read | std::filesystem::perms::others_read);
  const bool root = ::geteuid() == 0;  // who may write anything
  if (root) REQUIRE(::seteuid(65534) == 0);
  CHECK_THROWS_WITH_AS(JsonLog(log.file, 0), doctest::Contains("Permission denied"), Error);
  if (root) REQUIRE(::seteuid(0) == 0);
  CHECK(test::contents(log.file) == "what stood there");
}

TEST_CASE("a log goes where a link leads; a device and a FIFO get its lines and stay") {
  const Log log;
  std::filesystem::create_symlink("target", log.file);
  log.steps(0, 2);
  log.steps(1, 2);
  CHECK(std::filesystem::is_symlink(log.file));
  CHECK(test::contents(log / "target") == "{\"step\":1,\"run\":0}\n{\"step\":2,\"run\":1}\n");

  std::filesystem::create_symlink("/dev/null", log / "null");
  JsonLog(log / "null", 3).write({{"step", 4}});
  CHECK(std::filesystem::is_symlink(log / "null"));
  CHECK(std::filesystem::is_character_file("/dev/null"));

  REQUIRE(::mkfifo((log / "fifo").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(JsonLog(log / "fifo", 0), doctest::Contains("or a FIFO that is read"), Error);
  CHECK_NOTHROW(JsonLog::check(log / "fifo", true));  // its reader would take that for its end
  const int reader = ::open((log / "fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  JsonLog to_reader(log / "fifo", 3);  // what it was given before cannot be read back
  to_reader.write({{"step", 4}});
  to_reader.write({{"step", 5}});
  char read[100];
  const auto got = ::read(reader, read, sizeof(read));
  ::close(reader);
  CHECK(std::string(read, static_cast<std::size_t>(got)) == "{\"step\":4}\n{\"step\":5}\n");
  CHECK(std::filesystem::is_fifo(log / "fifo"));
}
