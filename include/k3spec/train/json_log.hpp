#pragma once
/// \file
/// A log of one JSON object a line, readable while it grows.
/// defines: JsonLog

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <k3spec/core/extents.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/json.hpp>

namespace k3spec {

class JsonLog {
 public:
  using Record = nlohmann::ordered_json;

  /// Starts a new log, or goes on with one: then lines of steps that are yet to come, from a run that got further
  /// than the checkpoint it is resumed from, are taken out, and so is a last line that was cut off.
  /// \param done  steps made so far, the "step" of the last line that stays; 0 starts anew
  /// \throws Error when the file cannot be written, when there is one that cannot be read, or a line before the last
  ///         is no JSON object; what stood there stays
  JsonLog(const std::filesystem::path& path, index_t done) : path_(path.string()) {
    std::string kept;
    if (done > 0 && is_there(path)) kept = lines_until(path, done);
    io::write_text(path, kept);
    file_.open(path, std::ios::app | std::ios::binary);
    check();
  }

  /// Numbers that are not finite become null.
  void write(const Record& record) {
    file_ << record.dump(-1, ' ', false, Record::error_handler_t::replace) << '\n' << std::flush;
    check();
  }

 private:
  void check() const {
    if (!file_) throw Error(path_, io::last_system_error(), "a log that can be written");
  }

  static bool is_there(const std::filesystem::path& path) {
    std::error_code failed;
    const bool there = std::filesystem::exists(path, failed);
    if (failed) throw Error(path.string(), failed.message(), "a log that can be read");
    return there;
  }

  static std::string lines_until(const std::filesystem::path& path, index_t done) {
    std::ifstream in(path, std::ios::binary);
    std::string kept, line;
    for (int number = 1; std::getline(in, line); ++number) {
      if (in.eof()) break;  // no newline: the line was cut off
      const std::string subject = path.string() + ": line " + std::to_string(number);
      const io::json record = io::parse_json(line, subject);
      if (!record.is_object()) throw Error(subject, record.type_name(), "a JSON object");
      const auto step = record.find("step");
      if (step != record.end() && step->is_number_integer() && step->get<index_t>() > done) continue;
      kept += line + '\n';
    }
    if (!in.eof()) throw Error(path.string(), io::last_system_error(), "a log that can be read");
    return kept;
  }

  std::string path_;
  std::ofstream file_;
};

}  // namespace k3spec
