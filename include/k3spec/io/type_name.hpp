#pragma once
/// \file
/// The name of a C++ type, given as text.
/// defines: io::TypeName, io::type_name

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/core/error.hpp>

namespace K3SPEC_NAMESPACE::io {

/// A type and the namespaces that it is in, the outermost first.
struct TypeName {
  std::vector<std::string> outer;
  std::string name;
};

namespace detail {

/// Words that no C++ name can be, with a blank before and behind each.
inline constexpr std::string_view cpp_keywords =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class"
    " compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype"
    " default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline"
    " int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register"
    " reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template"
    " this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t"
    " while xor xor_eq ";

/// What is wrong with an identifier, as an error's `wanted`; empty: nothing.
inline std::string wrong_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto any = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  if (name.empty() || !letter(name[0]) || !std::all_of(name.begin(), name.end(), any)) {
    return "a C++ identifier (ASCII letters, digits and _), or several with :: between them";
  }
  if (name.size() > 200) return "names of at most 200 characters";
  if (cpp_keywords.find(" " + std::string(name) + " ") != std::string_view::npos) return "no keyword of C++";
  if (name[0] == '_' || name.find("__") != std::string_view::npos) {
    return "a name that C++ does not reserve: no _ at the beginning, no two in a row";
  }
  const bool taken = name == "std" || name == "k3spec" || name == "main" || name.substr(0, 7) == "K3SPEC_";
  return taken ? "a name that is neither the standard's nor this library's" : "";
}

}  // namespace detail

/// The parts of `ns::Name`.
/// \param subject  what the name is called in messages: "--name"
/// \throws Error on a part that is no identifier, or a keyword, or reserved
inline TypeName type_name(std::string_view text, std::string_view subject) {
  TypeName out;
  for (std::string_view rest = text;;) {
    const std::size_t end = rest.find("::");
    const std::string_view part = rest.substr(0, end);
    const std::string wanted = detail::wrong_identifier(part);
    if (!wanted.empty()) throw Error(subject, "'" + printable(text, 100) + "'", wanted);
    if (end == std::string_view::npos) {
      out.name = part;
      return out;
    }
    out.outer.emplace_back(part);
    rest.remove_prefix(end + 2);
  }
}

}  // namespace K3SPEC_NAMESPACE::io
