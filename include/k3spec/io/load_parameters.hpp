#pragma once
/// \file
/// A checkpoint against a model: what the model needs is there, what is there the model knows, and nothing is written
/// before both are sure.
/// defines: io::TensorSlot, io::slots, io::sources, io::LoadOptions, io::named, io::check_parameters,
/// io::load_parameters

#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/core/parameters.hpp>
#include <k3spec/io/model_tensors.hpp>
#include <k3spec/io/mxfp4.hpp>
#include <k3spec/io/safetensors_writer.hpp>

namespace K3SPEC_NAMESPACE::io {

/// Where a model wants a tensor: row-major, packed.
struct TensorSlot {
  std::string name;
  DType dtype;
  std::vector<index_t> shape;
  void* data;
};

/// The tensors of a layer as Layer::visit names them, of Weights<T> or Weights<Unread<T>>, which have no place in
/// memory. \param at  where the layer stands in the model's names
template <class Layer, class Weights>
std::vector<TensorSlot> slots(Weights& weights, const Path& at = {}) {
  std::vector<TensorSlot> out;
  Layer::visit(weights, at, [&](const Path& path, auto& view, auto) {
    using T = typename std::remove_cvref_t<decltype(view)>::value_type;
    void* data = nullptr;
    if constexpr (requires { view.data(); }) data = view.data();
    out.push_back({path.str(), dtype_of<T>, shape_of(view), data});
  });
  return out;
}

/// The same for writing. Views that refer to nothing are left out.
template <class Layer, class Weights>
std::vector<TensorSource> sources(Weights& weights, const Path& at = {}) {
  std::vector<TensorSource> out;
  Layer::visit(weights, at, [&](const Path& path, auto& view, auto) {
    if (view.data() != nullptr) out.push_back(source(path.str(), view));
  });
  return out;
}

using NamePredicate = std::function<bool(std::string_view)>;

/// Holds for these names only.
inline NamePredicate named(std::initializer_list<std::string_view> names) {
  std::set<std::string, std::less<>> known(names.begin(), names.end());
  return [known = std::move(known)](std::string_view name) { return known.find(name) != known.end(); };
}

/// What a checkpoint may have that the slots do not ask for.
struct LoadOptions {
  /// Tensors the file may have though no slot wants them.
  NamePredicate known = named({});
  /// Tensors the file may have longer along their first axis than the slot; the first entries count.
  NamePredicate padded = named({});
  /// Weights that the file may have as MXFP4 instead.
  NamePredicate mxfp4 = [](std::string_view) { return true; };
};

namespace detail {

/// A weight may be stored as MXFP4 instead: two tensors in its place.
inline bool is_mxfp4(const ModelTensors& tensors, const TensorSlot& slot, const LoadOptions& options) {
  return !tensors.contains(slot.name) && options.mxfp4(slot.name) &&
         (tensors.contains(slot.name + "_packed") || tensors.contains(slot.name + "_scale"));
}

/// The names in the file that fill a slot.
inline std::vector<std::string> stored_names(const ModelTensors& tensors, const TensorSlot& slot,
                                             const LoadOptions& options) {
  if (is_mxfp4(tensors, slot, options)) return {slot.name + "_packed", slot.name + "_scale"};
  return {slot.name};
}

inline void check_stored(const ModelTensors& tensors, const std::string& name, std::span<const index_t> shape,
                         DType t) {
  if (!tensors.contains(name)) {
    const std::string wanted = std::string(k3spec::name(t)) + " " + shape_string(shape);
    throw Error(tensor_subject(tensors.path(), name), "no such tensor", wanted);
  }
  tensors.file(name).check(tensors.stored_name(name), shape, t);
}

inline void check_mxfp4_slot(const ModelTensors& tensors, const TensorSlot& slot) {
  const auto& shape = slot.shape;
  if (shape.size() != 2 || shape[1] % mxfp4_block != 0 || !can_convert(DType::F32, slot.dtype)) {
    throw Error(tensor_subject(tensors.path(), slot.name), "MXFP4",
                "another format for " + std::string(name(slot.dtype)) + " " + shape_string(shape));
  }
  check_stored(tensors, slot.name + "_packed", std::vector{shape[0], shape[1] / 2}, DType::U8);
  check_stored(tensors, slot.name + "_scale", std::vector{shape[0], shape[1] / mxfp4_block}, DType::U8);
}

inline void check_slot(const ModelTensors& tensors, const TensorSlot& slot, const LoadOptions& options) {
  if (is_mxfp4(tensors, slot, options)) return check_mxfp4_slot(tensors, slot);
  std::vector<index_t> shape = slot.shape;
  if (options.padded(slot.name) && tensors.contains(slot.name) && !shape.empty()) {
    const auto& stored = tensors.shape(slot.name);
    if (!stored.empty()) shape[0] = std::max(shape[0], stored[0]);
  }
  check_stored(tensors, slot.name, shape, slot.dtype);
}

inline void fill_mxfp4(const ModelTensors& tensors, const TensorSlot& slot, void* to) {
  const index_t out = slot.shape[0], in = slot.shape[1];
  const auto packed_bytes = tensors.read<std::uint8_t>(slot.name + "_packed"),
             scale_bytes = tensors.read<std::uint8_t>(slot.name + "_scale");
  const Matrix<const std::uint8_t> packed(packed_bytes.data(), out, in / 2),
      scale(scale_bytes.data(), out, in / mxfp4_block);
  with_type(slot.dtype, [&]<class T>(T*) {
    if constexpr (Element<T>) dequantize_mxfp4(packed, scale, Matrix<T>(static_cast<T*>(to), out, in));
  });
}

/// Reads what a slot wants. \param to  row-major
inline void fill_slot(const ModelTensors& tensors, const TensorSlot& slot, void* to, const LoadOptions& options) {
  if (is_mxfp4(tensors, slot, options)) return fill_mxfp4(tensors, slot, to);
  const std::uint64_t count = *byte_count(slot.dtype, slot.shape) / size_of(slot.dtype);
  tensors.file(slot.name).read_part(tensors.stored_name(slot.name), 0, count, slot.dtype, to);
}

}  // namespace detail

/// Refuses a checkpoint that does not fit. A slot `x.weight` may be stored as MXFP4 `x.weight_packed`,
/// `x.weight_scale`.
/// \throws Error when a wanted tensor is absent, has another shape or does not convert, and when the checkpoint has a
///         tensor that no slot wants and options.known does not hold for
inline void check_parameters(const ModelTensors& tensors, const std::vector<TensorSlot>& slots,
                             const LoadOptions& options = {}) {
  std::set<std::string> wanted;
  for (const TensorSlot& slot : slots) {
    detail::check_slot(tensors, slot, options);
    for (const std::string& name : detail::stored_names(tensors, slot, options)) {
      if (!wanted.insert(name).second) throw Error("model: '" + name + "'", "two slots", "one for each name");
    }
  }
  for (const std::string& name : tensors.names()) {
    if (wanted.count(name) == 0 && !options.known(name)) {
      throw Error(detail::tensor_subject(tensors.file(name).path(), name), "a tensor the model has no place for",
                  "only the model's own");
    }
  }
}

/// Fills every slot from the checkpoint.
/// \throws Error as check_parameters, with no slot touched
inline void load_parameters(const ModelTensors& tensors, const std::vector<TensorSlot>& slots,
                            const LoadOptions& options = {}) {
  check_parameters(tensors, slots, options);
  for (const TensorSlot& slot : slots) detail::fill_slot(tensors, slot, slot.data, options);
}

}  // namespace K3SPEC_NAMESPACE::io
