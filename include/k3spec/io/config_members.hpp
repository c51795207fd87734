#pragma once
/// \file
/// The members of a config type, read from a config.json. Which there are, and of which types, a config says by the
/// visit of its fields (config/fields.hpp), so that none is left out.
/// defines: io::ConfigMember, io::ConfigMembers, io::detail::MemberReader

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/fields.hpp>
#include <k3spec/io/granted_fields.hpp>
#include <k3spec/io/json_text.hpp>

namespace K3SPEC_NAMESPACE::io {

/// A member of a config type, and what it shall be.
struct ConfigMember {
  std::string name;     ///< in C++
  std::string value;    ///< in C++
  std::string comment;  ///< empty: none
  std::string field;    ///< in config.json
  json found;           ///< the value, as JSON has it
};

/// Those of a type, in order.
struct ConfigMembers {
  std::vector<ConfigMember> all = {};

  void add(std::string name, const json& found, std::string value, std::string comment = {}) {
    all.push_back({name, std::move(value), std::move(comment), name, found});
  }
  /// The value of a member; null where there is none.
  json find(std::string_view name) const {
    for (const auto& member : all) {
      if (member.name == name) return member.found;
    }
    return nullptr;
  }
  /// A whole number; none where the member is none or not there.
  std::optional<index_t> number(std::string_view name) const { return detail::as_index(find(name)); }
};

namespace detail {

/// A member's name where it is not that of config.json. \param block  of a block draft
inline std::string member_name(std::string_view field, bool block) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kda{
      {{"num_heads", "kda_num_heads"},
       {"head_dim", "kda_head_dim"},
       {"short_conv_kernel_size", "kda_conv_size"},
       {"gate_lower_bound", "kda_gate_lower_bound"},
       {"use_full_rank_gate", "kda_use_full_rank_gate"}}};
  if (block && field == "num_hidden_layers") return "num_draft_layers";
  constexpr std::string_view linear = "linear_attn_config.";
  if (field.substr(0, linear.size()) != linear) return std::string(field);
  field.remove_prefix(linear.size());
  for (const auto& [own, member] : kda) {
    if (field == own) return std::string(member);
  }
  return std::string(field);
}

/// The name of an enumeration among a config's fields.
template <class E>
constexpr const char* enumeration_name() {
  if constexpr (std::is_same_v<E, MarkovHeadType>) return "MarkovHeadType";
  if constexpr (std::is_same_v<E, SoftmaxMscale>) return "SoftmaxMscale";
}

/// A type that a config's field can have: what of JSON it takes, and how C++ writes it.
template <class T>
struct MemberType;
template <>
struct MemberType<bool> {
  static std::string wanted() { return "true or false"; }
  static bool takes(const json& found) { return found.is_boolean(); }
  static std::string value(const json& found) { return found.get<bool>() ? "true" : "false"; }
};
template <>
struct MemberType<index_t> {
  static std::string wanted() { return "a whole number"; }
  static bool takes(const json& found) { return as_index(found).has_value(); }
  static std::string value(const json& found) { return std::to_string(found.get<index_t>()); }
};
template <>
struct MemberType<double> {
  static std::string wanted() { return "a number"; }
  static bool takes(const json& found) { return found.is_number(); }
  static std::string value(const json& found) {
    std::string text;
    append_number(text, found.get<double>());
    return text;
  }
};
template <class T>
struct MemberType<std::optional<T>> {
  static std::string wanted() { return MemberType<T>::wanted() + ", or null"; }
  static bool takes(const json& found) { return found.is_null() || MemberType<T>::takes(found); }
  static std::string value(const json& found) { return found.is_null() ? "std::nullopt" : MemberType<T>::value(found); }
};
template <std::size_t N>
struct MemberType<std::array<index_t, N>> {
  static std::string wanted() { return "a list of whole numbers"; }
  static bool takes(const json& found) {
    return found.is_array() && std::all_of(found.begin(), found.end(), [](const json& x) { return as_index(x); });
  }
  static std::string value(const json& found) {
    std::string ids;
    for (const json& id : found) ids.append(ids.empty() ? "" : ", ").append(MemberType<index_t>::value(id));
    return "std::array<::k3spec::index_t, " + std::to_string(found.size()) + ">{" + ids + "}";
  }
};
template <class E>
  requires std::is_enum_v<E>
struct MemberType<E> {
  static std::string wanted() { return all_names<E>(); }
  static bool takes(const json& found) { return named_value<E>(found).has_value(); }
  static std::string value(const json& found) {
    return std::string("::k3spec::") + enumeration_name<E>() + "::" + value_name(*named_value<E>(found));
  }
};

/// Handed to a visit of fields, reads each as a member of the type that it has there. What no member can have is noted.
struct MemberReader {
  FieldComparison& fields;
  ConfigMembers& members;
  bool block = false;

  template <class T>
  void operator()(std::string_view field, const T&) {
    read<T>(field, find_spelled(fields, field));
  }
  template <class T>
  void read(std::string_view field, json found) {
    using Type = MemberType<T>;
    if (field == "eos_token_id" && found.is_array() && found.size() > 0) found = json(*found.begin());
    if (!Type::takes(found)) return fields.note(field, field_text(found), Type::wanted());
    members.all.push_back({member_name(field, block), Type::value(found), {}, std::string(field), found});
  }
};

}  // namespace detail

}  // namespace K3SPEC_NAMESPACE::io
