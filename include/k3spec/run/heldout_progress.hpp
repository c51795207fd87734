#pragma once
/// \file
/// What a run remembers of its looks at held-out text: whether it still gets better, and how good a checkpoint is.
/// defines: HeldoutProgress

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include <k3spec/core/extents.hpp>
#include <k3spec/io/json.hpp>

namespace K3SPEC_NAMESPACE {

/// Simulated accept lengths on held-out text, which are 1 at least. A checkpoint carries it.
struct HeldoutProgress {
  std::optional<double> accept_length;  ///< of the draft as it is now, if it was measured
  std::optional<double> best_look;      ///< the longest of all looks
  index_t looks_since = 0;              ///< looks after that one, none of which was better
  index_t windows = 0;                  ///< that are looked at, if there are so many; 0: not known

  /// Takes a look into account.
  /// \returns whether it is better than all before
  bool look(double length) {
    const bool better = !best_look || length > *best_look;
    if (better) best_look = length;
    looks_since = better ? 0 : looks_since + 1;
    return better;
  }

  io::json to_json() const {
    const auto number = [](const std::optional<double>& x) { return x ? io::json(*x) : io::json(nullptr); };
    return {{"accept_length", number(accept_length)},
            {"best_look", number(best_look)},
            {"looks_since", looks_since},
            {"windows", windows}};
  }
  /// What to_json made; of null, as of a checkpoint that says nothing of it: nothing is known.
  /// \param subject  what the JSON is, for messages
  /// \throws Error naming a member that no run can have
  static HeldoutProgress from_json(const io::json& j, const std::string& subject) {
    HeldoutProgress p;
    if (j.is_null()) return p;
    p.accept_length = length_in(j, "accept_length", subject);
    p.best_look = length_in(j, "best_look", subject);
    p.looks_since = count_in(j, "looks_since", subject);
    if (!member(j, "windows").is_null()) p.windows = count_in(j, "windows", subject);
    return p;
  }

 private:
  static index_t count_in(const io::json& j, const char* name, const std::string& subject) {
    const io::json found = member(j, name);
    if (found.is_number_integer() && found.get<std::int64_t>() >= 0) return found.get<index_t>();
    throw Error(subject + ": " + name, io::detail::excerpt(found), "a count");
  }
  static io::json member(const io::json& j, const char* name) {
    const auto at = j.is_object() ? j.find(name) : j.end();
    return at == j.end() ? io::json() : *at;
  }
  static std::optional<double> length_in(const io::json& j, const char* name, const std::string& subject) {
    const io::json found = member(j, name);
    if (found.is_null()) return std::nullopt;
    const double length = found.is_number() ? found.get<double>() : 0;
    if (std::isfinite(length) && length >= 1) return length;
    throw Error(subject + ": " + name, io::detail::excerpt(found), "a number of at least 1, or null");
  }
};

}  // namespace K3SPEC_NAMESPACE
