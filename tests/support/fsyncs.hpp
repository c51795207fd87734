#pragma once
/// \file
/// Takes the place of fsync in a test executable: weak, so that several source files may include it. What is to be
/// synced is told to a test, which may let it fail; nothing reaches a disk.
/// defines: test::fsyncs, ::fsync

#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>

namespace k3spec::test {

/// Called with the path of each file or directory to be synced. \returns whether that works; none: it does
inline std::function<bool(const std::filesystem::path&)> fsyncs;

}  // namespace k3spec::test

extern "C" __attribute__((weak)) int fsync(int file) {
  if (!k3spec::test::fsyncs) return 0;
  if (k3spec::test::fsyncs(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file)))) return 0;
  errno = EIO;
  return -1;
}
