#pragma once
/// \file
/// What a call refuses of its arguments, so that nothing is read or written behind an end. Each test is a few
/// comparisons; nothing is made before one fails. `argument` is "call: argument", which the error names.
/// defines: require_count, require_rows, require_shape, require_index, require_part,
///          require_ids, require_tokens

#include <string>

#include <k3spec/core/error.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
[[noreturn]] inline void throw_count(const char* argument, index_t found, index_t wanted, const char* unit) {
  throw Error(argument, std::to_string(found), std::to_string(wanted) + unit);
}
[[noreturn]] inline void throw_shape(const char* argument, index_t r, index_t c, index_t rows, index_t columns) {
  throw Error(argument, std::to_string(r) + " x " + std::to_string(c),
              std::to_string(rows) + " x " + std::to_string(columns));
}
[[noreturn]] inline void throw_index(const char* argument, index_t at, index_t found, index_t count) {
  const std::string place = at < 0 ? std::string() : " at " + std::to_string(at);
  throw Error(argument + place, std::to_string(found), "0 to " + std::to_string(count - 1));
}
[[noreturn]] inline void throw_part(const char* argument, index_t first, index_t n, index_t count) {
  throw Error(argument, std::to_string(n) + " from " + std::to_string(first), "some of " + std::to_string(count));
}
}  // namespace detail

/// So many of something.
/// \param unit  what is counted, with a blank before it
/// \throws Error when there are more or fewer
inline void require_count(const char* argument, index_t found, index_t wanted, const char* unit = "") {
  if (found != wanted) detail::throw_count(argument, found, wanted, unit);
}

/// A view of so many rows. \throws Error when it has others
template <AnyView V>
void require_rows(const char* argument, const V& x, index_t rows) {
  if (x.extent(0) != rows) detail::throw_count(argument, x.extent(0), rows, " rows");
}

/// A view [rows, columns]; axes behind the first count as one. \throws Error when it is another
template <AnyView V>
void require_shape(const char* argument, const V& x, index_t rows, index_t columns) {
  if (x.extent(0) == rows && x.row_size() == columns) return;
  detail::throw_shape(argument, x.extent(0), x.row_size(), rows, columns);
}

/// An index of `count` things. \throws Error when it is none of them
inline void require_index(const char* argument, index_t i, index_t count) {
  if (i < 0 || i >= count) detail::throw_index(argument, -1, i, count);
}

/// [first, first + n) of `count` things. \throws Error when not all are among them
inline void require_part(const char* argument, index_t first, index_t n, index_t count) {
  if (first < 0 || n < 0 || first > count || n > count - first) detail::throw_part(argument, first, n, count);
}

/// Indices of `count` things, which may be the same. \throws Error naming the first that is none of them
inline void require_ids(const char* argument, const Vector<const index_t>& ids, index_t count) {
  for (index_t i = 0; i < ids.extent(0); ++i) {
    if (ids(i) < 0 || ids(i) >= count) detail::throw_index(argument, i, ids(i), count);
  }
}

/// Tokens of a vocabulary. \throws Error naming the first row whose token is none of it
inline void require_tokens(const Vector<const index_t>& ids, index_t vocabulary) {
  for (index_t r = 0; r < ids.extent(0); ++r) {
    if (ids(r) >= 0 && ids(r) < vocabulary) continue;
    throw Error("token id at row " + std::to_string(r), std::to_string(ids(r)),
                "0 to " + std::to_string(vocabulary - 1));
  }
}

}  // namespace K3SPEC_NAMESPACE
