#pragma once
/// \file
/// Files that are either whole or not there: written beside their place, made durable, then moved into it. What fails
/// leaves the file that stood there before, which goes only when the move, too, is durable. (Where the file system
/// cannot exchange two files, one that cannot sync its directory leaves the new file, whole.)
///
/// A process that is killed while it writes leaves the new file beside its place, as NAME.tmpPID-N, which nobody reads
/// and everybody may remove.
///
/// Of a link, the file that it leads to is replaced. Devices and FIFOs are never replaced: what is written goes through
/// them, as it comes.
/// defines: io::FileSink, io::write_atomically, io::write_text

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <k3spec/core/error.hpp>
#include <k3spec/io/destination.hpp>
#include <k3spec/io/file_lock.hpp>

namespace K3SPEC_NAMESPACE::io {

/// A file written front to back.
class FileSink {
 public:
  /// A new or emptied file, which is no link.
  explicit FileSink(const std::filesystem::path& path) : FileSink(path, path) {}
  /// The same, under another name in messages.
  /// \param shown  what messages call it
  FileSink(const std::filesystem::path& path, const std::filesystem::path& shown)
      : FileSink(shown.string(), open(path, O_CREAT | O_TRUNC | O_NOFOLLOW), "a file that can be created") {}

  /// Goes on behind what stands there; what is written through is opened as it is, or goes on where the process has
  /// got.
  static FileSink append_to(const OutputFile& to) {
    if (!to.written_through) return FileSink(to.path, O_CREAT | O_APPEND, "a file that can be written");
    const char* wanted = "a device that can be written, or a FIFO that is read";
    if (to.number) {
      FileSink sink(to.path.string(), ::fcntl(*to.number, F_DUPFD_CLOEXEC, 0), wanted);
      sink.written_through_ = true;
      return sink;
    }
    // Without a reader, opening a FIFO would wait for one.
    FileSink sink(to.path, O_APPEND | O_NOCTTY | O_NONBLOCK, wanted);
    if (::fcntl(sink.file_, F_SETFL, O_APPEND) != 0) sink.fail(wanted);
    sink.written_through_ = true;
    return sink;
  }

  ~FileSink() {
    if (file_ >= 0) ::close(file_);
  }
  FileSink(FileSink&& other) noexcept
      : path_(std::move(other.path_)),
        file_(std::exchange(other.file_, -1)),
        written_through_(other.written_through_) {}
  FileSink& operator=(FileSink&&) = delete;

  void set_mode(::mode_t mode) const {
    if (::fchmod(file_, mode) != 0) fail("a file whose permissions can be set");
  }

  void write(const void* data, std::size_t size) {
    constexpr std::size_t most = std::size_t{1} << 30U;  // the system takes no more than 2 GB at a time
    const auto* p = static_cast<const char*>(data);
    while (size > 0) {
      const ::ssize_t written = ::write(file_, p, std::min(size, most));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("room for " + std::to_string(size) + " more bytes");
      p += written;
      size -= static_cast<std::size_t>(written);
    }
  }

  /// Takes a lock on the file, for as long as it is open.
  Locked lock() const { return try_lock(file_); }
  bool stands_at(const std::filesystem::path& path) const { return io::stands_at(file_, path); }

  /// Takes away what stands behind `size` bytes.
  void truncate(std::size_t size) const {
    if (::ftruncate(file_, static_cast<::off_t>(size)) != 0) fail("a file that can be shortened");
  }

  /// Returns when the bytes have reached the disk. What is written through need not have one.
  void close() {
    if (::fsync(file_) != 0 && !(written_through_ && errno == EINVAL)) fail("data that reaches the disk");
    const int closed = ::close(file_);
    file_ = -1;
    if (closed != 0) fail("data that reaches the disk");
  }

 private:
  FileSink(std::string path, int file, std::string_view wanted) : path_(std::move(path)), file_(file) {
    if (file_ < 0) fail(wanted);
  }
  FileSink(const std::filesystem::path& path, int flags, std::string_view wanted)
      : FileSink(path.string(), open(path, flags), wanted) {}
  static int open(const std::filesystem::path& path, int flags) {
    return ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  }
  [[noreturn]] void fail(std::string_view wanted) const { throw Error(path_, last_system_error(), wanted); }

  std::string path_;
  int file_;
  bool written_through_ = false;
};

namespace detail {

/// Makes a rename inside `directory` durable.
inline void sync_directory(const std::filesystem::path& directory) {
  const int file = ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = file >= 0 && (::fsync(file) == 0 || errno == EINVAL);  // some file systems have no such sync
  const std::string found = synced ? std::string() : last_system_error();
  if (file >= 0) ::close(file);
  if (!synced) throw Error(directory.string(), found, "a directory that reaches the disk");
}

/// Swaps two files or links. \returns false where that cannot be, nothing done
inline bool exchange(const std::filesystem::path& a, const std::filesystem::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

/// Moves `beside`, a file or a link, to `path`, durably.
/// \throws Error, with `path` as it was
inline void replace(const std::filesystem::path& beside, const std::filesystem::path& path) {
  std::error_code failed;
  const auto before = std::filesystem::symlink_status(path, failed).type();
  const bool there = before == std::filesystem::file_type::regular || before == std::filesystem::file_type::symlink;
  const bool exchanged = there && exchange(beside, path);  // what stood there now stands beside it
  if (!exchanged) {
    std::filesystem::rename(beside, path, failed);
    if (failed) throw Error(path.string(), failed.message(), "a file that can be replaced");
  }
  try {
    sync_directory(path.parent_path());
  } catch (...) {
    if (exchanged) exchange(beside, path);
    if (!there) ::unlink(path.c_str());
    throw;
  }
  if (exchanged) ::unlink(beside.c_str());
}

/// A name beside `path` that no other process or thread writes to.
inline std::filesystem::path name_beside(const std::filesystem::path& path) {
  static std::atomic<unsigned long> count{0};
  std::filesystem::path beside = path;
  beside += ".tmp" + std::to_string(::getpid()) + "-" + std::to_string(count++);
  return beside;
}

}  // namespace detail

/// Replaces `path`, or the file it is a link to, by what `fill(FileSink&)` writes. The permissions stay what they were.
/// A device or a FIFO is written through instead, and may have had a part when `fill` or the disk fails.
/// \throws Error when the disk fails, and what `fill` throws: `path` is then as it was; as destination does
template <class Fill>
void write_atomically(const std::filesystem::path& path, Fill&& fill) {
  const OutputFile to = destination(path);
  if (to.written_through) {
    FileSink sink = FileSink::append_to(to);
    fill(sink);
    return sink.close();
  }
  const std::filesystem::path beside = detail::name_beside(to.path);
  try {
    FileSink sink(beside, path);
    if (to.mode) sink.set_mode(*to.mode);
    fill(sink);
    sink.close();
    detail::replace(beside, to.path);
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
}

/// Writes a text as a file, all of it or nothing.
/// \throws Error as write_atomically
inline void write_text(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, [&](FileSink& sink) { sink.write(text.data(), text.size()); });
}

}  // namespace K3SPEC_NAMESPACE::io
