#pragma once
/// \file
/// Whether there is a place for what a program will write, before it does anything.
/// defines: check_output_file, check_output_folder

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <k3spec/core/error.hpp>
#include <k3spec/io/destination.hpp>
#include <k3spec/io/outputs.hpp>

namespace k3spec::examples {

namespace detail {

inline void check_folder_is_writable(const std::string& subject, const std::filesystem::path& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw Error(subject, folder.string() + ": " + io::last_system_error(), "a folder that can be written to");
}

/// Whether a folder is one of /proc, where there is no place for files.
inline bool is_made_of_processes(const std::filesystem::path& folder) {
  struct ::statfs system {};
  return ::statfs(folder.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

}  // namespace detail

/// \param flag   that names the file
/// \param owned  a folder that the program will make, if it is not there yet
/// \throws Error unless a file can be written there: a new one, or where one stands, or through a device or a FIFO
inline void check_output_file(const std::string& flag, const std::filesystem::path& path,
                              const std::filesystem::path& owned = {}) {
  const std::string subject = flag + ": " + path.string();
  const io::OutputFile to = [&] {
    try {
      return io::destination(path);
    } catch (const Error& e) {
      throw e.within(flag);
    }
  }();
  if (to.written_through) {
    if (!to.number || (::fcntl(*to.number, F_GETFL) & O_ACCMODE) != O_RDONLY) return;
    throw Error(subject, "a file that is open for reading only", "a file to write");
  }
  const std::filesystem::path folder = to.path.has_parent_path() ? to.path.parent_path() : ".";
  std::error_code failed;
  if (io::whole_path(folder).string().rfind("/proc/", 0) == 0) {  // /dev/fd/9
    throw Error(subject, "no such file, nor one that is open", "a file to write");
  }
  if (!to.path.has_filename()) throw Error(subject, "a folder", "a file to write");
  if (std::filesystem::is_directory(folder, failed)) return detail::check_folder_is_writable(subject, folder);
  if (!owned.empty() && (folder / "").lexically_normal() == (owned / "").lexically_normal()) return;
  throw Error(subject, "no folder " + folder.string(), "a file in a folder that is there");
}

/// \throws Error unless the path is that of a folder that can be written to, or one can be made there
inline void check_output_folder(const std::string& flag, const std::filesystem::path& path) {
  const std::string subject = flag + ": " + path.string();
  std::filesystem::path at = path.has_filename() ? path : path.parent_path();
  for (;; at = at.has_parent_path() ? at.parent_path() : std::filesystem::path(".")) {
    std::error_code failed;
    const auto found = std::filesystem::status(at, failed);
    if (std::filesystem::is_directory(found)) {
      if (detail::is_made_of_processes(at)) {  // which is said to be writable, but is not
        throw Error(subject, std::generic_category().message(ENOENT), "a directory that can be created");
      }
      return detail::check_folder_is_writable(subject, at);
    }
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(at, failed)) && !std::filesystem::exists(found)) {
      throw Error(subject, at.string() + ", a link that leads nowhere", "a folder, or a place for one");
    }
    if (std::filesystem::exists(found)) {
      throw Error(subject, at == path ? "a file" : at.string() + ", a file", "a folder, or a place for one");
    }
    if (found.type() != std::filesystem::file_type::not_found) {
      throw Error(subject, at.string() + ": " + failed.message(), "a folder, or a place for one");
    }
    if (at == "." || at == at.root_path()) throw Error(subject, "no folder to begin with", "a place for a folder");
  }
}

}  // namespace k3spec::examples
