#pragma once
/// \file
/// What a user should know of the files that a program reads, said before it computes anything.
/// defines: say_notes, found_draft

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <k3spec/io/draft_folder.hpp>

#include "program.hpp"

namespace k3spec::examples {

/// Each once, whoever comes upon it again.
inline void say_notes(const std::vector<std::string>& notes) {
  static std::set<std::string> said;
  for (const std::string& note : notes) {
    if (said.insert(note).second) say("note: " + note);
  }
}

/// The draft's folder that is meant by a path, which may be a run's.
inline std::filesystem::path found_draft(const std::filesystem::path& path) {
  const DraftFolder found = draft_folder(path);
  if (!found.note.empty()) say_notes({found.note});
  return found.path;
}

}  // namespace k3spec::examples
