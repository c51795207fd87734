#pragma once
/// \file
/// Files that are too large to be held: mapped, so that the system reads what is looked at. What is mapped from a file
/// that somebody cuts short must not be looked at any more: it would end the program. `require_whole` before each look
/// makes an Error of that, but for a cut in the moment between the two. A file whose name is given to another one stays
/// what it was.
/// defines: io::MappedFile

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>

#include <k3spec/core/error.hpp>
#include <k3spec/io/input_file.hpp>

namespace K3SPEC_NAMESPACE::io {

/// A regular file's bytes, for reading only, as long as this object lives.
class MappedFile {
 public:
  /// Maps a file.
  /// \throws Error when `path` cannot be read or mapped, or is no regular file
  explicit MappedFile(const std::filesystem::path& path) : MappedFile(InputFile(path)) {}

  ~MappedFile() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  std::string_view text() const { return {static_cast<const char*>(data_), size_}; }

  /// Refuses a file that was cut.
  /// \throws Error when the file has become shorter since it was mapped
  void require_whole() const {
    struct stat now {};
    if (::stat(path_.c_str(), &now) != 0 || now.st_dev != device_ || now.st_ino != inode_) return;
    if (static_cast<std::uint64_t>(now.st_size) >= size_) return;
    throw Error(path_, std::to_string(now.st_size) + " bytes",
                std::to_string(size_) + " bytes, which it had when it was opened");
  }

 private:
  explicit MappedFile(const InputFile& file) : path_(file.path()), size_(file.size()) {
    struct stat status {};
    if (::fstat(file.descriptor(), &status) != 0) throw Error(path_, last_system_error(), "a readable file");
    device_ = status.st_dev, inode_ = status.st_ino;
    if (size_ == 0) return;
    void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    if (mapped == MAP_FAILED) throw Error(path_, last_system_error(), "a file that can be mapped");
    data_ = mapped;
  }

  std::string path_;
  std::size_t size_;
  void* data_ = nullptr;
  ::dev_t device_ = 0;
  ::ino_t inode_ = 0;
};

}  // namespace K3SPEC_NAMESPACE::io
