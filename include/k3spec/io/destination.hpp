#pragma once
/// \file
/// Where output goes when a name is given that may be a link, a device or a pipe.
/// defines: io::Destination, io::destination

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>

#include <sys/stat.h>

#include <k3spec/core/error.hpp>
#include <k3spec/io/input_file.hpp>

namespace k3spec::io {

struct Destination {
  std::filesystem::path path;  ///< with links followed
  /// A device, a FIFO or what the process has open already: written to as it stands, never replaced.
  bool written_through = false;
  /// Permissions of the regular file that stands there.
  std::optional<::mode_t> mode = {};
};

namespace detail {

/// Whether a link is one of the kernel's, for a file that is open: /dev/stdout leads to one.
inline bool is_open_file_link(const std::filesystem::path& link) {
  std::error_code ignored;
  const auto folder = std::filesystem::canonical(link.has_parent_path() ? link.parent_path() : ".", ignored).string();
  return folder.rfind("/proc/", 0) == 0;
}

/// \param status  of the file itself, not of a link
inline Destination known_destination(const std::filesystem::path& name, const std::filesystem::path& at,
                                     const struct stat& status, bool open_already) {
  if (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode)) return {at, true};
  if (S_ISREG(status.st_mode)) return {at, open_already, status.st_mode & 07777U};
  throw Error(name.string(), kind_of_file(status.st_mode), "a file, a character device or a FIFO to write to");
}

}  // namespace detail

/// Follows the links of a name, to one that need not be there.
/// \throws Error when the name is that of a directory, a block device or a socket, when links lead in a circle, and
/// when
///         it cannot be looked at
inline Destination destination(const std::filesystem::path& name) {
  constexpr int most_links = 40;  // as the kernel
  std::filesystem::path at = name;
  for (int links = 0; links <= most_links; ++links) {
    struct stat status {};
    if (::lstat(at.c_str(), &status) != 0) {
      if (errno == ENOENT) return {at};
      throw Error(name.string(), last_system_error(), "a place to write to");
    }
    if (!S_ISLNK(status.st_mode)) return detail::known_destination(name, at, status, false);
    if (detail::is_open_file_link(at)) {
      if (::stat(at.c_str(), &status) != 0) throw Error(name.string(), last_system_error(), "a place to write to");
      return detail::known_destination(name, at, status, true);
    }
    std::error_code failed;
    const auto target = std::filesystem::read_symlink(at, failed);
    if (failed) throw Error(name.string(), failed.message(), "a link that can be followed");
    at = at.parent_path() / target;  // an absolute target stands for itself
  }
  throw Error(name.string(), "a circle of links", "a place to write to");
}

}  // namespace k3spec::io
