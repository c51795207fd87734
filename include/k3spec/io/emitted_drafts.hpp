#pragma once
/// \file
/// The text of config types: a struct with its members, and drafts for a target that is not known to have any. What
/// such a draft leaves to choose is written out with what the choice is about, and can be had by this target, however
/// few its layers and tokens.
/// defines: io::detail::comment_line, io::detail::type_text, io::detail::draft_types

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include <k3spec/core/printable.hpp>
#include <k3spec/io/config_members.hpp>

namespace K3SPEC_NAMESPACE::io::detail {

/// A line of a comment that ends where it ends, whatever the text.
inline std::string comment_line(std::string_view text) {
  std::string line = "// " + printable(text, 12000);
  if (line.ends_with('\\')) line += '.';  // which would take the next line along
  return line + "\n";
}

/// A struct that hides members of its base.
/// \param base, short_name  the base, and what it is called inside
inline std::string type_text(const std::string& name, const std::string& base, const std::string& short_name,
                             const ConfigMembers& members) {
  std::string text = "struct " + name + " : " + base + " {\n";
  for (const auto& member : members.all) {
    if (!member.comment.empty()) text += "  " + comment_line(member.comment);
    text += "  K3SPEC_CHANGE(" + short_name + ", " + member.name + ", " + member.value + ");\n";
  }
  return text + "};\n";
}

/// The largest token without a meaning of its own that config.json tells of; none where all have one.
inline std::optional<index_t> free_token(const ConfigMembers& target) {
  const json stops = target.find("other_stop_token_ids");
  const auto taken = [&](index_t id) {
    for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id", "media_token_id"}) {
      if (target.number(name) == id) return true;
    }
    return std::find(stops.begin(), stops.end(), json(id)) != stops.end();
  };
  index_t id = target.number("vocab_size").value_or(0) - 1;
  while (id >= 0 && taken(id)) --id;
  return id < 0 ? std::nullopt : std::optional(id);
}

inline void choose(ConfigMembers& draft, const char* name, index_t value, const std::string& what) {
  draft.add(name, value, std::to_string(value), what);
}

/// What both block drafts leave to choose.
inline ConfigMembers block_choices(const ConfigMembers& target, index_t block_size) {
  const index_t layers = target.number("num_hidden_layers").value_or(1);
  const std::optional<index_t> mask = free_token(target);
  ConfigMembers draft;
  choose(draft, "num_draft_layers", 2, "layers of the draft");
  choose(draft, "num_target_layers", std::min<index_t>(3, layers + 1),
         "target layers whose states it reads, the embedding among them");
  choose(draft, "block_size", block_size, "tokens of a block");
  draft.add("mask_token_id", field_value(mask), mask ? std::to_string(*mask) : "std::nullopt",
            "the largest token that config.json gives no meaning: make sure that no text has it");
  draft.add("block_causal", true, "true", "nothing rotates keys: seen alike, all masks of a block would say the same");
  draft.add("sliding_window", nullptr, "std::nullopt", "context that a query sees; none: all of it");
  return draft;
}

/// Types of an EAGLE-3, a DFlash and a DSpark draft of a target, and that each can be a config.
inline std::string draft_types(const std::string& target, const ConfigMembers& members) {
  const index_t vocabulary = members.number("vocab_size").value_or(1);
  ConfigMembers eagle3;
  choose(eagle3, "draft_vocab_size", std::min<index_t>(32000, vocabulary),
         "tokens that it can say, at most vocab_size; training picks the most frequent");
  choose(eagle3, "num_aux_hidden_states", std::min<index_t>(3, members.number("num_hidden_layers").value_or(1)),
         "target layers whose states it reads");
  ConfigMembers dflash = block_choices(members, 8), dspark = block_choices(members, 5);
  choose(dspark, "markov_rank", std::min<index_t>(256, members.number("hidden_size").value_or(1)),
         "width of the Markov head; 0: none, and then no confidence_head_with_markov");
  std::string text =
      "\n// Drafts to begin with. What stands here is a choice, to be changed before training; drafts that read "
      "layers\n"
      "// other than their default ones, as they must of a target with fewer than 7, are told which.\n";
  for (const auto& [kind, draft] : {std::pair{"Eagle3", &eagle3}, {"DFlash", &dflash}, {"DSpark", &dspark}}) {
    const std::string name = target + kind;
    text += type_text(name, std::string("::k3spec::configs::") + kind + "<" + target + ">", kind, *draft);
    text += std::string("static_assert(sizeof(::k3spec::Checked") + kind + "<" + name + ">) > 0);\n";
  }
  return text;
}

}  // namespace K3SPEC_NAMESPACE::io::detail
