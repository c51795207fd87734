#pragma once
/// \file
/// The sets of text that a run is measured on: --heldout FILE, or NAME=FILE, which may be given several times. The
/// first one decides which checkpoint is the best and when a run ends early; a resumed run must have it again, but may
/// have others beside it.
/// defines: HeldoutFile, heldout_file, heldout_files, HeldoutSet, open_further

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <k3spec/batches/token_data.hpp>

#include "../common/program.hpp"

namespace k3spec::examples {

/// A set by its name in the log.
struct HeldoutFile {
  std::string name;
  std::filesystem::path path;
};

/// "code=data/code.txt", where no slash comes before the first = and nothing is there that is called so as a whole;
/// else a path, which is called as its last part. \throws UsageError when the name or the path is empty
inline HeldoutFile heldout_file(const std::string& given) {
  const auto at = given.find('=');
  std::error_code none;
  if (at == std::string::npos || given.find('/') < at || std::filesystem::exists(given, none)) {
    const std::filesystem::path path = given;
    return {(path.has_filename() ? path : path.parent_path()).filename().string(), path};
  }
  if (at == 0 || at + 1 == given.size()) throw UsageError("--heldout", shown_value(given), "NAME=FILE");
  return {given.substr(0, at), given.substr(at + 1)};
}

/// All of them, in their order.
/// \throws UsageError as heldout_file does, and on two sets of one name
inline std::vector<HeldoutFile> heldout_files(const std::vector<std::string>& given) {
  std::vector<HeldoutFile> files;
  for (const std::string& one : given) {
    files.push_back(heldout_file(one));
    for (std::size_t i = 0; i + 1 < files.size(); ++i) {
      if (files[i].name != files.back().name) continue;
      throw UsageError("--heldout", "two sets called " + shown_value(files[i].name),
                       "NAME=FILE with a name of its own");
    }
  }
  return files;
}

/// A set that is open.
struct HeldoutSet {
  std::string name;
  TokenData data;
};

/// Opens those behind the first one.
inline std::vector<HeldoutSet> open_further(const std::vector<HeldoutFile>& files, index_t vocabulary,
                                            const std::optional<DType>& bin_type) {
  std::vector<HeldoutSet> sets;
  for (std::size_t i = 1; i < files.size(); ++i) {
    sets.push_back({files[i].name, TokenData(files[i].path, vocabulary, bin_type)});
  }
  return sets;
}

}  // namespace k3spec::examples
