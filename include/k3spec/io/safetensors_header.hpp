#pragma once
/// \file
/// The header of a safetensors file, checked whole: nothing in it is believed before the last check has passed.
/// Layout: u64 length of the header (little-endian), the header (JSON, padded with spaces), the data.
/// defines: io::max_extents, io::TensorInfo, io::SafetensorsHeader, io::parse_safetensors_header, io::shape_string
/// \see https://github.com/huggingface/safetensors

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/io/json.hpp>

namespace K3SPEC_NAMESPACE::io {

/// Bytes; the format's own limit on the header.
inline constexpr std::uint64_t max_safetensors_header = 100'000'000;

/// More extents than any framework's tensors have.
inline constexpr std::size_t max_extents = 64;

/// A tensor as the header describes it.
struct TensorInfo {
  DType dtype = DType::F32;
  std::vector<index_t> shape;
  /// Bytes of the data section.
  std::uint64_t begin = 0, end = 0;
};

/// The header of a safetensors file.
struct SafetensorsHeader {
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  /// Where in the file the data starts.
  std::uint64_t data_start = 0;
};

/// "[2, 3]"
inline std::string shape_string(std::span<const index_t> shape) {
  std::string text = "[";
  for (const index_t n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + "]";
}

/// The element type of a name as safetensors spells it; nothing: there is no such type.
inline std::optional<DType> parse_dtype(std::string_view text) {
  for (auto i = 0U; i <= static_cast<unsigned>(DType::BOOL); ++i) {
    if (name(static_cast<DType>(i)) == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

/// Bytes of a tensor; none when they do not fit 63 bits.
inline std::optional<std::uint64_t> byte_count(DType dtype, std::span<const index_t> shape) {
  std::uint64_t bytes = size_of(dtype);
  for (const index_t n : shape) {
    const auto extent = static_cast<std::uint64_t>(n);
    if (extent != 0 && bytes > std::uint64_t{std::numeric_limits<index_t>::max()} / extent) return std::nullopt;
    bytes *= extent;
  }
  return bytes;
}

namespace detail {

inline std::string tensor_subject(std::string_view file, std::string_view tensor, std::string_view what = {}) {
  std::string subject(file);
  subject.append(": '").append(tensor).append("'");
  return what.empty() ? subject : subject.append(": ").append(what);
}

/// Reads the header as it is parsed: each entry is checked when it ends, and no JSON of it is kept.
class HeaderEvents : public JsonEvents<HeaderEvents> {
 public:
  /// \param data_size  bytes behind the header
  HeaderEvents(std::string_view file, SafetensorsHeader& header, std::uint64_t data_size)
      : JsonEvents(std::string(file) + ": header"), file_(file), header_(header), data_size_(data_size) {}

  void on_open(bool is_object) {
    const std::string found = is_object ? "an object" : "a list";
    if (depth() == 1 && !is_object) throw Error(subject(), found, "an object");
    if (depth() == 2 && !is_object) refuse({}, found, "an object");
    if (depth() == 3 && (in_metadata_ || field_ == dtype)) refuse_value(found);
    if (depth() == 3 && is_object) refuse_value(found);
    if (depth() == 4) refuse_value(found);
  }
  void on_close() {
    if (depth() == 1 && !in_metadata_) finish_tensor();
  }
  void on_key(std::string& name) {
    if (depth() == 1) return begin_entry(name);
    key_ = std::move(name);
    if (in_metadata_) return;
    const auto at = std::find(std::begin(fields), std::end(fields), key_);
    if (at == std::end(fields)) refuse({}, "field '" + key_ + "'", "dtype, shape and data_offsets only");
    field_ = static_cast<Field>(at - std::begin(fields));
    if (std::exchange(seen_[field_], true)) throw_twice(subject_of({}), key_);
  }
  void on_value(json& value) {
    if (depth() == 0) throw Error(subject(), excerpt(value), "an object");
    if (depth() == 1) refuse({}, excerpt(value), "an object");
    if (in_metadata_) return add_metadata(value);
    if (depth() == 2 && field_ == dtype) return set_dtype(value);
    if (depth() == 2) refuse_value(excerpt(value));
    add_integer(value);
  }

 private:
  enum Field { dtype, shape, data_offsets };
  static constexpr std::string_view fields[] = {"dtype", "shape", "data_offsets"};
  static constexpr const char* metadata_name = "__metadata__";

  std::string subject_of(std::string_view what) const {
    if (!in_metadata_) return tensor_subject(file_, tensor_->first, what);
    return std::string(file_) + ": " + metadata_name + (what.empty() ? "" : ": '" + std::string(what) + "'");
  }
  [[noreturn]] void refuse(std::string_view what, std::string_view found, std::string_view wanted) const {
    throw Error(subject_of(what), found, wanted);
  }
  [[noreturn]] void refuse_value(std::string_view found) const {
    if (in_metadata_) refuse(key_, found, "a string");
    refuse(fields[field_], found,
           field_ == dtype ? "a known element type (F64, F32, F16, BF16, I64, ..., BOOL)"
                           : "a list of integers from 0 to 2^63 - 1");
  }

  void begin_entry(std::string& name) {
    in_metadata_ = name == metadata_name;
    if (in_metadata_ && std::exchange(seen_metadata_, true)) throw_twice(subject(), name);
    if (in_metadata_) return;
    bool is_new = false;
    std::tie(tensor_, is_new) = header_.tensors.try_emplace(std::move(name));
    if (!is_new) throw_twice(subject(), tensor_->first);
    std::fill(std::begin(seen_), std::end(seen_), false);
    offsets_.clear();
  }
  void add_metadata(json& value) {
    if (!value.is_string()) refuse_value(excerpt(value));
    const auto [at, is_new] = header_.metadata.try_emplace(key_, std::move(value.text()));
    if (!is_new) throw_twice(subject_of({}), key_);
  }
  void set_dtype(const json& value) {
    const auto known = value.is_string() ? parse_dtype(value.text()) : std::nullopt;
    if (!known) refuse_value(excerpt(value));
    tensor_->second.dtype = *known;
  }
  void add_integer(const json& value) {
    constexpr auto largest = std::uint64_t{std::numeric_limits<index_t>::max()};
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > largest) refuse_value(excerpt(value));
    std::vector<index_t>& list = field_ == shape ? tensor_->second.shape : offsets_;
    if (list.size() == max_extents) {
      refuse(fields[field_], "more than " + std::to_string(max_extents) + " numbers", "no more of them");
    }
    list.push_back(value.get<index_t>());
  }

  void finish_tensor() {
    for (const Field field : {dtype, shape, data_offsets}) {
      if (!seen_[field]) refuse(fields[field], "nothing", "a value");
    }
    TensorInfo& info = tensor_->second;
    const auto bytes = byte_count(info.dtype, info.shape);
    if (!bytes) refuse("shape", shape_string(info.shape), "a size below 2^63 bytes");
    set_offsets(info);
    if (*bytes == info.end - info.begin) return;
    refuse("bytes", std::to_string(info.end - info.begin),
           std::to_string(*bytes) + " (" + std::string(name(info.dtype)) + " " + shape_string(info.shape) + ")");
  }
  void set_offsets(TensorInfo& info) const {
    const std::string_view field = fields[data_offsets];
    if (offsets_.size() != 2) refuse(field, std::to_string(offsets_.size()) + " numbers", "2: begin and end");
    info.begin = static_cast<std::uint64_t>(offsets_[0]);
    info.end = static_cast<std::uint64_t>(offsets_[1]);
    if (info.end < info.begin) refuse(field, shape_string(offsets_), "begin <= end");
    if (info.end <= data_size_) return;
    refuse(field, "end " + std::to_string(info.end),
           "at most the " + std::to_string(data_size_) + " bytes of data in the file");
  }

  std::string_view file_;
  SafetensorsHeader& header_;
  std::uint64_t data_size_;
  std::map<std::string, TensorInfo>::iterator tensor_;
  std::string key_;
  Field field_ = dtype;
  bool seen_[3] = {}, in_metadata_ = false, seen_metadata_ = false;
  std::vector<index_t> offsets_;
};

/// Every byte of the data belongs to exactly one tensor.
inline void check_layout(std::string_view file, const std::map<std::string, TensorInfo>& tensors,
                         std::uint64_t data_size) {
  std::vector<std::pair<const std::string*, const TensorInfo*>> order;
  for (const auto& [name, info] : tensors) order.emplace_back(&name, &info);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  std::uint64_t filled = 0;
  for (const auto& [name, info] : order) {
    if (info->begin != filled) {
      const char* fault = info->begin < filled ? " (overlaps the tensor before)" : " (leaves a hole)";
      throw Error(tensor_subject(file, *name, "data_offsets"), "begin " + std::to_string(info->begin) + fault,
                  std::to_string(filled));
    }
    filled = info->end;
  }
  if (filled != data_size) {
    throw Error(std::string(file) + ": data", std::to_string(data_size) + " bytes",
                std::to_string(filled) + ", what the tensors take");
  }
}

/// Bytes of the header's text. \param prefix  the first 8 of the file, or fewer where there are no more
inline std::uint64_t header_length(std::string_view file, std::span<const std::byte> prefix, std::uint64_t file_size) {
  const std::string subject = std::string(file) + ": header";
  if (prefix.size() < 8) {
    throw Error(subject, "a file of " + std::to_string(file_size) + " bytes", "8 bytes of header length");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, prefix.data(), 8);
  if (length > file_size - 8) {
    throw Error(subject + " length", std::to_string(length),
                "at most the " + std::to_string(file_size - 8) + " bytes that follow");
  }
  if (length > max_safetensors_header) {
    throw Error(subject + " length", std::to_string(length), "at most " + std::to_string(max_safetensors_header));
  }
  return length;
}

/// \param text  the header's
inline SafetensorsHeader parse_header_text(std::string_view file, std::string_view text, std::uint64_t file_size) {
  SafetensorsHeader header;
  header.data_start = 8 + text.size();
  HeaderEvents events(file, header, file_size - header.data_start);
  // The format has the object begin at once, so that a file can be told by its ninth byte.
  if (!text.empty() && std::string_view(" \t\n\r").find(text.front()) != std::string_view::npos) {
    throw Error(std::string(file) + ": header", "a blank at its beginning", "an object at once");
  }
  events.parse(text);
  check_layout(file, header.tensors, file_size - header.data_start);
  return header;
}

}  // namespace detail

/// Reads the header of a safetensors file that lies in memory.
/// \param file   the name for messages
/// \param bytes  the whole file
/// \throws Error for every way a file can be malformed (SPEC section 7)
inline SafetensorsHeader parse_safetensors_header(std::string_view file, std::span<const std::byte> bytes) {
  const auto length = detail::header_length(file, bytes.first(std::min<std::size_t>(8, bytes.size())), bytes.size());
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  return detail::parse_header_text(file, {text, static_cast<std::size_t>(length)}, bytes.size());
}

}  // namespace K3SPEC_NAMESPACE::io
