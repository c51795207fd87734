#pragma once
/// \file
/// How the folders are called that a run leaves its checkpoints in.
/// defines: checkpoint_name, checkpoint_step

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <k3spec/core/extents.hpp>
#include <k3spec/core/format.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
inline constexpr std::string_view checkpoint_prefix = "step-", checkpoint_again = ".again";
}  // namespace detail

/// step-00000120, and step-00000120.again, step-00000120.again2 and so on where that is taken.
inline std::string checkpoint_name(index_t step, index_t again = 0) {
  const std::string name = fmt::format("{}{:08}", detail::checkpoint_prefix, step);
  if (again == 0) return name;
  return fmt::format("{}{}{}", name, detail::checkpoint_again, again == 1 ? "" : std::to_string(again));
}

/// The step that a checkpoint's name says; none of other names.
inline std::optional<index_t> checkpoint_step(std::string_view name) {
  const auto number = [](std::string_view digits) -> std::optional<index_t> {
    index_t n = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    return failed == std::errc{} && end == digits.data() + digits.size() && n >= 0 ? std::optional(n) : std::nullopt;
  };
  if (name.substr(0, detail::checkpoint_prefix.size()) != detail::checkpoint_prefix) return std::nullopt;
  name.remove_prefix(detail::checkpoint_prefix.size());
  const auto again = name.find(detail::checkpoint_again);
  const auto step = number(name.substr(0, again));
  if (again == std::string_view::npos) return step;
  const std::string_view count = name.substr(again + detail::checkpoint_again.size());
  return count.empty() || number(count) ? step : std::nullopt;
}

}  // namespace K3SPEC_NAMESPACE
