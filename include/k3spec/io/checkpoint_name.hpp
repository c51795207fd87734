#pragma once
/// \file
/// How the folders are called that a run leaves its checkpoints in.
/// defines: checkpoint_name, checkpoint_step, CheckpointAge, checkpoint_age

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

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

/// A checkpoint's step, and how often that had been saved before: the larger, the newer.
using CheckpointAge = std::pair<index_t, index_t>;

/// How new a checkpoint is.
/// \param name  one of checkpoint_name's
inline CheckpointAge checkpoint_age(std::string_view name) {
  const index_t step = *checkpoint_step(name);
  const auto at = name.find(detail::checkpoint_again);
  if (at == std::string_view::npos) return {step, 0};
  index_t again = 1;  // of ".again"
  std::from_chars(name.data() + at + detail::checkpoint_again.size(), name.data() + name.size(), again);
  return {step, again};
}

}  // namespace K3SPEC_NAMESPACE
