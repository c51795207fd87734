#pragma once
/// \file
/// A checkpoint against a model: what the model needs is there, what is there the model knows, and nothing is written
/// before both are sure.
/// defines: io::TensorSlot, io::slots, io::sources, io::LoadOptions, io::named, io::load_parameters

#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/core/parameters.hpp>
#include <k3spec/io/checkpoint.hpp>
#include <k3spec/io/safetensors_writer.hpp>

namespace k3spec::io {

/// Where a model wants a tensor: row-major, packed.
struct TensorSlot {
  std::string name;
  DType dtype;
  std::vector<index_t> shape;
  void* data;
};

/// The tensors of a layer as Layer::visit names them. \param at  where the layer stands in the model's names
template <class Layer, class Weights>
std::vector<TensorSlot> slots(Weights& weights, const Path& at = {}) {
  std::vector<TensorSlot> out;
  Layer::visit(weights, at, [&](const Path& path, auto& view, auto) {
    using T = typename std::remove_cvref_t<decltype(view)>::value_type;
    out.push_back({path.str(), dtype_of<T>, shape_of(view), view.data()});
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

struct LoadOptions {
  /// Tensors the file may have though no slot wants them.
  NamePredicate known = named({});
  /// Tensors the file may have longer along their first axis than the slot; the first entries count.
  NamePredicate padded = named({});
};

namespace detail {

inline void check_slot(const Checkpoint& checkpoint, const TensorSlot& slot, const LoadOptions& options) {
  if (!checkpoint.contains(slot.name)) {
    const std::string wanted = std::string(name(slot.dtype)) + " " + shape_string(slot.shape);
    throw Error(tensor_subject(checkpoint.path(), slot.name), "no such tensor", wanted);
  }
  std::vector<index_t> shape = slot.shape;
  const auto& stored = checkpoint.shape(slot.name);
  if (options.padded(slot.name) && !stored.empty() && !shape.empty()) shape[0] = std::max(shape[0], stored[0]);
  checkpoint.file(slot.name).check(checkpoint.stored_name(slot.name), shape, slot.dtype);
}

inline void fill_slot(const Checkpoint& checkpoint, const TensorSlot& slot) {
  const DType stored = checkpoint.dtype(slot.name);
  const std::uint64_t wanted = *byte_count(stored, slot.shape);
  convert(stored, checkpoint.bytes(slot.name).first(static_cast<std::size_t>(wanted)), slot.dtype, slot.data);
}

}  // namespace detail

/// Fills every slot from the checkpoint.
/// \throws Error, with no slot touched, when a wanted tensor is absent, has another shape or does not convert, and
///         when the checkpoint has a tensor that no slot wants and options.known does not hold for
inline void load_parameters(const Checkpoint& checkpoint, const std::vector<TensorSlot>& slots,
                            const LoadOptions& options = {}) {
  std::set<std::string> wanted;
  for (const TensorSlot& slot : slots) {
    if (!wanted.insert(slot.name).second) throw Error("model: '" + slot.name + "'", "two slots", "one for each name");
    detail::check_slot(checkpoint, slot, options);
  }
  for (const std::string& name : checkpoint.names()) {
    if (wanted.count(name) == 0 && !options.known(name)) {
      throw Error(detail::tensor_subject(checkpoint.file(name).path(), name), "a tensor the model has no place for",
                  "only the model's own");
    }
  }
  for (const TensorSlot& slot : slots) detail::fill_slot(checkpoint, slot);
}

}  // namespace k3spec::io
