#pragma once
/// \file
/// A model's tensors where they are in a checkpoint, to be read when they are laid out.
/// defines: io::StoredTensor, io::StoredWeights

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/unread.hpp>
#include <k3spec/io/load_parameters.hpp>

namespace K3SPEC_NAMESPACE::io {

/// A tensor that a model wants and a checkpoint has. Both, and the options, must outlive it.
class StoredTensor final : public UnreadTensor {
 public:
  StoredTensor(const ModelTensors& tensors, TensorSlot slot, const LoadOptions& options, KeepWeights keep)
      : tensors_(tensors), slot_(std::move(slot)), options_(options), keep_(keep) {
    is_mxfp4_ = detail::is_mxfp4(tensors, slot_, options);
    rows_ = Place(tensors, is_mxfp4_ ? slot_.name + "_packed" : slot_.name);
    if (is_mxfp4_) scales_ = Place(tensors, slot_.name + "_scale");
  }

  const TensorSlot& slot() const { return slot_; }

  void read(void* to) const override { detail::fill_slot(tensors_, slot_, to, options_); }
  KeepWeights keep() const override { return keep_; }

  bool is_mxfp4() const override { return is_mxfp4_; }
  void read_scales(std::uint8_t* to) const override {
    scales_.read(0, slot_.shape[0], slot_.shape[1] / mxfp4_block, DType::U8, to);
  }
  void read_nibbles(index_t first, index_t count, std::uint8_t* to) const override {
    rows_.read(first, count, slot_.shape[1] / 2, DType::U8, to);
  }

  /// See UnreadTensor.
  bool is_bfloat16() const override { return rows_.tensor->second.dtype == DType::BF16; }
  void read_bfloat16(index_t first, index_t count, std::uint8_t* to) const override {
    rows_.read(first, count, slot_.shape[1], DType::BF16, to);
  }

 private:
  /// Where a tensor of the checkpoint is, found once.
  struct Place {
    const SafetensorsFile* file = nullptr;
    const SafetensorsFile::Tensor* tensor = nullptr;

    Place() = default;
    Place(const ModelTensors& tensors, const std::string& name)
        : file(&tensors.file(name)), tensor(&file->tensor(tensors.stored_name(name))) {}

    /// Rows of elements.
    void read(index_t first, index_t count, index_t width, DType type, void* to) const {
      file->read_part(*tensor, static_cast<std::uint64_t>(first * width), static_cast<std::uint64_t>(count * width),
                      type, to);
    }
  };

  const ModelTensors& tensors_;
  TensorSlot slot_;
  const LoadOptions& options_;
  KeepWeights keep_;
  bool is_mxfp4_;
  Place rows_, scales_;
};

/// All tensors of a model in a checkpoint, in the place of weights: Layer::Weights<Unread<T>>.
template <class Layer, Element T>
class StoredWeights {
 public:
  using Weights = typename Layer::template Weights<Unread<T>>;

  /// All of a model's tensors.
  /// \param tensors  must outlive this
  /// \throws Error as check_parameters; no tensor is read
  StoredWeights(const ModelTensors& tensors, LoadOptions options, KeepWeights keep = KeepWeights::native)
      : options_(std::move(options)) {
    const std::vector<TensorSlot> wanted = slots<Layer>(*weights_);
    check_parameters(tensors, wanted, options_);
    stored_.reserve(wanted.size());
    for (const TensorSlot& slot : wanted) stored_.emplace_back(tensors, slot, options_, keep);
    auto next = stored_.begin();
    Layer::visit(*weights_, Path{},
                 [&](const Path&, auto& view, auto) { view = std::remove_cvref_t<decltype(view)>(&*next++); });
  }
  StoredWeights(const StoredWeights&) = delete;
  StoredWeights& operator=(const StoredWeights&) = delete;

  /// This must outlive them.
  const Weights& weights() const { return *weights_; }

 private:
  LoadOptions options_;
  std::unique_ptr<Weights> weights_ = std::make_unique<Weights>();  // of large models too large for a stack
  std::vector<StoredTensor> stored_;
};

}  // namespace K3SPEC_NAMESPACE::io
