#pragma once
/// \file
/// Tokens as one file has them, wherever they lie, and what is checked of those of any file.
/// defines: io::TokenPart, io::check_tokens, io::check_mask, io::check_lengths

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/core/error.hpp>
#include <k3spec/io/integer_column.hpp>
#include <k3spec/io/mapped_file.hpp>

namespace K3SPEC_NAMESPACE::io {

/// A piece of training data. Its columns lie in the mapped file, else in what is held.
struct TokenPart {
  std::shared_ptr<const MappedFile> file;  ///< none: all of it is held
  std::shared_ptr<const void> held;
  IntegerColumn ids;
  IntegerColumn loss_mask;       ///< [ids] 0: not to be learnt; empty: all are
  std::vector<index_t> lengths;  ///< tokens of each document, which add up to all; none: the file knows no documents
};

/// Says where a place of a column is, for messages: "row 3, position 5".
using TokenPlace = std::function<std::string(index_t)>;

/// A column is a plain list.
inline TokenPlace plain_place(std::string_view what = "token") {
  return [what = std::string(what)](index_t i) { return what + " " + std::to_string(i); };
}

namespace detail {

inline void check_values(std::string_view subject, const IntegerColumn& values, index_t limit,
                         const TokenPlace& place) {
  const index_t bad = values.first_outside(limit);
  if (bad == values.count) return;
  throw Error(std::string(subject) + ": " + place(bad), values.text(bad), "0 to " + std::to_string(limit - 1));
}

}  // namespace detail

/// Refuses tokens out of range.
/// \throws Error on an id that is none of the vocabulary's
inline void check_tokens(std::string_view subject, const IntegerColumn& ids, index_t vocabulary,
                         const TokenPlace& place = plain_place()) {
  detail::check_values(subject, ids, vocabulary, place);
}

/// Refuses what is no loss mask.
/// \param tokens  how many ids there are
/// \throws Error on a mask of another length, and on values that are neither 0 nor 1
inline void check_mask(std::string_view subject, const IntegerColumn& mask, index_t tokens,
                       const TokenPlace& place = plain_place()) {
  if (mask.count != tokens) {
    throw Error(std::string(subject), std::to_string(mask.count) + " values",
                std::to_string(tokens) + ", one for each of input_ids");
  }
  detail::check_values(subject, mask, 2, place);
}

/// The lengths of documents.
/// \param tokens  how many ids there are
/// \throws Error on a length that is negative, and on lengths that do not add up to all tokens
inline std::vector<index_t> check_lengths(std::string_view subject, const IntegerColumn& lengths, index_t tokens) {
  const index_t bad = lengths.first_outside(tokens + 1);
  if (bad != lengths.count) {
    throw Error(std::string(subject) + ": document " + std::to_string(bad), lengths.text(bad),
                "0 to " + std::to_string(tokens) + ", all tokens there are");
  }
  std::vector<index_t> all(static_cast<std::size_t>(lengths.count));
  lengths.copy(0, lengths.count, all.data());
  index_t sum = 0;
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (all[d] <= tokens - sum) {
      sum += all[d];
      continue;
    }
    throw Error(std::string(subject) + ": document " + std::to_string(d), "its end behind the last token",
                "lengths that add up to " + std::to_string(tokens));
  }
  if (sum != tokens) throw Error(std::string(subject), "a sum of " + std::to_string(sum), std::to_string(tokens));
  return all;
}

}  // namespace K3SPEC_NAMESPACE::io
