#pragma once
/// \file
/// Locks on open files, which the system frees when the process that holds one ends, however it ends. They are advice:
/// only those who ask heed them. A child process that does not execute another program shares its parent's.
/// defines: io::Locked, io::try_lock, io::stands_at

#include <cerrno>
#include <filesystem>

#include <sys/file.h>
#include <sys/stat.h>

#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE::io {

/// By whom a file is locked.
enum class Locked {
  here,       ///< by this process, until the file is closed
  elsewhere,  ///< by another one, or through another opening of the file
  never,      ///< the file system has no locks
};

/// Does not wait. \param file  open for writing, closed when another program is executed
inline Locked try_lock(int file) {
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR) return errno == EWOULDBLOCK ? Locked::elsewhere : Locked::never;
  }
  return Locked::here;
}

/// Whether the open file is what stands at `path`: it may have been replaced or removed since.
inline bool stands_at(int file, const std::filesystem::path& path) {
  struct stat opened {
  }, there{};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &there) == 0 && opened.st_dev == there.st_dev &&
         opened.st_ino == there.st_ino;
}

}  // namespace K3SPEC_NAMESPACE::io
