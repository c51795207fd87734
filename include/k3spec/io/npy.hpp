#pragma once
/// \file
/// NumPy's files of one list of integers. Layout: "\x93NUMPY", version 1.0 or 2.0, the length of the header (two or
/// four bytes, little-endian), the header (a Python dictionary with descr, fortran_order and shape), the data.
/// defines: io::parse_npy
/// \see https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <k3spec/core/error.hpp>
#include <k3spec/core/printable.hpp>
#include <k3spec/io/integer_column.hpp>

namespace K3SPEC_NAMESPACE::io {

namespace detail {

/// Reads the header's dictionary: three fields, each once, in any order.
class NpyHeader {
 public:
  NpyHeader(std::string_view file, std::string_view text) : file_(std::string(file) + ": header"), rest_(text) {
    expect("{");
    while (!take("}")) {
      const std::string_view field = quoted();
      expect(":");
      read(field);
      if (take(",")) continue;
      expect("}");
      break;
    }
    blanks();
    if (!rest_.empty()) refuse("its end");
    for (const auto& [found, what] : {std::pair(type_.has_value(), "descr"), std::pair(order_, "fortran_order"),
                                      std::pair(count_.has_value(), "shape")}) {
      if (!found) throw Error(file_ + ": " + what, "nothing", "a value");
    }
  }

  DType type() const { return *type_; }
  index_t count() const { return *count_; }

 private:
  [[noreturn]] void refuse(std::string_view wanted) const {
    throw Error(file_, rest_.empty() ? "its end" : printable(rest_.substr(0, 40)), wanted);
  }
  void blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }
  bool take(std::string_view token) {
    blanks();
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) refuse(token);
  }
  std::string_view quoted() {
    blanks();
    const char quote = rest_.empty() ? '\0' : rest_[0];
    const std::size_t end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : std::string_view::npos;
    if (end == std::string_view::npos) refuse("a name in quotes");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  void read(std::string_view field) {
    const bool known = field == "descr" || field == "fortran_order" || field == "shape";
    if (!known) throw Error(file_, "field '" + printable(field, 40) + "'", "descr, fortran_order and shape only");
    const bool twice = field == "descr" ? type_.has_value() : field == "shape" ? count_.has_value() : order_;
    if (twice) throw Error(file_ + ": " + std::string(field), "it twice", "it once");
    if (field == "descr") return read_type();
    if (field == "shape") return read_shape();
    order_ = true;
    if (take("True")) throw Error(file_ + ": fortran_order", "True", "False");
    expect("False");
  }
  void read_type() {
    constexpr std::array<std::pair<std::string_view, DType>, 10> types{{{"|u1", DType::U8},
                                                                        {"<u1", DType::U8},
                                                                        {"|i1", DType::I8},
                                                                        {"<i1", DType::I8},
                                                                        {"<u2", DType::U16},
                                                                        {"<i2", DType::I16},
                                                                        {"<u4", DType::U32},
                                                                        {"<i4", DType::I32},
                                                                        {"<u8", DType::U64},
                                                                        {"<i8", DType::I64}}};
    blanks();
    if (rest_.substr(0, 1) == "[") throw Error(file_ + ": descr", "several fields", "one integer");
    const std::string_view text = quoted();
    for (const auto& [spelling, type] : types) {
      if (text == spelling) type_ = type;
    }
    if (type_) return;
    throw Error(file_ + ": descr", printable(text, 40),
                "little-endian integers: one of <u1 <u2 <u4 <u8 <i1 <i2 <i4 <i8");
  }
  void read_shape() {
    expect("(");
    blanks();
    index_t n = 0;
    const auto [end, failed] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), n);
    if (failed != std::errc() || n < 0) refuse("the length of one list of tokens");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    expect(",");
    if (!take(")")) throw Error(file_ + ": shape", "several extents", "one: a list of tokens");
    count_ = n;
  }

  std::string file_;
  std::string_view rest_;
  std::optional<DType> type_;
  std::optional<index_t> count_;
  bool order_ = false;
};

}  // namespace detail

/// The integers of a file that lies in memory, where they stay.
/// \param file  the name for messages
/// \throws Error for every way a file can be malformed, and on what is not one list of little-endian integers
inline IntegerColumn parse_npy(std::string_view file, std::span<const std::byte> bytes) {
  const std::string subject(file);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::string_view magic = "\x93NUMPY";
  if (text.substr(0, magic.size()) != magic) throw Error(subject, "a file that does not begin with \\x93NUMPY", "it");
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(text[i])); };
  if (text.size() < 8) throw Error(subject, std::to_string(text.size()) + " bytes", "a header");
  if ((byte(6) != 1 && byte(6) != 2) || byte(7) != 0) {
    throw Error(subject + ": version", std::to_string(byte(6)) + "." + std::to_string(byte(7)), "1.0 or 2.0");
  }
  const std::size_t width = byte(6) == 1 ? 2 : 4, start = 8 + width;
  if (text.size() < start) throw Error(subject, std::to_string(text.size()) + " bytes", "a header");
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i) length |= byte(8 + i) << (8 * i);
  if (length > text.size() - start) {
    throw Error(subject + ": header length", std::to_string(length),
                "at most the " + std::to_string(text.size() - start) + " bytes that follow");
  }
  const detail::NpyHeader header(file, text.substr(start, length));
  const std::size_t there = text.size() - start - length, each = size_of(header.type());
  if (there % each != 0 || std::cmp_not_equal(there / each, header.count())) {
    throw Error(subject + ": data", std::to_string(there) + " bytes",
                std::to_string(header.count()) + " elements of " + std::to_string(each) + ", as the header says");
  }
  return {bytes.data() + start + length, header.type(), header.count()};
}

}  // namespace K3SPEC_NAMESPACE::io
