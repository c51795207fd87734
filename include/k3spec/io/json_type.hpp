#pragma once
/// \file
/// Of which type a JSON value is, and how its numbers become C++'s.
/// defines: io::detail::JsonType, io::detail::json_type_of, io::detail::JsonNumber, io::detail::json_number

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

#include <k3spec/core/error.hpp>
#include <k3spec/io/json_text.hpp>

namespace K3SPEC_NAMESPACE::io::detail {

/// Of a value; numbers keep the type that they were given.
enum class JsonType : unsigned char { null, boolean, integer, unsigned_integer, real, string, array, object };
inline constexpr std::array<const char*, 8> json_type_names{"null",   "boolean", "number", "number",
                                                            "number", "string",  "array",  "object"};
/// As messages say it.
inline constexpr std::array<const char*, 8> json_types_wanted{"null",     "true or false", "a number", "a number",
                                                              "a number", "a string",      "a list",   "an object"};

/// Whose values are numbers or truths.
template <class T>
concept JsonNumber = std::is_arithmetic_v<T>;

template <JsonNumber T>
constexpr JsonType json_type_of = std::is_same_v<T, bool>       ? JsonType::boolean
                                  : std::is_floating_point_v<T> ? JsonType::real
                                  : std::is_signed_v<T>         ? JsonType::integer
                                                                : JsonType::unsigned_integer;

/// A double as static_cast has it.
/// \throws Error on one without a whole part that an integer T holds
template <JsonNumber T>
T json_number(double x) {
  if constexpr (std::is_integral_v<T>) {
    const double end = std::ldexp(1.0, std::numeric_limits<T>::digits), below = std::is_signed_v<T> ? -end : 0;
    const double whole = std::trunc(x);
    if (!(whole >= below && whole < end)) {
      std::string text;
      append_number(text, x);
      throw Error("JSON value", text, "a number that an integer holds");
    }
  }
  return static_cast<T>(x);
}

}  // namespace K3SPEC_NAMESPACE::io::detail
