#pragma once
/// \file
/// The tokens that a checkpoint says end a text: eos_token_id of its config.json and of its generation_config.json,
/// each a token or a list of them.
/// defines: io::generation_config_name, io::stop_token_ids

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <k3spec/io/field_comparison.hpp>

namespace K3SPEC_NAMESPACE::io {

inline constexpr const char* generation_config_name = "generation_config.json";

namespace detail {

/// Adds what a file's eos_token_id says; nothing where it has none.
inline void add_stop_tokens(const json& root, const std::string& file, index_t vocabulary, std::vector<index_t>& ids) {
  const json found = find_in_model(root, "eos_token_id");
  if (found.is_null()) return;
  for (const json& element : found.is_array() ? found : json::array({found})) {
    const auto id = as_index(element);
    if (!id || *id < 0 || *id >= vocabulary) {
      throw Error(file + ": eos_token_id", field_text(found),
                  "a token or a list of them, each 0 to " + std::to_string(vocabulary - 1));
    }
    if (std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
  }
}

}  // namespace detail

/// Of both files together, each token once. There need be no generation_config.json.
/// \param folder      of the checkpoint
/// \param vocabulary  tokens of the model
/// \throws Error naming the file, on one that cannot be read and on an id that is no token
inline std::vector<index_t> stop_token_ids(const std::filesystem::path& folder, index_t vocabulary) {
  std::vector<index_t> ids;
  const auto config = folder / "config.json", generation = folder / generation_config_name;
  detail::add_stop_tokens(read_json(config), config.string(), vocabulary, ids);
  std::error_code ignored;  // what cannot be looked at cannot be opened, and opening says why
  if (std::filesystem::status(generation, ignored).type() != std::filesystem::file_type::not_found) {
    detail::add_stop_tokens(read_json(generation), generation.string(), vocabulary, ids);
  }
  return ids;
}

}  // namespace K3SPEC_NAMESPACE::io
