#pragma once
/// \file
/// Reads tensors from one safetensors file. Whatever was written to it since it was opened, reading is memory-safe; a
/// file that was cut is an Error.
/// defines: io::SafetensorsFile, io::shape_of

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/core/view.hpp>
#include <k3spec/io/convert.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/io/safetensors_header.hpp>

namespace K3SPEC_NAMESPACE::io {

/// A view's extents as a header lists them.
template <class T, index_t... E>
std::vector<index_t> shape_of(const View<T, E...>& view) {
  std::vector<index_t> shape;
  for (std::size_t axis = 0; axis < sizeof...(E); ++axis) shape.push_back(view.extent(axis));
  return shape;
}

/// A safetensors file to read from.
class SafetensorsFile {
 public:
  /// Opens the file and checks its whole header; no tensor is read. The file stays open as long as this object lives.
  /// \throws Error naming file, tensor, what was found and what was wanted
  static SafetensorsFile open(const std::filesystem::path& path) { return SafetensorsFile(path); }

  const std::string& path() const { return path_; }
  /// By name, in ascending order.
  const std::map<std::string, TensorInfo>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, info] : tensors()) out.push_back(name);
    return out;
  }

  bool contains(const std::string& name) const { return tensors().count(name) != 0; }
  /// A tensor's type and shape.
  /// \throws Error when the file has no such tensor
  const TensorInfo& info(const std::string& name) const { return tensor(name).second; }
  /// A name and what it is of, as long as this or what it is moved to lives.
  using Tensor = std::map<std::string, TensorInfo>::value_type;
  /// The tensor of that name.
  /// \throws Error when the file has no such tensor
  const Tensor& tensor(const std::string& name) const {
    const auto at = tensors().find(name);
    if (at == tensors().end()) throw Error(detail::tensor_subject(path_, name), "no such tensor", "one of this name");
    return *at;
  }
  DType dtype(const std::string& name) const { return info(name).dtype; }
  const std::vector<index_t>& shape(const std::string& name) const { return info(name).shape; }

  /// A copy of the tensor as stored, row-major.
  std::vector<std::byte> read_bytes(const std::string& name) const {
    const TensorInfo& i = info(name);
    std::vector<std::byte> out(i.end - i.begin);
    read_at(tensor(name), 0, out.data(), out.size());
    return out;
  }

  /// Elements `first` to `first + count` of the tensor in storage order, as `to` (see can_convert).
  /// \throws Error when the tensor has fewer elements, or does not convert
  void read_part(const std::string& name, std::uint64_t first, std::uint64_t count, DType to, void* out) const {
    read_part(tensor(name), first, count, to, out);
  }
  /// The same of a tensor of this file.
  void read_part(const Tensor& tensor, std::uint64_t first, std::uint64_t count, DType to, void* out) const {
    const auto& [name, i] = tensor;
    check_dtype(tensor, to);
    const std::uint64_t size = size_of(i.dtype), all = (i.end - i.begin) / size;
    if (first > all || count > all - first) {
      throw Error(detail::tensor_subject(path_, name, "elements"), std::to_string(all),
                  std::to_string(first) + " and " + std::to_string(count) + " more");
    }
    if (i.dtype == to && to != DType::BOOL) return read_at(tensor, first * size, out, count * size);
    std::vector<std::byte> piece(std::min(count, piece_elements) * size);
    auto* to_bytes = static_cast<std::byte*>(out);
    for (std::uint64_t done = 0; done < count; done += piece_elements) {
      const std::span bytes(piece.data(), std::min(count - done, piece_elements) * size);
      read_at(tensor, (first + done) * size, bytes.data(), bytes.size());
      convert(i.dtype, bytes, to, to_bytes + done * size_of(to));
    }
  }

  /// Throws Error unless the tensor has this shape and its elements can be held as `held_as`.
  void check(const std::string& name, std::span<const index_t> shape, DType held_as) const {
    const TensorInfo& i = info(name);
    if (!std::equal(shape.begin(), shape.end(), i.shape.begin(), i.shape.end())) {
      throw Error(detail::tensor_subject(path_, name, "shape"), shape_string(i.shape), shape_string(shape));
    }
    check_dtype(tensor(name), held_as);
  }

  /// Elements of any shape, `count` in all, as T (see can_convert), rounded at most once.
  /// \throws Error on another count or an element type that does not convert
  template <class T>
  void read_into(const std::string& name, T* out, index_t count) const {
    const index_t found = elements(name);
    if (found != count) {
      throw Error(detail::tensor_subject(path_, name, "elements"), std::to_string(found), std::to_string(count));
    }
    read_part(name, 0, static_cast<std::uint64_t>(count), dtype_of<T>, out);
  }

  /// As above; the shape must be the view's.
  template <class T, index_t... E>
  void read_into(const std::string& name, const View<T, E...>& out) const {
    check(name, shape_of(out), dtype_of<T>);
    if (out.is_packed()) return read_into(name, out.data(), out.size());
    const auto row = static_cast<std::uint64_t>(out.row_size());
    for (index_t i = 0; i < out.extent(0); ++i) {
      read_part(name, static_cast<std::uint64_t>(i) * row, row, dtype_of<T>, out.row(i));
    }
  }

  /// All elements, in order.
  template <class T>
  std::vector<T> read(const std::string& name) const {
    static_assert(!std::same_as<T, bool>, "vector<bool> has no elements to read into: use read_into");
    check_dtype(tensor(name), dtype_of<T>);
    std::vector<T> out(static_cast<std::size_t>(elements(name)));
    read_part(name, 0, out.size(), dtype_of<T>, out.data());
    return out;
  }

 private:
  /// A piece that is read at a time stays in the processor's cache until it is converted.
  static constexpr std::uint64_t piece_elements = 32768;

  explicit SafetensorsFile(const std::filesystem::path& path)
      : path_(path.string()), file_(path), header_(read_header(file_)) {}

  static SafetensorsHeader read_header(const InputFile& file) {
    std::byte prefix[8];
    const std::size_t there = file.read_some(0, prefix, sizeof(prefix));
    const std::uint64_t length = detail::header_length(file.path(), std::span(prefix).first(there), file.size());
    std::string text(static_cast<std::size_t>(length), '\0');
    file.read(8, text.data(), text.size());
    return detail::parse_header_text(file.path(), text, file.size());
  }

  /// Bytes of a tensor from `first` on.
  void read_at(const Tensor& tensor, std::uint64_t first, void* out, std::size_t size) const {
    const std::uint64_t at = header_.data_start + tensor.second.begin + first;
    const std::size_t done = file_.read_some(at, out, size);
    if (done == size) return;
    throw Error(detail::tensor_subject(path_, tensor.first), "its file's end at byte " + std::to_string(at + done),
                std::to_string(file_.size()) + " bytes, which it had when it was opened");
  }

  index_t elements(const std::string& name) const {
    const TensorInfo& i = info(name);
    return static_cast<index_t>((i.end - i.begin) / size_of(i.dtype));
  }

  void check_dtype(const Tensor& tensor, DType held_as) const {
    const auto& [name, info] = tensor;
    if (can_convert(info.dtype, held_as)) return;
    const std::string wanted = "one that converts to " + std::string(k3spec::name(held_as));
    throw Error(detail::tensor_subject(path_, name, "element type"), k3spec::name(info.dtype), wanted);
  }

  std::string path_;
  InputFile file_;
  SafetensorsHeader header_;
};

}  // namespace K3SPEC_NAMESPACE::io
