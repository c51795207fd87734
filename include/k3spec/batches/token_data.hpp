#pragma once
/// \file
/// Data to learn from: tokens one behind the other, which of them are to be learnt, and the documents they belong to;
/// from any of the files that io/token_files.hpp opens. Of a text the tokens are its bytes, and a line is a document.
/// defines: TokenData

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/batches/packed_windows.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/io/token_files.hpp>

namespace K3SPEC_NAMESPACE {

/// Tokens of a file or of several. A copy is of the same data.
class TokenData {
 public:
  /// Opens the data and looks at all of it.
  /// \param vocabulary  tokens are 0 to vocabulary - 1
  /// \param bin         the type of tokens in a file *.bin: U16 or U32
  /// \throws Error as io::open_tokens does
  explicit TokenData(const std::filesystem::path& path, index_t vocabulary, std::optional<DType> bin = std::nullopt)
      : content_(std::make_shared<const Content>(path, vocabulary, bin)) {}

  const std::string& path() const { return content_->path; }
  /// Tokens.
  index_t size() const { return content_->parts.back().end; }
  /// The largest token; 0 where there is none.
  index_t largest() const { return content_->largest; }
  /// Whether some tokens are not to be learnt.
  bool has_mask() const { return content_->supervised < size(); }
  /// Tokens that are.
  index_t supervised() const { return content_->supervised; }
  /// Whether it is more than one piece of text: the files say where documents end.
  bool has_documents() const { return !content_->is_text && content_->ends.size() > 1; }
  /// Where documents end, ascending. They lie one behind the other.
  std::span<const index_t> document_ends() const { return content_->ends; }

  /// "bytes", "tokens"
  const char* unit() const { return content_->is_text ? "bytes" : "tokens"; }

  /// Windows of that many tokens, one behind the other.
  index_t windows(index_t length) const { return length < 1 ? 0 : size() / length; }
  /// Throws Error unless there are `count` of them, and something in the data to learn.
  void check_windows(index_t count, index_t length) const {
    if (length < 1) throw Error(path() + ": window length", fmt::format("{}", length), "at least 1");
    if (count > windows(length)) {
      const std::string one = fmt::format("a window of {} {}", length, unit());
      const std::string all = fmt::format("{} windows of {} {} each, {}", count, length, unit(), count * length);
      throw Error(path(), fmt::format("{} {}", size(), unit()), count == 1 ? one : all + ' ' + unit());
    }
    check_supervised();
  }
  /// Throws Error unless the data has a token to learn.
  void check_supervised() const {
    if (size() == 0) throw Error(path(), fmt::format("0 {}", unit()), "something to learn from");
    if (supervised() == 0) throw Error(path(), "a loss mask that is 0 everywhere", "a token to learn");
  }

  /// The documents in windows of that length, each document whole where it fits. Made once.
  /// \throws Error as PackedWindows does
  const PackedWindows& packed(index_t length) const {
    const std::lock_guard lock(content_->packing);
    const auto found = content_->packed.find(length);
    if (found != content_->packed.end()) return found->second;
    return content_->packed.emplace(length, PackedWindows(document_ends(), length)).first->second;
  }

  // ---- Tokens from `begin` on, as many as `out` has. Each throws Error where there are not so many, and where a file
  // ---- was cut since it was opened

  void read(index_t begin, std::span<index_t> out) const {
    each_part(begin, static_cast<index_t>(out.size()), [&](const Part& part, index_t first, index_t n, index_t at) {
      part.tokens.ids.copy(first, n, out.data() + at);
    });
  }
  /// 0: not to be learnt.
  void read_mask(index_t begin, std::span<std::uint8_t> out) const {
    each_part(begin, static_cast<index_t>(out.size()), [&](const Part& part, index_t first, index_t n, index_t at) {
      const io::IntegerColumn& mask = part.tokens.loss_mask;
      if (mask.count > 0) return mask.copy(first, n, out.data() + at);
      std::fill_n(out.data() + at, n, std::uint8_t{1});
    });
  }
  /// Tokens of each document within, then zeros.
  void read_lengths(index_t begin, std::span<index_t> out) const {
    const index_t end = begin + static_cast<index_t>(out.size());
    require_range(begin, end);
    std::size_t documents = 0;
    auto next = std::upper_bound(content_->ends.begin(), content_->ends.end(), begin);
    for (index_t at = begin; at < end; ++next) {
      const index_t stop = std::min(*next, end);
      if (stop > at) out[documents++] = stop - at;
      at = stop;
    }
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(documents), out.end(), 0);
  }

  /// counts[id] += how often it is to be learnt: a draft's vocabulary is what it has to say.
  /// \throws Error when there are tokens without a count
  void count_supervised(std::span<std::int64_t> counts) const {
    if (largest() >= static_cast<index_t>(counts.size()) && size() > 0) {
      throw Error(path() + ": largest token", fmt::format("{}", largest()), fmt::format("below {}", counts.size()));
    }
    std::vector<index_t> ids(piece);
    std::vector<std::uint8_t> mask(piece);
    for (index_t begin = 0; begin < size(); begin += index_t{piece}) {
      const auto n = static_cast<std::size_t>(std::min(index_t{piece}, size() - begin));
      read(begin, std::span(ids).first(n)), read_mask(begin, std::span(mask).first(n));
      for (std::size_t i = 0; i < n; ++i) counts[static_cast<std::size_t>(ids[i])] += mask[i];
    }
  }

 private:
  static constexpr std::size_t piece = 65536;

  struct Part {
    io::TokenPart tokens;
    index_t begin, end;  // of all tokens
  };

  struct Content {
    std::string path;
    bool is_text;
    std::vector<Part> parts;
    std::vector<index_t> ends;
    index_t largest = 0, supervised = 0;
    mutable std::mutex packing;
    mutable std::map<index_t, PackedWindows> packed;

    Content(const std::filesystem::path& from, index_t vocabulary, std::optional<DType> bin)
        : path(from.string()), is_text(io::token_format(from) == io::TokenFormat::text) {
      for (io::TokenPart& tokens : io::open_tokens(from, vocabulary, bin)) {
        const index_t begin = parts.empty() ? 0 : parts.back().end, n = tokens.ids.count;
        largest = std::max(largest, tokens.ids.largest());
        supervised += tokens.loss_mask.count > 0 ? tokens.loss_mask.sum() : n;
        index_t end = begin;
        for (const index_t length : tokens.lengths) ends.push_back(end += length);
        tokens.lengths = {};
        parts.push_back({std::move(tokens), begin, begin + n});
      }
      if (is_text) end_lines();
      const index_t size = parts.back().end;
      if (ends.empty() && size > 0) ends.push_back(size);
    }

    void end_lines() {
      const io::IntegerColumn& bytes = parts.front().tokens.ids;
      for (index_t i = 0; i < bytes.count; ++i) {
        if (bytes.data[i] == std::byte{'\n'} || i + 1 == bytes.count) ends.push_back(i + 1);
      }
    }
  };

  void require_range(index_t begin, index_t end) const {
    if (begin >= 0 && begin <= end && end <= size()) return;
    throw Error(path() + ": tokens", fmt::format("{} to {}", begin, end), fmt::format("within 0 to {}", size()));
  }

  /// f(part, place in the part, how many, place among all that are asked for)
  template <class F>
  void each_part(index_t begin, index_t count, F&& f) const {
    require_range(begin, begin + count);
    const auto& parts = content_->parts;
    auto part =
        std::upper_bound(parts.begin(), parts.end(), begin, [](index_t at, const Part& p) { return at < p.end; });
    for (index_t at = 0; at < count; ++part) {
      if (part->tokens.file) part->tokens.file->require_whole();
      const index_t first = begin + at, take = std::min(part->end - first, count - at);
      if (take > 0) f(*part, first - part->begin, take, at);
      at += take;
    }
  }

  std::shared_ptr<const Content> content_;
};

}  // namespace K3SPEC_NAMESPACE
