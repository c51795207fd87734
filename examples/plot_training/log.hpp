#pragma once
/// \file
/// What train_draft logged, as numbers. Fields that a log of an older version has not are absent here; what is there
/// and cannot be is refused by file and line.
/// defines: Bin, HeldoutNumbers, Look, Step, TrainingLog, number_in, number_if, read_log

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <k3spec/core/format.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/json.hpp>

namespace k3spec::examples {

/// Drafted tokens of about the same confidence.
struct Bin {
  double count, confidence, accuracy;
};

/// What is measured on a held-out text.
struct HeldoutNumbers {
  double accept_length = 1;
  std::optional<double> loss, accuracy;
  std::vector<std::optional<double>> acceptance;  ///< by depth; none where no token came that far
  std::optional<double> calibration_error;
  std::vector<Bin> bins;  ///< that have tokens
};

struct Look {
  double step;
  HeldoutNumbers numbers;
  std::map<std::string, HeldoutNumbers> sets;  ///< further texts, by name
};

/// A training step. Numbers that were not finite are absent, too.
struct Step {
  double step;
  std::optional<double> loss, lr, grad_norm, skipped, seconds, tokens;
};

struct TrainingLog {
  std::string name;
  std::vector<Step> steps;
  std::vector<Look> looks;
};

/// A number that becomes a place in a picture.
inline double number_in(const io::json& object, const char* name, double least, double most,
                        const std::string& subject) {
  const auto at = object.find(name);
  if (at != object.end() && at->is_number() && at->get<double>() >= least && at->get<double>() <= most) {
    return at->get<double>();
  }
  throw Error(fmt::format("{}: {}", subject, name), at == object.end() ? "nothing" : io::detail::excerpt(*at),
              fmt::format("a number from {:g} to {:g}", least, most));
}

/// The same, or nothing where there is none or null.
inline std::optional<double> number_if(const io::json& object, const char* name, double least, double most,
                                       const std::string& subject) {
  const auto at = object.find(name);
  if (at == object.end() || at->is_null()) return std::nullopt;
  return number_in(object, name, least, most, subject);
}

namespace detail {

/// Larger than any number of a run, and still a place in a picture.
inline constexpr double most = 1e15;

/// A part of a record, of which nullptr is an absent one. \param is  whether it is of the kind that is wanted
inline const io::json* part_of(const io::json& object, const char* name, bool (io::json::*is)() const,
                               const char* wanted, const std::string& subject) {
  const auto at = object.find(name);
  if (at == object.end() || at->is_null()) return nullptr;
  if (!(at->*is)()) throw Error(subject + ": " + name, io::detail::excerpt(*at), wanted);
  return at;
}

inline std::vector<std::optional<double>> read_acceptance(const io::json& heldout, const std::string& subject) {
  std::vector<std::optional<double>> rates;
  const io::json* list = part_of(heldout, "acceptance", &io::json::is_array, "a list", subject);
  if (list == nullptr) return rates;
  for (const io::json& rate : *list)
    rates.push_back(number_if(io::json{{"acceptance", rate}}, "acceptance", 0, 1, subject));
  return rates;
}

inline void read_calibration(const io::json& heldout, const std::string& subject, HeldoutNumbers& out) {
  const io::json* calibration = part_of(heldout, "calibration", &io::json::is_object, "an object", subject);
  if (calibration == nullptr) return;
  out.calibration_error = number_if(*calibration, "ece", 0, 1, subject);
  const io::json* bins = part_of(*calibration, "bins", &io::json::is_array, "a list", subject);
  if (bins == nullptr) return;
  for (const io::json& bin : *bins) {
    const double count = number_in(bin, "count", 0, most, subject);
    if (count == 0) continue;
    out.bins.push_back({count, number_in(bin, "confidence", 0, 1, subject), number_in(bin, "accuracy", 0, 1, subject)});
  }
}

inline HeldoutNumbers read_heldout(const io::json& heldout, const std::string& subject) {
  HeldoutNumbers out;
  out.accept_length = number_in(heldout, "accept_length", 1, 1e6, subject);
  out.loss = number_if(heldout, "loss", -most, most, subject);
  out.accuracy = number_if(heldout, "accuracy", 0, 1, subject);
  out.acceptance = read_acceptance(heldout, subject);
  read_calibration(heldout, subject, out);
  return out;
}

inline Step read_step(const io::json& record, double step, const std::string& subject) {
  return {.step = step,
          .loss = number_if(record, "loss", -most, most, subject),
          .lr = number_if(record, "lr", 0, most, subject),
          .grad_norm = number_if(record, "grad_norm", 0, 1e300, subject),
          .skipped = number_if(record, "skipped", 0, most, subject),
          .seconds = number_if(record, "seconds", 0, most, subject),
          .tokens = number_if(record, "tokens", 0, most, subject)};
}

}  // namespace detail

/// A log of JSON lines. \throws Error on a line that no run wrote, and on a log without a look at held-out text
inline TrainingLog read_log(const std::string& name, const std::string& path) {
  std::istringstream in(io::read_file(path));
  TrainingLog log{name, {}, {}};
  std::string line;
  double last = 0;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string subject = fmt::format("{}: line {}", path, number);
    const io::json record = io::parse_json(line, subject);
    if (!record.is_object()) throw Error(subject, io::detail::excerpt(record), "an object");
    last = number_in(record, "step", last, detail::most, subject);
    const io::json* heldout = detail::part_of(record, "heldout", &io::json::is_object, "an object", subject);
    const io::json* sets = detail::part_of(record, "heldout_sets", &io::json::is_object, "an object", subject);
    if (heldout == nullptr) {
      log.steps.push_back(detail::read_step(record, last, subject));
      continue;
    }
    log.looks.push_back({last, detail::read_heldout(*heldout, subject), {}});
    if (sets == nullptr) continue;
    for (const auto& [set, numbers] : sets->items()) {
      log.looks.back().sets[set] = detail::read_heldout(numbers, subject + ": heldout_sets: " + set);
    }
  }
  if (log.looks.empty()) throw Error(path, "no look at held-out text", "at least one");
  return log;
}

}  // namespace k3spec::examples
