#pragma once
/// \file
/// A file's bytes, mapped into memory read-only: opening costs nothing, pages come when touched.
/// defines: io::MappedFile

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <k3spec/core/error.hpp>

namespace k3spec::io {

/// What the last failed system call said.
inline std::string last_system_error() { return std::generic_category().message(errno); }

class MappedFile {
 public:
  MappedFile() = default;

  /// \throws Error when `path` cannot be read or is no regular file
  explicit MappedFile(const std::filesystem::path& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw Error(path.string(), last_system_error(), "a readable file");
    try {
      map(file, path);
    } catch (...) {
      ::close(file);
      throw;
    }
    ::close(file);
  }

  ~MappedFile() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  /// Valid as long as this object, wherever it is moved.
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void map(int file, const std::filesystem::path& path) {
    struct stat status {};
    if (::fstat(file, &status) != 0) throw Error(path.string(), last_system_error(), "a readable file");
    if (!S_ISREG(status.st_mode)) throw Error(path.string(), "a directory or device", "a regular file");
    size_ = static_cast<std::size_t>(status.st_size);
    if (size_ == 0) return;  // an empty mapping is an error to mmap
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED) throw Error(path.string(), last_system_error(), "a file that can be mapped");
    data_ = mapped;
  }

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace k3spec::io
