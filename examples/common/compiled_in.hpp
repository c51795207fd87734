#pragma once
/// \file
/// What the programs are compiled for: TargetConfig and Drafts, of a header that k3spec_add_programs writes
/// (cmake/k3spec_add_programs.cmake), and what their files are held against.
/// defines: draft_types, with_draft, draft_type_of, dtype_names, with_dtype, with_device

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <k3spec/core/device.hpp>
#include <k3spec/io/draft_config.hpp>

#include <k3spec_programs.hpp>

#include "draft_types.hpp"

namespace k3spec::examples {

namespace detail {

template <class... Configs>
constexpr std::array<DraftType, sizeof...(Configs)> types_of(Types<Configs...>) {
  std::size_t i = 0;
  return {{DraftType{draft_names[i++], draft_kind_of<Configs>(), Configs::backbone, eagle3_version_of<Configs>()}...}};
}

template <class... T>
constexpr std::array<std::string_view, sizeof...(T)> dtypes_of(Types<T...>) {
  return {{std::is_same_v<T, float> ? "float" : "bfloat16" ...}};
}

template <class First, class... Rest, class F>
decltype(auto) with_type(std::size_t index, F& f, Types<First, Rest...>) {
  if constexpr (sizeof...(Rest) > 0) {
    if (index > 0) return with_type(index - 1, f, Types<Rest...>{});
  }
  return f.template operator()<First>();
}

}  // namespace detail

/// The drafts in Drafts' order.
inline constexpr auto draft_types = detail::types_of(Drafts{});

/// Calls f<Config>() with the draft at a place of draft_types.
template <class F>
decltype(auto) with_draft(std::size_t index, F&& f) {
  return detail::with_type(index, f, Drafts{});
}

/// What drafts can be trained in, in Dtypes' order.
inline constexpr auto dtype_names = detail::dtypes_of(Dtypes{});

/// Calls f<T>() with the type of that name, one of dtype_names.
template <class F>
decltype(auto) with_dtype(std::string_view name, F&& f) {
  const auto at = std::find(dtype_names.begin(), dtype_names.end(), name) - dtype_names.begin();
  return detail::with_type(static_cast<std::size_t>(at), f, Dtypes{});
}

/// Calls f<D>() with the device of that name: "cuda", where that is compiled in, or else the host.
template <class F>
decltype(auto) with_device([[maybe_unused]] std::string_view name, F&& f) {
  if constexpr (compiled_for_cuda) {
    if (name == "cuda") return f.template operator()<Cuda>();
  }
  return f.template operator()<Cpu>();
}

/// Where the draft is that a config.json differs from least, of its kind and attention block: not at all, if it is one
/// of these. \param version  that alone counts, of EAGLE-3 \throws Error when it is no draft's, or no draft of that
/// kind and block is compiled in
inline std::size_t draft_type_of(const io::json& config, const std::string& file,
                                 std::optional<std::string_view> version = {}) {
  const auto kind = io::draft_kind(config);
  if (!kind) throw Error(file + ": architectures", "none of a draft", "a draft's");
  const Backbone backbone = *io::draft_backbone(config);
  std::size_t best = draft_types.size(), least = std::numeric_limits<std::size_t>::max();
  for (std::size_t i = 0; i < draft_types.size(); ++i) {
    if (!detail::fits(draft_types[i], {*kind, backbone, version})) continue;
    const std::size_t n = with_draft(
        i, [&]<class Config> { return io::draft_differences<draft_kind_of<Config>(), Config>(config).size(); });
    if (n < least) least = n, best = i;
  }
  if (best < draft_types.size()) return best;
  throw Error(file + ": architectures", "a draft of kind " + detail::form_text(*kind, backbone, version),
              "one of those compiled in: " + describe(draft_types));
}

}  // namespace k3spec::examples
