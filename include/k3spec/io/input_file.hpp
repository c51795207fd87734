#pragma once
/// \file
/// Files to read. They are read, not mapped (mapped_file.hpp): a file that somebody cuts short while it is in use is an
/// Error then, where memory mapped from it would end the program.
/// defines: io::last_system_error, io::kind_of_file, io::InputFile, io::read_file

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <k3spec/core/error.hpp>

namespace K3SPEC_NAMESPACE::io {

/// What the last failed system call said.
inline std::string last_system_error() { return std::generic_category().message(errno); }

/// "a directory"
inline std::string_view kind_of_file(::mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISLNK(mode) ? "a symbolic link" : "a file of no kind known here";
}

/// A regular file, open for reading as long as this object lives: also when its name is taken away or given to another.
class InputFile {
 public:
  /// Opens a file to read from.
  /// \throws Error when `path` cannot be read or is no regular file; it never waits for a writer
  explicit InputFile(const std::filesystem::path& path)
      : path_(path.string()), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    if (file_ < 0) throw Error(path_, last_system_error(), "a readable file");
    struct stat status {};
    const bool known = ::fstat(file_, &status) == 0;
    if (known && S_ISREG(status.st_mode)) {
      size_ = static_cast<std::uint64_t>(status.st_size);
      return;
    }
    const std::string found = known ? std::string(kind_of_file(status.st_mode)) : last_system_error();
    ::close(file_);
    throw Error(path_, found, "a regular file");
  }

  ~InputFile() {
    if (file_ >= 0) ::close(file_);
  }
  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), size_(other.size_) {}
  InputFile& operator=(InputFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(file_, other.file_);
    std::swap(size_, other.size_);
    return *this;
  }

  const std::string& path() const { return path_; }
  /// Bytes, when it was opened.
  std::uint64_t size() const { return size_; }
  /// The system's number of the open file.
  int descriptor() const { return file_; }

  /// Reads what there is.
  /// \returns how many of `size` bytes from `offset` on there are
  std::size_t read_some(std::uint64_t offset, void* out, std::size_t size) const {
    constexpr std::size_t most = std::size_t{1} << 30U;  // the system gives no more than 2 GB at a time
    std::size_t done = 0;
    while (done < size) {
      const ::ssize_t got = ::pread(file_, static_cast<char*>(out) + done, std::min(size - done, most),
                                    static_cast<::off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw Error(path_, last_system_error(), "a file that can be read");
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  /// Reads all that is asked for.
  /// \throws Error when the file ends before, having been cut since it was opened
  void read(std::uint64_t offset, void* out, std::size_t size) const {
    const std::size_t done = read_some(offset, out, size);
    if (done == size) return;
    throw Error(path_, "its end at byte " + std::to_string(offset + done),
                std::to_string(size_) + " bytes, which it had when it was opened");
  }

 private:
  std::string path_;
  int file_ = -1;
  std::uint64_t size_ = 0;
};

/// All that stands in a file.
/// \throws Error as InputFile
inline std::string read_file(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string text;
  std::size_t wanted = file.size();
  while (true) {  // it may grow meanwhile, and some files of the system do not know their size
    const std::size_t before = text.size();
    text.resize(before + wanted + 1);
    const std::size_t got = file.read_some(before, text.data() + before, wanted + 1);
    text.resize(before + got);
    if (got <= wanted) return text;
    wanted = 65535;
  }
}

}  // namespace K3SPEC_NAMESPACE::io
