#pragma once
/// \file
/// Files of tokens: which kind a file is, by its name, and how each is opened.
/// defines: io::TokenFormat, io::token_format, io::open_tokens, io::held_bytes

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <k3spec/io/input_file.hpp>
#include <k3spec/io/npy.hpp>
#include <k3spec/io/token_lines.hpp>
#include <k3spec/io/token_shards.hpp>

namespace K3SPEC_NAMESPACE::io {

/// How tokens lie in a file, or a folder of files.
enum class TokenFormat { text, npy, uint16, uint32, bin, safetensors, folder, lines };

/// By the suffix: *.npy, *.uint16, *.uint32, *.bin, *.safetensors, *.jsonl; a folder; of any other name, a text.
inline TokenFormat token_format(const std::filesystem::path& path) {
  constexpr std::array<std::pair<std::string_view, TokenFormat>, 6> suffixes{
      {{".npy", TokenFormat::npy},
       {".uint16", TokenFormat::uint16},
       {".uint32", TokenFormat::uint32},
       {".bin", TokenFormat::bin},
       {".safetensors", TokenFormat::safetensors},
       {".jsonl", TokenFormat::lines}}};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return TokenFormat::folder;
  for (const auto& [suffix, format] : suffixes) {
    if (path.extension() == suffix) return format;
  }
  return TokenFormat::text;
}

namespace detail {

/// A text, whose bytes are the tokens, is held: a run learns from what it began with.
inline TokenPart open_text(const std::filesystem::path& path, index_t vocabulary) {
  const auto text = std::make_shared<const std::string>(read_file(path));
  const auto* bytes = reinterpret_cast<const std::byte*>(text->data());
  TokenPart part{nullptr, text, {bytes, DType::U8, static_cast<index_t>(text->size())}, {}, {}};
  check_tokens(path.string(), part.ids, vocabulary, plain_place("byte"));
  return part;
}

/// \param type  of a file of tokens alone; none: the file says it (NumPy)
inline TokenPart open_list(const std::filesystem::path& path, std::optional<DType> type, index_t vocabulary) {
  const auto file = std::make_shared<const MappedFile>(path);
  TokenPart part{file, nullptr, {}, {}, {}};
  if (type) {
    const std::size_t each = size_of(*type);
    if (file->size() % each != 0) {
      throw Error(file->path(), std::to_string(file->size()) + " bytes",
                  "tokens of " + std::to_string(each) + " bytes each");
    }
    part.ids = {file->bytes().data(), *type, static_cast<index_t>(file->size() / each)};
  } else {
    part.ids = parse_npy(file->path(), file->bytes());
  }
  check_tokens(file->path(), part.ids, vocabulary);
  return part;
}

}  // namespace detail

/// The tokens of a file or a folder. Texts and JSON lines are held, the others mapped.
/// \param vocabulary  tokens are 0 to vocabulary - 1
/// \param bin         what a file *.bin has, which does not say it itself: U16 or U32
/// \throws Error on a file that cannot be read or is malformed, on a token out of range, and on a file *.bin of unsaid
///         type
inline std::vector<TokenPart> open_tokens(const std::filesystem::path& path, index_t vocabulary,
                                          std::optional<DType> bin) {
  TokenFormat format = token_format(path);
  if (format == TokenFormat::bin) {
    if (bin != DType::U16 && bin != DType::U32) {
      throw Error(path.string(), "a file of tokens that does not say their type",
                  "it said: uint16 or uint32; also by that suffix instead of .bin");
    }
    format = bin == DType::U16 ? TokenFormat::uint16 : TokenFormat::uint32;
  }
  const auto one = [](TokenPart part) {
    std::vector<TokenPart> all;
    all.push_back(std::move(part));
    return all;
  };
  switch (format) {
    case TokenFormat::npy:
      return one(detail::open_list(path, std::nullopt, vocabulary));
    case TokenFormat::uint16:
      return one(detail::open_list(path, DType::U16, vocabulary));
    case TokenFormat::uint32:
      return one(detail::open_list(path, DType::U32, vocabulary));
    case TokenFormat::safetensors:
      return one(open_token_shard(path, vocabulary));
    case TokenFormat::folder:
      return open_token_shards(path, vocabulary);
    case TokenFormat::lines:
      return one(open_token_lines(path, vocabulary));
    default:
      return one(detail::open_text(path, vocabulary));
  }
}

/// How much memory such a file takes, about, beside what is mapped; 0 for one that cannot be read, which opening it
/// tells.
inline std::uint64_t held_bytes(const std::filesystem::path& path) {
  const TokenFormat format = token_format(path);
  if (format != TokenFormat::text && format != TokenFormat::lines) return 0;
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(path, failed);
  // A token and its comma are two bytes of text and five of memory, up to twice that while lists grow.
  return failed ? 0 : format == TokenFormat::text ? size : size * 5;
}

}  // namespace K3SPEC_NAMESPACE::io
