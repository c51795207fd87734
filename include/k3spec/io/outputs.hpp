#pragma once
/// \file
/// What a program is told to write, held against what it reads and what is there already: a slip on a command line must
/// not cost anybody a file. To be asked before anything is loaded or written.
/// defines: io::NamedPath, io::whole_path, io::refuse_inputs, io::refuse_other_files

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <k3spec/core/error.hpp>
#include <k3spec/io/destination.hpp>

namespace K3SPEC_NAMESPACE::io {

/// A file or a folder, and the option that names it.
struct NamedPath {
  std::string name;  ///< "--log"
  std::filesystem::path path;
  bool alone = false;  ///< of an input: a file that names no others, which a checkpoint's index does
};

namespace detail {

/// Which file it is, by whatever name, with links followed; none when there is none.
inline std::optional<struct stat> status_of(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? std::optional(status) : std::nullopt;
}

inline bool is_same(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

/// An input, and the files in it if it is a folder, or a checkpoint's index, beside which its shards lie.
inline std::vector<std::filesystem::path> files_of(const NamedPath& input) {
  std::vector<std::filesystem::path> all{input.path};
  if (input.alone) return all;
  const bool index = input.path.extension() == ".json";
  std::error_code failed;
  std::filesystem::directory_iterator at(index ? input.path.parent_path() / "." : input.path, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) all.push_back(at->path());
  return all;
}

}  // namespace detail

/// From the root on, with links followed as far as there is something.
inline std::filesystem::path whole_path(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
}

/// Refuses to write over what is read.
/// \throws Error when `output`, a file or a folder, is one of the inputs or lies in one, by this name or another
inline void refuse_inputs(const NamedPath& output, const std::vector<NamedPath>& inputs) {
  const auto found = detail::status_of(output.path);
  if (!found || S_ISCHR(found->st_mode) || S_ISFIFO(found->st_mode)) return;
  for (const NamedPath& input : inputs) {
    for (const auto& file : detail::files_of(input)) {
      const auto read = detail::status_of(file);
      if (!read || !detail::is_same(*found, *read)) continue;
      const std::string which = file == input.path ? input.name : file.string() + " of " + input.name;
      throw Error(output.name, output.path.string() + ", which is also " + which, "another one than what is read");
    }
  }
}

/// Refuses to write over a file that is not of this kind.
/// \param is_own  (path): whether a program of this kind wrote what is there
/// \param own     what that is, for the message: "a picture of this program's"
/// \throws Error as refuse_inputs and destination, and when there is a file already that may not be written, or is
///         neither empty nor of this kind
template <class F>
void refuse_other_files(const NamedPath& output, const std::vector<NamedPath>& inputs, std::string_view own,
                        F&& is_own) {
  refuse_inputs(output, inputs);
  const OutputFile to = destination(output.path);
  if (to.written_through || !to.mode) return;
  if (::access(to.path.c_str(), W_OK) != 0)
    throw Error(output.path.string(), last_system_error(), "a file to write to");
  const auto status = detail::status_of(to.path);
  if (!status || status->st_size == 0 || is_own(to.path)) return;
  throw Error(output.name, output.path.string() + ", a file that is not " + std::string(own),
              "a new file, or " + std::string(own) + " to write over");
}

}  // namespace K3SPEC_NAMESPACE::io
