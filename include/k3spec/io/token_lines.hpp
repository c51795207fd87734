#pragma once
/// \file
/// Tokens as JSON lines: each is a document, {"input_ids": [1, 2], "loss_mask": [0, 1]}, the latter where some of its
/// tokens are not to be learnt. All of them are held, in five bytes each.
/// defines: io::open_token_lines

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/io/json.hpp>
#include <k3spec/io/mapped_file.hpp>
#include <k3spec/io/token_part.hpp>

namespace K3SPEC_NAMESPACE::io {

namespace detail {

/// What all lines have.
struct TokenLines {
  std::vector<std::uint32_t> ids;
  std::vector<std::uint8_t> loss_mask;
  std::vector<index_t> lengths;

  /// \param line  for messages  \throws Error on what is no document
  void add(const std::string& line, std::string_view text, index_t vocabulary) {
    const json document = parse_json(text, line);
    if (!document.is_object()) throw Error(line, excerpt(document), "an object with input_ids");
    const json *tokens = nullptr, *mask = nullptr;
    for (const auto& [name, value] : document.items()) {
      if (name != "input_ids" && name != "loss_mask") {
        throw Error(line, "field '" + name + "'", "input_ids and loss_mask only");
      }
      (name == "input_ids" ? tokens : mask) = &value;
    }
    if (tokens == nullptr) throw Error(line + ": input_ids", "nothing", "a list of tokens");
    append(line + ": input_ids", *tokens, vocabulary, ids);
    const std::size_t length = tokens->size(), before = loss_mask.size();
    lengths.push_back(static_cast<index_t>(length));
    if (mask == nullptr) return loss_mask.resize(before + length, 1);
    append(line + ": loss_mask", *mask, 2, loss_mask);
    if (loss_mask.size() - before == length) return;
    throw Error(line + ": loss_mask", std::to_string(loss_mask.size() - before) + " values",
                std::to_string(length) + ", one for each of input_ids");
  }

 private:
  template <class T>
  static void append(const std::string& subject, const json& list, index_t limit, std::vector<T>& out) {
    if (!list.is_array()) throw Error(subject, excerpt(list), "a list");
    index_t place = 0;
    for (const json& value : list) {
      const bool fits = value.is_number_unsigned() && std::cmp_less(value.get<std::uint64_t>(), limit);
      if (!fits) {
        throw Error(subject + ": token " + std::to_string(place), excerpt(value), "0 to " + std::to_string(limit - 1));
      }
      out.push_back(static_cast<T>(value.get<std::uint64_t>()));
      ++place;
    }
  }
};

}  // namespace detail

/// The tokens of one file.
/// \throws Error naming the line, on what is no JSON, other fields, an id that is none of the vocabulary's, a mask of
///         another length or with values other than 0 and 1, and a vocabulary of more than 2^32 tokens
inline TokenPart open_token_lines(const std::filesystem::path& path, index_t vocabulary) {
  if (vocabulary > index_t{std::numeric_limits<std::uint32_t>::max()} + 1) {
    throw Error(path.string(), "a vocabulary of " + std::to_string(vocabulary), "at most 2^32 tokens");
  }
  const MappedFile file(path);
  auto lines = std::make_shared<detail::TokenLines>();
  index_t number = 0;
  for (std::string_view rest = file.text(); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    lines->add(file.path() + ": line " + std::to_string(++number), rest.substr(0, end), vocabulary);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto* ids = reinterpret_cast<const std::byte*>(lines->ids.data());
  const auto* mask = reinterpret_cast<const std::byte*>(lines->loss_mask.data());
  const auto count = static_cast<index_t>(lines->ids.size());
  std::vector<index_t> lengths = std::move(lines->lengths);
  return {nullptr, lines, {ids, DType::U32, count}, {mask, DType::U8, count}, std::move(lengths)};
}

}  // namespace K3SPEC_NAMESPACE::io
