#pragma once
/// \file
/// A log of one JSON object a line, readable while it grows.
/// defines: JsonLog

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <k3spec/core/extents.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/json.hpp>

namespace K3SPEC_NAMESPACE {

class JsonLog {
 public:
  using Record = nlohmann::ordered_json;

  /// Starts a new log, or goes on with one: then lines of steps that are yet to come, from a run that got further
  /// than the checkpoint it is resumed from, are taken out, and so is a last line that was cut off.
  /// \param done  steps made so far, the "step" of the last line that stays; 0 starts anew
  /// A device or a FIFO only gets the new lines.
  /// \throws Error when the file cannot be written, when there is one that cannot be read, or a line before the last
  ///         is no JSON object; what stood there stays
  JsonLog(const std::filesystem::path& path, index_t done) : file_(begin(io::destination(path), done)) {}

  /// Numbers that are not finite become null.
  void write(const Record& record) {
    const std::string line = record.dump(-1, ' ', false, Record::error_handler_t::replace) + '\n';
    file_.write(line.data(), line.size());
  }

 private:
  static io::FileSink begin(const io::Destination& to, index_t done) {
    if (!to.written_through) {
      if (to.mode) io::FileSink::append_to(to);              // what may not be written is not emptied either
      const bool goes_on = done > 0 && to.mode.has_value();  // of what is not there, there is no mode
      io::write_text(to.path, goes_on ? lines_until(to.path, done) : std::string());
    }
    return io::FileSink::append_to(to);
  }

  static std::string lines_until(const std::filesystem::path& path, index_t done) {
    const std::string text = io::read_file(path);
    std::string kept;
    std::size_t begin = 0, end = 0;
    for (int number = 1; (end = text.find('\n', begin)) != std::string::npos; ++number) {  // without one: cut off
      const std::string_view line = std::string_view(text).substr(begin, end + 1 - begin);
      begin = end + 1;
      const std::string subject = path.string() + ": line " + std::to_string(number);
      const io::json record = io::parse_json(line, subject);
      if (!record.is_object()) throw Error(subject, record.type_name(), "a JSON object");
      const auto step = record.find("step");
      if (step != record.end() && step->is_number_unsigned() &&
          step->get<std::uint64_t>() > static_cast<std::uint64_t>(done)) {
        continue;
      }
      kept += line;
    }
    return kept;
  }

  io::FileSink file_;
};

}  // namespace K3SPEC_NAMESPACE
