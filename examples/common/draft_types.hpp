#pragma once
/// \file
/// The drafts that a program is compiled for, as a list to choose from.
/// defines: draft_kind_of, eagle3_version_of, DraftType, DraftWish, describe, choose_draft

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/config/draft_kind.hpp>
#include <k3spec/core/error.hpp>

namespace k3spec::examples {

/// The kind of draft that a config is of: a DSpark draft's has all that a DFlash draft's has, and either may be made
/// from an EAGLE-3 draft's.
template <class Config>
constexpr DraftKind draft_kind_of() {
  constexpr bool dspark = requires { Config::markov_rank; };
  constexpr bool dflash = requires { Config::block_size; };
  constexpr bool eagle3 = requires { Config::num_aux_hidden_states; };
  static_assert(dspark || dflash || eagle3,
                "DRAFTS: a type that is no draft's config; wanted one derived from configs::Eagle3, DFlash or DSpark");
  return dspark ? DraftKind::dspark : dflash ? DraftKind::dflash : DraftKind::eagle3;
}

/// Of an EAGLE-3 draft; else empty.
template <class Config>
constexpr std::string_view eagle3_version_of() {
  if constexpr (draft_kind_of<Config>() == DraftKind::eagle3) return Config::fc_norm ? "3.1" : "3";
  return {};
}

/// A draft that is compiled in.
struct DraftType {
  std::string_view name;  ///< of its type
  DraftKind kind;
  Backbone backbone;
  std::string_view version = {};  ///< of EAGLE-3
};

/// What is asked for; what is not said may be any.
struct DraftWish {
  DraftKind kind;
  std::optional<Backbone> backbone = {};
  std::optional<std::string_view> version = {};
  /// The type's, which says the rest, too.
  std::string_view name = {};
};

namespace detail {

template <class E>
std::string_view word_of(E value) {
  return names_of<E>[static_cast<std::size_t>(value)];
}

inline std::string form_text(DraftKind kind, std::optional<Backbone> backbone,
                             std::optional<std::string_view> version) {
  std::string text(word_of(kind));
  if (kind != DraftKind::eagle3) return text;
  if (backbone) text.append(" of backbone ").append(word_of(*backbone));
  if (version) text.append(backbone ? " and version " : " of version ").append(*version);
  return text;
}

inline bool fits(const DraftType& type, const DraftWish& wish) {
  const bool named = wish.name.empty() || type.name == wish.name;
  return named && type.kind == wish.kind && type.backbone == wish.backbone.value_or(type.backbone) &&
         type.version == wish.version.value_or(type.version);
}

/// Leaves those that `prefer` holds of, if any.
template <class F>
void narrow(std::vector<std::size_t>& found, F&& prefer) {
  std::vector<std::size_t> preferred;
  for (const std::size_t i : found) {
    if (prefer(i)) preferred.push_back(i);
  }
  if (!preferred.empty()) found = std::move(preferred);
}

}  // namespace detail

/// "Mine (eagle3 of backbone kimi_k3 and version 3), Other (dflash)"
inline std::string describe(std::span<const DraftType> types) {
  std::string text;
  for (const DraftType& t : types) {
    text.append(text.empty() ? "" : ", ").append(t.name);
    text.append(" (").append(detail::form_text(t.kind, t.backbone, t.version)).append(")");
  }
  return text;
}

/// Where in the list the draft is that is asked for. Of EAGLE-3 drafts the target's own block and version 3 come first.
/// \throws Error when none is compiled in, or several are that nothing tells apart
inline std::size_t choose_draft(std::span<const DraftType> types, const DraftWish& wish) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (detail::fits(types[i], wish)) found.push_back(i);
  }
  detail::narrow(found, [&](std::size_t i) { return types[i].backbone == Backbone::kimi_k3; });
  detail::narrow(found, [&](std::size_t i) { return types[i].version == "3"; });
  if (found.size() == 1) return found.front();
  const std::string text = wish.name.empty()
                               ? detail::form_text(wish.kind, wish.backbone, wish.version)
                               : std::string(detail::word_of(wish.kind)) + " and --config " + std::string(wish.name);
  if (found.empty()) throw Error("--draft", text, "one of those compiled in: " + describe(types));
  std::vector<DraftType> several;
  for (const std::size_t i : found) several.push_back(types[i]);
  throw Error("--draft", text + ", of which several are compiled in",
              "--config, which names one: " + describe(several));
}

}  // namespace k3spec::examples
