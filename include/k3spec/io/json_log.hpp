#pragma once
/// \file
/// A log of one JSON object a line, readable while it grows.
/// defines: JsonLog

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <k3spec/core/extents.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/json.hpp>

namespace K3SPEC_NAMESPACE {

/// A training log of one JSON object per line.
class JsonLog {
 public:
  /// A line's names and values, which keep their order.
  class Record {
    struct Value {
      std::string text;
      template <io::detail::JsonWritable T>
      Value(const T& value) : text(io::json(value).dump(-1, io::Utf8::replace)) {}
      Value(const Record& record) : text(record.text()) {}
    };

   public:
    Record() = default;
    Record(std::initializer_list<std::pair<std::string, Value>> members) : members_(members) {}

    /// Behind the others; names that are there already are not looked for.
    void add(std::string name, Value value) { members_.emplace_back(std::move(name), std::move(value)); }
    void add(const Record& more) { members_.insert(members_.end(), more.members_.begin(), more.members_.end()); }

    /// As JSON, in one line. Numbers that are not finite are null.
    std::string text() const {
      std::string out;
      for (const auto& [name, value] : members_) {
        out += out.empty() ? "{" : ",";
        out.append(io::json(name).dump(-1, io::Utf8::replace)).append(":").append(value.text);
      }
      return out.empty() ? "{}" : out + "}";
    }

   private:
    std::vector<std::pair<std::string, Value>> members_;
  };

  /// Whether a line is one of a log of this kind, which may be taken out again.
  using IsOwn = std::function<bool(const io::json&)>;

  /// Starts a new log, or goes on with one: then lines of steps that are yet to come, from a run that got further
  /// than the checkpoint it is resumed from, are taken out, and so is a last line that was cut off.
  /// \param done    steps made so far, the "step" of the last line that stays; 0 starts anew
  /// \param is_own  what is taken out must be; and so must the first line be
  /// A device or a FIFO only gets the new lines.
  /// \throws Error when the file cannot be written, when there is one that cannot be read, that another process logs
  ///         to or that is no such log, or a line before the last is no JSON object; what stood there stays
  JsonLog(const std::filesystem::path& path, index_t done, const IsOwn& is_own = has_step)
      : file_(begin(io::destination(path), done, is_own)) {}

  /// Whether there can be such a log, with nothing touched, as far as its first line tells; of a new one, all lines.
  /// \throws Error as the constructor does
  static void check(const std::filesystem::path& path, bool is_new, const IsOwn& is_own = has_step) {
    const io::OutputFile to = io::destination(path);
    if (to.written_through || !to.mode) return;
    check_lock(io::FileSink::append_to(to), to.path);
    (void)kept(to.path, is_new ? 0 : std::numeric_limits<index_t>::max(), is_own);
  }

  void write(const Record& record) {
    const std::string line = record.text() + '\n';
    file_.write(line.data(), line.size());
  }

  /// The least that a log's line says.
  static bool has_step(const io::json& record) {
    const auto step = record.find("step");
    return step != record.end() && step->is_number_unsigned();
  }

 private:
  static constexpr const char* wanted = "a log of a training run, an empty file or a new one";

  static io::FileSink begin(const io::OutputFile& to, index_t done, const IsOwn& is_own) {
    std::optional<io::FileSink> replaced;  // locked until what replaces it is
    while (true) {
      io::FileSink sink = io::FileSink::append_to(to);
      if (to.written_through) return sink;
      check_lock(sink, to.path);
      if (!sink.stands_at(to.path)) continue;  // another process replaced it just now
      const auto [text, stays] = kept(to.path, done, is_own);
      if (text == stays) return sink;
      // What goes is the end of it, if nobody changed it. Other names of the file keep what they have.
      std::error_code failed;
      if (text.compare(0, stays.size(), stays) == 0 && std::filesystem::hard_link_count(to.path, failed) == 1) {
        sink.truncate(stays.size());
        return sink;
      }
      io::write_text(to.path, stays);
      replaced.emplace(std::move(sink));
    }
  }

  static void check_lock(const io::FileSink& sink, const std::filesystem::path& path) {
    if (sink.lock() != io::Locked::elsewhere) return;
    throw Error(path.string(), "a file that another process logs to", "one of this run alone");
  }

  struct Kept {
    std::string text, stays;
  };

  /// All of a log, and what stays of it.
  static Kept kept(const std::filesystem::path& path, index_t done, const IsOwn& is_own) {
    check_beginning(path);
    Kept log{io::read_file(path), {}};
    std::size_t begin = 0, end = 0;
    for (int number = 1; (end = log.text.find('\n', begin)) != std::string::npos; ++number) {
      const std::string_view line = std::string_view(log.text).substr(begin, end + 1 - begin);
      begin = end + 1;
      const std::string subject = path.string() + ": line " + std::to_string(number);
      const io::json record = parse(line, subject);
      const bool stays = done > 0 && !is_later(record, done);
      if ((number == 1 || !stays) && !is_own(record)) throw Error(subject, "no record of a training step", wanted);
      if (stays) log.stays += line;
    }
    if (!is_cut_record(std::string_view(log.text).substr(begin), is_own)) {
      throw Error(path.string() + ": last line", "no record of a training step", wanted);
    }
    return log;
  }

  /// Whether what has no end of a line can be such a record that was cut off, if only its end of a line was.
  static bool is_cut_record(std::string_view rest, const IsOwn& is_own) {
    constexpr std::string_view beginning = R"({"step":)";
    if (rest.substr(0, beginning.size()) != beginning.substr(0, rest.size())) return false;
    io::json whole;
    try {
      whole = io::parse_json(rest, "last line");
    } catch (const Error&) {  // as of any part
      return true;
    }
    return is_own(whole);
  }

  /// Before all of a file is read that may be anything.
  static void check_beginning(const std::filesystem::path& path) {
    std::string text(std::size_t{1} << 16U, '\0');
    text.resize(io::InputFile(path).read_some(0, text.data(), text.size()));
    if (text.empty() || text.front() == '{') return;
    throw Error(path.string() + ": line 1", "no record of a training step", wanted);
  }

  static io::json parse(std::string_view line, const std::string& subject) {
    io::json record = io::parse_json(line, subject);
    if (!record.is_object()) throw Error(subject, record.type_name(), "a JSON object");
    return record;
  }

  static bool is_later(const io::json& record, index_t done) {
    return has_step(record) && record["step"].get<std::uint64_t>() > static_cast<std::uint64_t>(done);
  }

  io::FileSink file_;
};

}  // namespace K3SPEC_NAMESPACE
