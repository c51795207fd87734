#pragma once
/// \file
/// One run to a folder: a lock file in it says which process trains into it, and since when. It goes when the run ends;
/// after a crash it stays, but nobody holds it, so the next run takes it over.
/// defines: RunLock

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <k3spec/core/error.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/io/file_lock.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/json.hpp>

namespace K3SPEC_NAMESPACE {

/// Keeps other processes out of a run's folder as long as it lives.
class RunLock {
 public:
  using Path = std::filesystem::path;

  /// Makes the file and the folders that it lies in.
  /// \param run  what is locked, for messages
  /// \throws Error naming the process that holds it, or the file that cannot be made
  RunLock(Path file, Path run) : path_(std::move(file)), run_(std::move(run)), owner_(::getpid()) {
    try {
      take();
    } catch (...) {
      leave();
      throw;
    }
  }
  /// Removes the file, its folder, and others that it made, where nothing else is in them.
  ~RunLock() {
    if (owner_ == ::getpid()) leave();  // else it is a child's copy
  }
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Whether another run would notice: not where the file system has no locks.
  bool guards() const { return guards_; }

  /// Takes the lock again when its file is gone, as with the whole folder. \throws Error as the constructor
  void renew() {
    if (io::stands_at(file_, path_)) return;
    release();
    take();
  }

 private:
  void leave() {
    release();
    ::rmdir(path_.parent_path().c_str());
    for (auto at = made_.rbegin(); at != made_.rend(); ++at) ::rmdir(at->c_str());
  }

  void release() {
    if (held_ && io::stands_at(file_, path_)) ::unlink(path_.c_str());  // first: nobody else may take it for theirs
    held_ = false;
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }

  void take() {
    constexpr int most_tries = 50;
    for (int tries = 0; tries < most_tries; ++tries) {
      make_folders();
      if (!open()) continue;
      const io::Locked locked = io::try_lock(file_);
      if (locked == io::Locked::elsewhere) {
        wait_for_owner(tries + 1 == most_tries);
      } else if (io::stands_at(file_, path_)) {
        held_ = true;
        guards_ = locked == io::Locked::here;
        return sign();
      }
      ::close(std::exchange(file_, -1));  // it went with a run that ended just now
    }
    throw Error(path_.string(), "a file that comes and goes", "a lock that can be taken");
  }

  void make_folders() {
    std::vector<Path> missing;
    std::error_code failed;
    for (Path at = path_.parent_path(); !at.empty() && !std::filesystem::exists(at, failed); at = at.parent_path()) {
      if (!at.has_filename()) continue;  // "a/" is "a"
      missing.push_back(at);
    }
    for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
      if (std::filesystem::create_directory(*at, failed)) made_.push_back(*at);
      if (failed) throw Error(at->string(), failed.message(), "a directory that can be created");
    }
  }

  /// \returns whether it could: the folder may have gone again with a run that ended
  bool open() {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (file_ >= 0) return check_kind();
    const std::error_code failed(errno, std::generic_category());
    if (failed == std::errc::no_such_file_or_directory) return false;
    throw Error(path_.string(), failed.message(), "a lock file that can be made, so that no two runs write one folder");
  }

  /// What somebody put there stays.
  bool check_kind() const {
    struct stat status {};
    if (::fstat(file_, &status) == 0 && S_ISREG(status.st_mode)) return true;
    throw Error(path_.string(), io::kind_of_file(status.st_mode), "a lock file, or nothing");
  }

  static std::string host() {
    char name[256] = {};
    return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "";
  }

  /// Whoever finds it locked reads this.
  void sign() const {
    const std::time_t now = std::time(nullptr);
    struct tm utc {};
    ::gmtime_r(&now, &utc);
    char since[32] = {};
    std::strftime(since, sizeof(since), "%Y-%m-%d %H:%M:%S UTC", &utc);
    const std::string text = io::json{{"pid", ::getpid()}, {"host", host()}, {"since", since}}.dump() + "\n";
    const bool written = ::pwrite(file_, text.data(), text.size(), 0) == static_cast<::ssize_t>(text.size()) &&
                         ::ftruncate(file_, static_cast<::off_t>(text.size())) == 0;
    if (!written) throw Error(path_.string(), io::last_system_error(), "a lock file that can be written");
  }

  /// \throws Error when the holder is known, or will not be
  void wait_for_owner(bool last) const {
    std::string who = "another process";
    bool known = false;
    try {
      const io::json j = io::parse_json(io::read_file(path_), path_.string());
      const auto pid = j.at("pid").get<std::int64_t>();
      const auto on = j.at("host").get<std::string>();
      who =
          fmt::format("process {}{}, since {}", pid, on == host() ? "" : " on " + on, j.at("since").get<std::string>());
      // The file may still say who held it before.
      known = on != host() || ::kill(static_cast<::pid_t>(pid), 0) == 0 || errno == EPERM;
    } catch (const std::exception&) {  // it is being written
    }
    if (known || last) {
      throw Error(run_.string(), "a run that is at work in it: " + who, "a folder that no other run writes to");
    }
    ::usleep(10'000);  // microseconds
  }

  Path path_, run_;
  std::vector<Path> made_;
  ::pid_t owner_;
  int file_ = -1;
  bool held_ = false, guards_ = false;
};

}  // namespace K3SPEC_NAMESPACE
