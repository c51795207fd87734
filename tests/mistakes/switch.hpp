#pragma once
/// \file
/// What planted headers ask whether a mistake is switched on: the one that K3SPEC_MISTAKE in the environment names.
/// defines: mistakes::id, mistakes::switched_on

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <type_traits>

namespace mistakes {

namespace detail {
/// 64-bit FNV-1a.
constexpr std::uint64_t hash(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return h;
}
}  // namespace detail

/// A mistake's number. It does not depend on other mistakes: a new one has only its own header built again.
consteval std::uint64_t id(std::string_view name) { return detail::hash(name); }

inline const std::uint64_t chosen = [] {
  const char* name = std::getenv("K3SPEC_MISTAKE");
  return name == nullptr ? std::uint64_t{0} : detail::hash(name);
}();

/// What is evaluated when compiling is left alone, so that what is planned then and what is done later agree.
constexpr bool switched_on(std::uint64_t mistake) { return std::is_constant_evaluated() ? false : chosen == mistake; }

}  // namespace mistakes
