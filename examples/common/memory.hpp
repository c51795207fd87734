#pragma once
/// \file
/// How much memory there is to have, so that a plan that does not fit is refused before anything is loaded.
/// defines: available_memory, size_text, check_memory

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include <sys/resource.h>
#include <unistd.h>

#include <k3spec/core/error.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/io/input_file.hpp>

namespace k3spec::examples {

namespace detail {

/// A file of the system's, empty where there is none.
inline std::string system_text(const std::filesystem::path& file) {
  try {
    return io::read_file(file);
  } catch (const Error&) {
    return {};
  }
}

/// The number behind a word at the beginning of a line, or at the beginning of the text for the word "".
inline std::optional<std::uint64_t> number_behind(const std::string& text, std::string_view word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(word, 0) != 0) continue;
    const std::size_t begin = line.find_first_not_of(" \t", word.size());
    if (begin == std::string::npos) continue;
    std::uint64_t value = 0;
    const auto [end, failed] = std::from_chars(line.data() + begin, line.data() + line.size(), value);
    if (failed == std::errc()) return value;
  }
  return std::nullopt;
}

/// How a version of control groups calls itself, its folder and its files.
struct GroupVersion {
  std::string_view name, folder, limit, used, cached;
};
inline constexpr GroupVersion group_versions[] = {
    {"0::/", "", "memory.max", "memory.current", "inactive_file "},
    {":memory:/", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "}};

/// What a control group may still take: its limit, less what it uses and could not drop.
inline std::optional<std::uint64_t> left_in_group(const std::filesystem::path& group, const GroupVersion& version) {
  const auto limit = number_behind(system_text(group / version.limit), ""),
             used = number_behind(system_text(group / version.used), "");
  if (!limit || !used) return std::nullopt;  // "max": no limit
  const std::uint64_t cached = number_behind(system_text(group / "memory.stat"), version.cached).value_or(0);
  const std::uint64_t held = *used - std::min(*used, cached);
  return *limit - std::min(*limit, held);
}

/// Where this process is in the hierarchy: "user.slice/a" for the line "0::/user.slice/a".
inline std::filesystem::path own_group(const std::string& groups, const GroupVersion& version) {
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(version.name);
    if (at != std::string::npos) return line.substr(at + version.name.size());
  }
  return {};
}

/// What the process may still map (ulimit -v).
inline std::optional<std::uint64_t> left_to_map(const std::filesystem::path& proc) {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const std::uint64_t pages = number_behind(system_text(proc / "self/statm"), "").value_or(0);
  const std::uint64_t mapped = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return limit.rlim_cur - std::min<std::uint64_t>(limit.rlim_cur, mapped);
}

}  // namespace detail

/// Bytes that the system, the control groups that this process is in, and its own limit leave; none where
/// nothing says so. Swap is not counted: a step goes through all of its memory.
inline std::optional<std::uint64_t> available_memory(const std::filesystem::path& proc = "/proc",
                                                     const std::filesystem::path& groups = "/sys/fs/cgroup") {
  std::optional<std::uint64_t> least;
  const auto take = [&](std::optional<std::uint64_t> bytes) {
    if (bytes) least = std::min(*bytes, least.value_or(*bytes));
  };
  if (const auto kib = detail::number_behind(detail::system_text(proc / "meminfo"), "MemAvailable:")) take(*kib * 1024);
  take(detail::left_to_map(proc));
  const std::string own = detail::system_text(proc / "self/cgroup");
  for (const detail::GroupVersion& version : detail::group_versions) {
    std::filesystem::path group = detail::own_group(own, version);  // or any that it is in
    for (;; group = group.parent_path()) {
      take(detail::left_in_group(groups / version.folder / group, version));
      if (group.empty()) break;
    }
  }
  return least;
}

/// "1.5 GB"
inline std::string size_text(std::uint64_t bytes) {
  const auto n = static_cast<double>(bytes);
  return n < 1e9 ? fmt::format("{:.1f} MB", n / 1e6) : fmt::format("{:.1f} GB", n / 1e9);
}

/// \param subject  what the plan is made of, e.g. "--batch and --length"
/// \throws Error when there is less memory than the plan
inline void check_memory(const std::string& subject, std::uint64_t planned,
                         const std::optional<std::uint64_t>& available = available_memory()) {
  if (!available || planned <= *available) return;
  throw Error(subject, "a plan of " + size_text(planned) + " of memory",
              "at most " + size_text(*available) + ", which are available");
}

}  // namespace k3spec::examples
