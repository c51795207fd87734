#pragma once
/// \file
/// Tensors that another implementation wrote, such as examples/dump_module.py of a PyTorch module.
/// defines: testing::Dump

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/core/parameters.hpp>
#include <k3spec/io/load_parameters.hpp>
#include <k3spec/testing/name_map.hpp>
#include <k3spec/testing/near_names.hpp>
#include <k3spec/testing/tensor.hpp>

namespace K3SPEC_NAMESPACE::testing {

/// A safetensors file, or several with an index, under one's own names.
class Dump {
 public:
  /// Opens all files and reads their headers; no tensor is read.
  /// \param path  as io::ModelTensors::open takes it: a file, an index, or a folder with model.safetensors or its index
  /// \throws Error as io::ModelTensors::open; on two tensors of one name here; on a pair of `names` that fits no tensor
  explicit Dump(const std::filesystem::path& path, const NameMap& names = {}) : tensors_(io::ModelTensors::open(path)) {
    std::vector<bool> used(names.renamed.size());
    for (const std::string& stored : tensors_.names()) {
      const std::string name = names(stored, &used);
      const auto [at, is_new] = stored_.emplace(name, stored);
      if (!is_new) throw Error(subject(name), "'" + at->second + "' and '" + stored + "'", "one tensor of this name");
      names_.emplace(stored, name);
    }
    const auto unused = std::find(used.begin(), used.end(), false);
    if (unused == used.end()) return;
    const std::string& from = names.renamed[static_cast<std::size_t>(unused - used.begin())].first;
    throw Error(tensors_.path() + ": renamed '" + from + "'", "no tensor with it in its name", "one");
  }

  const std::string& path() const { return tensors_.path(); }
  /// Ascending.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, stored] : stored_) out.push_back(name);
    return out;
  }
  bool contains(const std::string& name) const { return stored_.count(name) != 0; }
  /// The name in the file.
  /// \throws Error that lists near names when there is none
  const std::string& stored_name(const std::string& name) const {
    const auto at = stored_.find(name);
    if (at != stored_.end()) return at->second;
    std::string near;
    for (const std::string& other : near_names(name, names())) near += (near.empty() ? "'" : ", '") + other + "'";
    throw Error(subject(name), "no such tensor",
                near.empty() ? "one, but there is no tensor at all" : "one of this name; near it are " + near);
  }
  /// A tensor's shape.
  /// \throws Error as stored_name
  const std::vector<index_t>& shape(const std::string& name) const { return tensors_.shape(stored_name(name)); }
  /// The type that it is stored in.
  /// \throws Error as stored_name
  DType dtype(const std::string& name) const { return tensors_.dtype(stored_name(name)); }

  /// A tensor as T: double, float and bfloat16 of what is stored as F64, F32, F16 or BF16, rounded at most once;
  /// index_t and std::uint8_t of integers that fit and of BOOL. \throws Error as stored_name, and on a type that does
  /// not convert
  template <class T>
  Tensor<T> read(const std::string& name) const {
    const std::string& stored = stored_name(name);
    Tensor<T> out{name, tensors_.shape(stored), {}, tensors_.dtype(stored)};
    if constexpr (!Element<T>) {
      if (out.stored == DType::BOOL) {
        for (const std::byte b : tensors_.read_bytes(stored)) out.values.push_back(b == std::byte{0} ? T(0) : T(1));
        return out;
      }
    }
    out.values = tensors_.read<T>(stored);
    return out;
  }

  /// A tensor of any type as doubles, to be compared; integers beyond 2^53 are rounded.
  /// \throws Error as stored_name, and on types that programs do not hold (F8)
  Tensor<double> numbers(const std::string& name) const {
    const DType type = dtype(name);
    if (io::can_convert(type, DType::F64)) return read<double>(name);
    const Tensor<index_t> whole = read<index_t>(name);
    return {name, whole.shape, {whole.values.begin(), whole.values.end()}, type};
  }

  /// Reads a tensor into a view.
  /// \throws Error as read, and on another shape, which names both
  template <class T, index_t... E>
  void read_into(const std::string& name, const View<T, E...>& out) const {
    tensors_.read_into(stored_name(name), out);
  }

  /// Reads all parameters of a model, `weight` of it being `prefix` + "weight" here.
  /// \throws Error when one is absent (near names are listed), has another shape (both are named) or does not convert,
  ///         and when a tensor whose name begins with the prefix is none of the model's; nothing is written then
  template <class Layer, class T>
  void load(Parameters<Layer, T>& parameters, const std::string& prefix = "param.") const {
    auto weights = parameters.mutable_weights();
    auto slots = io::slots<Layer>(weights);
    for (io::TensorSlot& slot : slots) slot.name = stored_name(prefix + slot.name);
    io::LoadOptions options;
    options.known = [&](std::string_view stored) { return !names_.find(stored)->second.starts_with(prefix); };
    options.mxfp4 = io::named({});
    io::load_parameters(tensors_, slots, options);
  }

 private:
  std::string subject(const std::string& name) const { return tensors_.path() + ": '" + name + "'"; }

  io::ModelTensors tensors_;
  std::map<std::string, std::string> stored_;              ///< by the name here
  std::map<std::string, std::string, std::less<>> names_;  ///< by the name in the file
};

}  // namespace K3SPEC_NAMESPACE::testing
