#pragma once
/// \file
/// What speculate measured and wrote with --json, as a table and the acceptance at each depth.
/// defines: Decoding, read_decoding

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/format.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/json.hpp>

#include "log.hpp"

namespace k3spec::examples {

/// A way to decode; the first of several is that without a draft.
struct Decoding {
  std::string name;
  std::optional<double> chain, drafted, accepted, accept_length, ms_to_first_token, ms_per_token, speed_up;
  std::vector<std::optional<double>> acceptance;  ///< by depth, of the tokens that were looked at there
};

namespace detail {

inline std::optional<double> median_of(const io::json& object, const char* name, const std::string& subject) {
  const io::json* spread = part_of(object, name, &io::json::is_object, "an object", subject);
  if (spread == nullptr) return std::nullopt;
  return number_in(*spread, "median", 0, most, subject + ": " + name);
}

inline Decoding decoding_of(const io::json& j, const std::string& subject) {
  const io::json* name = part_of(j, "name", &io::json::is_string, "a text", subject);
  if (name == nullptr) throw Error(subject + ": name", "nothing", "a text");
  Decoding d{.name = name->text(),
             .chain = number_if(j, "chain", 0, most, subject),
             .drafted = number_if(j, "drafted", 0, most, subject),
             .accepted = number_if(j, "accepted", 0, most, subject),
             .accept_length = number_if(j, "accept_length", 0, most, subject),
             .ms_to_first_token = median_of(j, "ms_to_first_token", subject),
             .ms_per_token = median_of(j, "ms_per_token", subject),
             .speed_up = median_of(j, "speed_up", subject),
             .acceptance = {}};
  const io::json* runs = part_of(j, "all_runs", &io::json::is_object, "an object", subject);
  if (runs == nullptr) return d;
  const io::json* depths = part_of(*runs, "depths", &io::json::is_array, "a list", subject);
  if (depths == nullptr) return d;
  for (const io::json& depth : *depths) d.acceptance.push_back(number_if(depth, "acceptance", 0, 1, subject));
  return d;
}

}  // namespace detail

/// \throws Error on a file that speculate did not write
inline std::vector<Decoding> read_decoding(const std::string& path) {
  const io::json report = io::parse_json(io::read_file(path), path);
  const auto program = report.find("program");
  if (!report.is_object() || program == report.end() || *program != "speculate") {
    throw Error(path, "no report of speculate's", "what it writes with --json");
  }
  const io::json* plain = detail::part_of(report, "plain", &io::json::is_object, "an object", path);
  const io::json* drafts = detail::part_of(report, "drafts", &io::json::is_array, "a list", path);
  std::vector<Decoding> all;
  if (plain != nullptr) all.push_back(detail::decoding_of(*plain, path + ": plain"));
  for (std::size_t i = 0; drafts != nullptr && i < drafts->size(); ++i) {
    all.push_back(detail::decoding_of((*drafts)[i], fmt::format("{}: drafts: {}", path, i)));
  }
  return all;
}

}  // namespace k3spec::examples
