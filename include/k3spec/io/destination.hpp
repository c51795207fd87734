#pragma once
/// \file
/// Where output goes when a name is given that may be a link, a device or a pipe.
/// defines: io::OutputFile, io::destination

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include <k3spec/core/error.hpp>
#include <k3spec/io/input_file.hpp>

namespace K3SPEC_NAMESPACE::io {

/// Where the bytes that are written under a name go.
struct OutputFile {
  std::filesystem::path path;  ///< with links followed
  /// A device, a FIFO or what the process has open already: written to as it stands, never replaced.
  bool written_through = false;
  /// Permissions of the regular file that stands there.
  std::optional<::mode_t> mode = {};
  /// The number under which the process has it open already.
  std::optional<int> number = {};
};

namespace detail {

/// The folder of a link, its own links followed. In /proc the kernel keeps links for files that are open: /dev/stdout
/// leads to one.
inline std::string folder_of(const std::filesystem::path& link) {
  std::error_code ignored;
  return std::filesystem::canonical(link.has_parent_path() ? link.parent_path() : ".", ignored).string();
}

/// The number of a link in this process's folder of open files.
inline std::optional<int> own_file_number(const std::filesystem::path& link, const std::string& folder) {
  if (folder != "/proc/" + std::to_string(::getpid()) + "/fd") return std::nullopt;
  const std::string name = link.filename().string();
  int number = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), number);
  return failed == std::errc() && end == name.data() + name.size() ? std::optional(number) : std::nullopt;
}

/// \param status  of the file itself, not of a link
inline OutputFile known_destination(const std::filesystem::path& name, const std::filesystem::path& at,
                                    const struct stat& status, bool open_already) {
  if (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode)) return {at, true};
  if (S_ISREG(status.st_mode)) return {at, open_already, status.st_mode & 07777U};
  throw Error(name.string(), kind_of_file(status.st_mode), "a file, a character device or a FIFO to write to");
}

}  // namespace detail

/// Follows the links of a name, to one that need not be there.
/// \throws Error when the name is that of a directory, a block device or a socket, when links lead in a circle, and
///         when it cannot be looked at
inline OutputFile destination(const std::filesystem::path& name) {
  constexpr int most_links = 40;  // as the kernel
  std::filesystem::path at = name;
  for (int links = 0; links <= most_links; ++links) {
    struct stat status {};
    if (::lstat(at.c_str(), &status) != 0) {
      if (errno == ENOENT) return {at};
      throw Error(name.string(), last_system_error(), "a place to write to");
    }
    if (!S_ISLNK(status.st_mode)) return detail::known_destination(name, at, status, false);
    if (const std::string folder = detail::folder_of(at); folder.rfind("/proc/", 0) == 0) {
      if (::stat(at.c_str(), &status) != 0) throw Error(name.string(), last_system_error(), "a place to write to");
      OutputFile open_already = detail::known_destination(name, at, status, true);
      open_already.number = detail::own_file_number(at, folder);
      return open_already;
    }
    std::error_code failed;
    const auto target = std::filesystem::read_symlink(at, failed);
    if (failed) throw Error(name.string(), failed.message(), "a link that can be followed");
    at = at.parent_path() / target;  // an absolute target stands for itself
  }
  throw Error(name.string(), "a circle of links", "a place to write to");
}

}  // namespace K3SPEC_NAMESPACE::io
