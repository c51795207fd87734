// Two runs and one folder.
#include <k3spec/train/run_lock.hpp>

#include <doctest/doctest.h>

#include <array>
#include <csignal>
#include <functional>
#include <string>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <k3spec/train/checkpoint_directory.hpp>

#include "tests/support/temporary.hpp"

using namespace k3spec;
namespace fs = std::filesystem;

namespace {

/// Another process, which ends when its work does, or is killed.
class Process {
 public:
  /// \param work  gets what says that it is under way
  explicit Process(const std::function<void(const std::function<void()>&)>& work) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      int status = 0;
      try {
        work([&] { (void)!::write(ends[1], "x", 1); });
      } catch (const Error&) {
        status = 1;
      }
      ::_exit(status);
    }
    ::close(ends[1]);
    reader_ = ends[0];
  }
  ~Process() {
    ::close(reader_);
    if (!ended_) kill();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void await() const {
    char x = 0;
    REQUIRE(::read(reader_, &x, 1) == 1);
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    (void)status();
  }
  int status() {
    int found = 0;
    ::waitpid(pid_, &found, 0);
    ended_ = true;
    return WIFEXITED(found) ? WEXITSTATUS(found) : -1;
  }
  std::string name() const { return "process " + std::to_string(pid_); }

 private:
  ::pid_t pid_ = 0;
  int reader_ = -1;
  bool ended_ = false;
};

}  // namespace

TEST_CASE("a folder in which a run is at work is refused with its process; one that was killed is in nobody's way") {
  const test::TemporaryDirectory at;
  const fs::path out = at / "out";
  const auto hold = [&](const auto& ready) {
    CheckpointDirectory here(out);
    here.prepare();
    ready();
    while (true) ::pause();
  };
  for (const int round : {0, 1}) {  // also over a lock file that a killed run left
    CAPTURE(round);
    Process other(hold);
    other.await();
    CheckpointDirectory here(out);
    const std::string message = out.string() + ": found a run that is at work in it: " + other.name() + ", since 20";
    CHECK_THROWS_WITH_AS(here.prepare(), doctest::Contains(message.c_str()), Error);
    CHECK(here.latest() == std::nullopt);  // reading asks nobody
    CHECK(CheckpointDirectory::resolve(out) == out);
    other.kill();
    CHECK(fs::exists(out / ".k3spec" / "lock"));
  }
  {
    CheckpointDirectory here(out);
    here.prepare();
    CHECK(here.guarded());
  }
  CHECK(fs::is_empty(out));
}

TEST_CASE("programs that a run has started do not hold its lock") {
  const test::TemporaryDirectory at;
  Process other([&](const auto& ready) {
    CheckpointDirectory here(at / "out");
    here.prepare();
    if (::fork() == 0) ::execlp("sleep", "sleep", "2", nullptr);
    ::usleep(50000);  // it is at it
    ready();
    while (true) ::pause();
  });
  other.await();
  CheckpointDirectory here(at / "out");
  CHECK_THROWS_AS(here.prepare(), Error);
  other.kill();
  CHECK_NOTHROW(here.prepare());
}

TEST_CASE("of two that start at once one gets the folder") {
  const test::TemporaryDirectory at;
  for (int round = 0; round < 25; ++round) {
    CAPTURE(round);
    const fs::path out = at / std::to_string(round / 5) / "out";  // new, and with what the last left
    const auto start = [&](const auto& ready) {
      CheckpointDirectory here(out);
      ready();
      here.prepare();
      ::usleep(30000);
    };
    Process a(start), b(start);
    CHECK(a.status() + b.status() == 1);
    CHECK(at.path() / std::to_string(round / 5) == out.parent_path());
    CHECK_FALSE(fs::exists(out / ".k3spec"));
  }
}

TEST_CASE("a lock file that cannot be made is named, and nothing is left") {
  const test::TemporaryDirectory at;
  test::write(at / "file", "");
  const auto refuse = [](const fs::path& out, const char* message) {
    CHECK_THROWS_WITH_AS(CheckpointDirectory(out).prepare(), doctest::Contains(message), Error);
  };
  refuse(at / "file", "file/.k3spec: found Not a directory, wanted a directory that can be created");
  fs::create_directories(at / "taken" / ".k3spec" / "lock");
  refuse(at / "taken", ".k3spec/lock: found Is a directory, wanted a lock file that can be made");
  fs::create_directories(at / "linked" / ".k3spec");
  fs::create_symlink(at / "file", at / "linked" / ".k3spec" / "lock");
  refuse(at / "linked", ".k3spec/lock: found Too many levels of symbolic links");
  fs::create_directories(at / "closed");
  fs::permissions(at.path(), fs::perms::all);
  fs::permissions(at / "closed", fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read);
  const bool root = ::geteuid() == 0;  // who may write anything
  if (root) REQUIRE(::seteuid(65534) == 0);
  refuse(at / "closed" / "out", "closed/out: found Permission denied");
  refuse(at / "closed", "closed/.k3spec: found Permission denied");
  if (root) REQUIRE(::seteuid(0) == 0);
  CHECK(fs::is_empty(at / "closed"));
  refuse("/proc/none", "/proc/none: found No such file or directory, wanted a directory that can be created");
}

TEST_CASE("a lock whose file went is taken again, but not from another") {
  const test::TemporaryDirectory at;
  const fs::path file = at / "a" / "b" / "lock";
  RunLock lock(file, at.path());
  lock.renew();
  fs::remove_all(at / "a");
  lock.renew();
  CHECK(fs::exists(file));
  fs::remove_all(at / "a");
  {
    RunLock other(file, at.path());
    CHECK_THROWS_AS(lock.renew(), Error);
    CHECK(fs::exists(file));
  }
  CHECK_NOTHROW(lock.renew());
}
