#pragma once
/// \file
/// Writes safetensors files: the same tensors give the same bytes, and no tensor is copied on the way.
/// defines: io::TensorSource, io::stream_safetensors, io::write_safetensors

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/safetensors_reader.hpp>

namespace K3SPEC_NAMESPACE::io {

/// A tensor to write: row-major, packed.
struct TensorSource {
  std::string name;
  DType dtype;
  std::vector<index_t> shape;
  const void* data;
};

using Metadata = std::map<std::string, std::string>;

/// A view as a tensor to write.
/// \throws Error when the view has gaps between its rows
template <class T, index_t... E>
TensorSource source(std::string name, const View<T, E...>& view) {
  if (!view.is_packed()) throw Error("'" + name + "'", "gaps between rows", "a packed tensor");
  return {std::move(name), dtype_of<T>, shape_of(view), view.data()};
}

namespace detail {

/// Wide elements first, so that every tensor is aligned to its elements; then by name.
inline std::vector<const TensorSource*> writing_order(const std::vector<TensorSource>& tensors) {
  std::vector<const TensorSource*> order;
  for (const auto& t : tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const TensorSource* a, const TensorSource* b) {
    return size_of(a->dtype) != size_of(b->dtype) ? size_of(a->dtype) > size_of(b->dtype) : a->name < b->name;
  });
  return order;
}

inline std::uint64_t checked_bytes(const TensorSource& t) {
  const bool negative = std::any_of(t.shape.begin(), t.shape.end(), [](index_t n) { return n < 0; });
  const auto bytes = negative ? std::nullopt : byte_count(t.dtype, t.shape);
  if (!bytes) throw Error("'" + t.name + "': shape", shape_string(t.shape), "extents >= 0 and a size below 2^63 bytes");
  if (t.data == nullptr && *bytes != 0) throw Error("'" + t.name + "'", "no data", std::to_string(*bytes) + " bytes");
  return *bytes;
}

inline std::string header_text(const json& value) {
  try {
    return value.dump();
  } catch (const Error& e) {
    throw Error("safetensors header", e.found(), "names and metadata in UTF-8");
  }
}

/// A tensor's member of the header; its data stand at [begin, end).
inline std::string header_member(const TensorSource& t, std::uint64_t begin, std::uint64_t end) {
  return header_text(t.name) + ":{\"dtype\":\"" + std::string(name(t.dtype)) + "\",\"shape\":" + json(t.shape).dump() +
         ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

/// Length and text of the header, padded so that the data starts at a multiple of 8.
inline std::string header_bytes(const std::vector<const TensorSource*>& order, const Metadata& metadata) {
  // As text at once: an ordered JSON object looks through all its members for each that is added.
  std::set<std::string_view> seen{"__metadata__"};
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + header_text(metadata);
  std::uint64_t offset = 0;
  for (const TensorSource* t : order) {
    if (!seen.insert(t->name).second)
      throw Error("'" + t->name + "'", "the name twice", "unique names, none of them __metadata__");
    if (t->shape.size() > max_extents) {
      throw Error("'" + t->name + "': shape", std::to_string(t->shape.size()) + " extents",
                  "at most " + std::to_string(max_extents));
    }
    const std::uint64_t end = offset + checked_bytes(*t);
    text.append(text.size() > 1 ? "," : "").append(header_member(*t, offset, end));
    offset = end;
  }
  text += "}";
  if (text.size() > max_safetensors_header - 8) {
    throw Error("safetensors header", std::to_string(text.size()) + " bytes",
                "at most " + std::to_string(max_safetensors_header - 8));
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, 8);
  return prefix + text;
}

}  // namespace detail

/// Writes to anything with write(pointer, bytes), one call for the header and one for each tensor.
/// \throws Error on a duplicate name, an impossible shape, or text that is not UTF-8, before the first write
template <class Sink>
void stream_safetensors(Sink& sink, const std::vector<TensorSource>& tensors, const Metadata& metadata = {}) {
  const auto order = detail::writing_order(tensors);
  const std::string header = detail::header_bytes(order, metadata);
  sink.write(header.data(), header.size());
  for (const TensorSource* t : order) sink.write(t->data, detail::checked_bytes(*t));
}

/// Replaces `path` at once; when writing fails the file is as it was.
/// \throws Error naming the file, as write_atomically
inline void write_safetensors(const std::filesystem::path& path, const std::vector<TensorSource>& tensors,
                              const Metadata& metadata = {}) {
  write_atomically(path, [&](FileSink& sink) { stream_safetensors(sink, tensors, metadata); });
}

}  // namespace K3SPEC_NAMESPACE::io
