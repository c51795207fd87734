#pragma once
/// \file
/// Reads tensors from one safetensors file.
/// defines: io::SafetensorsFile, io::shape_of

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/core/view.hpp>
#include <k3spec/io/convert.hpp>
#include <k3spec/io/mapped_file.hpp>
#include <k3spec/io/safetensors_header.hpp>

namespace k3spec::io {

template <class T, index_t... E>
std::vector<index_t> shape_of(const View<T, E...>& view) {
  std::vector<index_t> shape;
  for (std::size_t axis = 0; axis < sizeof...(E); ++axis) shape.push_back(view.extent(axis));
  return shape;
}

class SafetensorsFile {
 public:
  /// Maps the file and checks its whole header; no tensor is read.
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
  /// \throws Error when the file has no such tensor
  const TensorInfo& info(const std::string& name) const {
    const auto at = tensors().find(name);
    if (at == tensors().end()) throw Error(detail::tensor_subject(path_, name), "no such tensor", "one of this name");
    return at->second;
  }
  DType dtype(const std::string& name) const { return info(name).dtype; }
  const std::vector<index_t>& shape(const std::string& name) const { return info(name).shape; }

  /// The tensor as stored, row-major; not aligned. Valid as long as this object, wherever it is moved.
  std::span<const std::byte> bytes(const std::string& name) const {
    const TensorInfo& i = info(name);
    return file_.bytes().subspan(header_.data_start + i.begin, i.end - i.begin);
  }

  /// Throws Error unless the tensor has this shape and its elements can be held as `held_as`.
  void check(const std::string& name, std::span<const index_t> shape, DType held_as) const {
    const TensorInfo& i = info(name);
    if (!std::equal(shape.begin(), shape.end(), i.shape.begin(), i.shape.end())) {
      throw Error(detail::tensor_subject(path_, name, "shape"), shape_string(i.shape), shape_string(shape));
    }
    check_dtype(name, held_as);
  }

  /// Elements of any shape, `count` in all, as T (see can_convert), rounded at most once.
  /// \throws Error on another count or an element type that does not convert
  template <class T>
  void read_into(const std::string& name, T* out, index_t count) const {
    check_dtype(name, dtype_of<T>);
    const auto stored = bytes(name);
    const auto found = static_cast<index_t>(stored.size() / size_of(dtype(name)));
    if (found != count) {
      throw Error(detail::tensor_subject(path_, name, "elements"), std::to_string(found), std::to_string(count));
    }
    convert(dtype(name), stored, dtype_of<T>, out);
  }

  /// As above; the shape must be the view's.
  template <class T, index_t... E>
  void read_into(const std::string& name, const View<T, E...>& out) const {
    check(name, shape_of(out), dtype_of<T>);
    const std::size_t row_bytes = static_cast<std::size_t>(out.row_size()) * size_of(dtype(name));
    for (index_t i = 0; i < out.extent(0); ++i) {
      convert(dtype(name), bytes(name).subspan(static_cast<std::size_t>(i) * row_bytes, row_bytes), dtype_of<T>,
              out.row(i));
    }
  }

  /// All elements, in order.
  template <class T>
  std::vector<T> read(const std::string& name) const {
    static_assert(!std::same_as<T, bool>, "vector<bool> has no elements to read into: use read_into");
    check_dtype(name, dtype_of<T>);
    std::vector<T> out(bytes(name).size() / size_of(dtype(name)));
    convert(dtype(name), bytes(name), dtype_of<T>, out.data());
    return out;
  }

 private:
  explicit SafetensorsFile(const std::filesystem::path& path)
      : path_(path.string()), file_(path), header_(parse_safetensors_header(path_, file_.bytes())) {}

  void check_dtype(const std::string& name, DType held_as) const {
    if (can_convert(dtype(name), held_as)) return;
    const std::string wanted = "one that converts to " + std::string(k3spec::name(held_as));
    throw Error(detail::tensor_subject(path_, name, "element type"), k3spec::name(dtype(name)), wanted);
  }

  std::string path_;
  MappedFile file_;
  SafetensorsHeader header_;
};

}  // namespace k3spec::io
