// Two runs and one folder.
#include <k3spec/io/run_lock.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <k3spec/io/checkpoint_directory.hpp>

#include "tests/support/temporary.hpp"

using namespace k3spec;
namespace fs = std::filesystem;

namespace {

bool has_locks = true;

/// Another process, which ends when its work does, or is killed.
class Process {
 public:
  /// \param work  gets what says that it is under way, and waits for `let_go`; an Error from it is said, too
  explicit Process(const std::function<void(const std::function<void()>&)>& work) {
    int said[2], asked[2];
    REQUIRE(::pipe2(said, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(asked, O_CLOEXEC) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      int status = 0;
      try {
        work([&] {
          char x = 0;
          if (::write(said[1], "+", 1) == 1) (void)!::read(asked[0], &x, 1);
        });
      } catch (const Error&) {
        status = ::write(said[1], "-", 1) == 1 ? 1 : 2;
      }
      ::_exit(status);
    }
    ::close(said[1]);
    ::close(asked[0]);
    reader_ = said[0];
    writer_ = asked[1];
  }
  ~Process() {
    ::close(reader_);
    ::close(writer_);
    if (!ended_) kill();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// \returns whether it is under way, and not refused
  bool await() const {
    char x = 0;
    REQUIRE(::read(reader_, &x, 1) == 1);
    return x == '+';
  }
  void let_go() const { REQUIRE(::write(writer_, "x", 1) == 1); }
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
  int reader_ = -1, writer_ = -1;
  bool ended_ = false;
};

}  // namespace

/// Takes the place of the system's, so that a file system may have no locks.
extern "C" int flock(int file, int how) {
  if (has_locks) return static_cast<int>(::syscall(SYS_flock, file, how));
  errno = ENOLCK;
  return -1;
}

TEST_CASE("a folder in which a run is at work is refused with its process; one that was killed is in nobody's way") {
  const test::TemporaryDirectory at;
  const fs::path out = at / "out";
  const auto hold = [&](const auto& ready) {
    CheckpointDirectory here(out);
    here.prepare();
    ready();
  };
  for (const int round : {0, 1}) {  // also over a lock file that a killed run left
    CAPTURE(round);
    Process other(hold);
    CHECK(other.await());
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
  });
  CHECK(other.await());
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
      here.prepare();
      ready();
    };
    Process a(start), b(start);
    const bool first = a.await(), second = b.await();
    CHECK(first != second);
    (first ? a : b).let_go();
    CHECK(a.status() + b.status() == 1);
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

TEST_CASE("where the file system has no locks a run goes on, unguarded") {
  const test::TemporaryDirectory at;
  has_locks = false;
  {
    CheckpointDirectory here(at / "out");
    CHECK_FALSE(here.guarded());
    here.prepare();
    CHECK_FALSE(here.guarded());
  }
  has_locks = true;
  CHECK(test::entries(at.path()) == 0);
}

TEST_CASE("what is no regular file is no lock, and stays as it is") {
  const test::TemporaryDirectory d;
  fs::create_directories(d / "run");
  REQUIRE(::mkfifo((d / "run" / "lock").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(RunLock(d / "run" / "lock", d / "run"), doctest::Contains("lock: found a FIFO, wanted"), Error);
  CHECK(fs::is_fifo(d / "run" / "lock"));
  fs::remove(d / "run" / "lock");
  fs::create_directory(d / "run" / "lock");
  CHECK_THROWS_WITH_AS(RunLock(d / "run" / "lock", d / "run"), doctest::Contains("lock: found "), Error);
  CHECK(fs::is_directory(d / "run" / "lock"));
}
