#pragma once
/// \file
/// The header of a safetensors file, checked whole: nothing in it is believed before the last check has passed.
/// Layout: u64 length of the header (little-endian), the header (JSON, padded with spaces), the data.
/// defines: io::TensorInfo, io::SafetensorsHeader, io::parse_safetensors_header, io::shape_string
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
#include <utility>
#include <vector>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/error.hpp>
#include <k3spec/core/extents.hpp>
#include <k3spec/io/json.hpp>

namespace k3spec::io {

/// Bytes; the format's own limit on the header.
inline constexpr std::uint64_t max_safetensors_header = 100'000'000;

struct TensorInfo {
  DType dtype = DType::F32;
  std::vector<index_t> shape;
  /// Bytes of the data section.
  std::uint64_t begin = 0, end = 0;
};

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

/// A field of a tensor's entry, named in every message about it.
struct HeaderField {
  std::string_view file, tensor;
  const json& entry;
  const char* key;

  [[noreturn]] void refuse(std::string_view found, std::string_view wanted) const {
    throw Error(tensor_subject(file, tensor, key), found, wanted);
  }
  const json& value() const {
    const auto at = entry.find(key);
    if (at == entry.end()) refuse("nothing", "a value");
    return *at;
  }
  /// Non-negative integers that fit index_t.
  std::vector<index_t> integers() const {
    const json& list = value();
    const char* wanted = "a list of integers from 0 to 2^63 - 1";
    if (!list.is_array()) refuse(excerpt(list), wanted);
    std::vector<index_t> out;
    for (const json& n : list) {
      if (!n.is_number_unsigned() || n.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<index_t>::max()}) {
        refuse(excerpt(n), wanted);
      }
      out.push_back(n.get<index_t>());
    }
    return out;
  }
};

inline DType header_dtype(const HeaderField& field) {
  const json& value = field.value();
  const auto dtype = value.is_string() ? parse_dtype(value.get<std::string>()) : std::nullopt;
  if (!dtype) field.refuse(excerpt(value), "a known element type (F64, F32, F16, BF16, I64, ..., BOOL)");
  return *dtype;
}

inline void header_offsets(const HeaderField& field, TensorInfo& info, std::uint64_t data_size) {
  const auto offsets = field.integers();
  if (offsets.size() != 2) field.refuse(std::to_string(offsets.size()) + " numbers", "2: begin and end");
  info.begin = static_cast<std::uint64_t>(offsets[0]);
  info.end = static_cast<std::uint64_t>(offsets[1]);
  if (info.end < info.begin) field.refuse(shape_string(offsets), "begin <= end");
  if (info.end > data_size) {
    field.refuse("end " + std::to_string(info.end),
                 "at most the " + std::to_string(data_size) + " bytes of data in the file");
  }
}

inline TensorInfo header_tensor(std::string_view file, std::string_view tensor, const json& entry,
                                std::uint64_t data_size) {
  if (!entry.is_object()) throw Error(tensor_subject(file, tensor), excerpt(entry), "an object");
  for (const auto& [key, value] : entry.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      throw Error(tensor_subject(file, tensor), "field '" + key + "'", "dtype, shape and data_offsets only");
    }
  }
  TensorInfo info;
  info.dtype = header_dtype({file, tensor, entry, "dtype"});
  info.shape = HeaderField{file, tensor, entry, "shape"}.integers();
  const auto bytes = byte_count(info.dtype, info.shape);
  if (!bytes) throw Error(tensor_subject(file, tensor, "shape"), shape_string(info.shape), "a size below 2^63 bytes");
  header_offsets({file, tensor, entry, "data_offsets"}, info, data_size);
  if (*bytes != info.end - info.begin) {
    throw Error(tensor_subject(file, tensor, "bytes"), std::to_string(info.end - info.begin),
                std::to_string(*bytes) + " (" + std::string(name(info.dtype)) + " " + shape_string(info.shape) + ")");
  }
  return info;
}

inline std::map<std::string, std::string> header_metadata(std::string_view file, const json& entry) {
  const std::string subject = std::string(file) + ": __metadata__";
  if (!entry.is_object()) throw Error(subject, excerpt(entry), "an object");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) throw Error(subject + ": '" + key + "'", excerpt(value), "a string");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

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

/// The header's text, its length checked against the file.
inline std::string_view header_text(std::string_view file, std::span<const std::byte> bytes) {
  const std::string subject = std::string(file) + ": header";
  if (bytes.size() < 8)
    throw Error(subject, "a file of " + std::to_string(bytes.size()) + " bytes", "8 bytes of header length");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  if (length > bytes.size() - 8) {
    throw Error(subject + " length", std::to_string(length),
                "at most the " + std::to_string(bytes.size() - 8) + " bytes that follow");
  }
  if (length > max_safetensors_header) {
    throw Error(subject + " length", std::to_string(length), "at most " + std::to_string(max_safetensors_header));
  }
  return {reinterpret_cast<const char*>(bytes.data()) + 8, static_cast<std::size_t>(length)};
}

}  // namespace detail

/// \param file   the name for messages
/// \param bytes  the whole file
/// \throws Error for every way a file can be malformed (SPEC section 7)
inline SafetensorsHeader parse_safetensors_header(std::string_view file, std::span<const std::byte> bytes) {
  const std::string_view text = detail::header_text(file, bytes);
  const std::string subject = std::string(file) + ": header";
  const json root = parse_json(text, subject);
  if (!root.is_object()) throw Error(subject, detail::excerpt(root), "an object");
  SafetensorsHeader header;
  header.data_start = 8 + text.size();
  const std::uint64_t data_size = bytes.size() - header.data_start;
  for (const auto& [name, entry] : root.items()) {
    if (name == "__metadata__") {
      header.metadata = detail::header_metadata(file, entry);
    } else {
      header.tensors.emplace(name, detail::header_tensor(file, name, entry, data_size));
    }
  }
  detail::check_layout(file, header.tensors, data_size);
  return header;
}

}  // namespace k3spec::io
