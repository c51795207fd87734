#pragma once
/// \file
/// Several weights that read the same input as one, prepacked; they are in memory or still to be read.
/// defines: detail::Stacked, detail::StackedMxfp4, detail::prepack_stacked, detail::set_stacked

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include <k3spec/backend/placed_weights.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/unread.hpp>

namespace K3SPEC_NAMESPACE::detail {

/// [W_0; W_1; …] of weights W_i [out_i, in], while it lives.
template <class T>
class Stacked {
 public:
  /// \tparam W  const T or Unread<T>
  /// \throws Error when they do not read the same number of features
  template <class W>
  explicit Stacked(std::initializer_list<Matrix<W>> weights) {
    for (const auto& w : weights) in_ = w.extent(1), out_ += w.extent(0);
    for (const auto& w : weights) require_count("stacked weights: columns", w.extent(1), in_);
    memory_ = Buffer<T>(out_ * in_);
    T* to = memory_.data();
    for (const auto& w : weights) to = take(w, to);
  }
  Matrix<const T> matrix() const { return Matrix<const T>(memory_.data(), out_, in_); }

 private:
  T* take(const Matrix<const T>& w, T* to) const {
    for (index_t o = 0; o < w.extent(0); ++o, to += in_) std::copy_n(w.row(o), in_, to);
    return to;
  }
  T* take(const Matrix<Unread<T>>& w, T* to) const {
    w.tensor().read(to);
    return to + w.size();
  }

  index_t in_ = 0, out_ = 0;
  Buffer<T> memory_;
};

/// The same of weights that are all kept as MXFP4, by their own bits, of which only the scales are read at once.
class StackedMxfp4 {
 public:
  template <class T>
  explicit StackedMxfp4(std::initializer_list<Matrix<Unread<T>>> weights) {
    for (const auto& w : weights) {
      if (!w.tensor().is_mxfp4() || w.tensor().keep() == KeepWeights::full) return;
    }
    for (const auto& w : weights) in_ = w.extent(1), out_ += w.extent(0);
    scales_.resize(static_cast<std::size_t>(out_ * (in_ / mxfp4_block)));
    std::uint8_t* to = scales_.data();
    for (const auto& w : weights) {
      parts_.push_back({&w.tensor(), w.extent(0)});
      w.tensor().read_scales(to);
      to += w.size() / mxfp4_block;
    }
    usable_ = are_normal_scales(scales_.data(), static_cast<index_t>(scales_.size()));
  }

  /// Whether products with these bits are those with the numbers.
  bool usable() const { return usable_; }
  /// This must outlive them.
  auto rows() const {
    return Mxfp4Rows{out_, in_, scales_.data(),
                     [this](index_t first, index_t count, std::uint8_t* to) { read(first, count, to); }};
  }

 private:
  struct Part {
    const UnreadTensor* tensor;
    index_t rows;
  };

  void read(index_t first, index_t count, std::uint8_t* to) const {
    for (const Part& part : parts_) {
      const index_t n = std::min(count, part.rows - first);
      if (n > 0) {
        part.tensor->read_nibbles(first, n, to);
        to += n * (in_ / 2), first += n, count -= n;
      }
      first -= part.rows;
    }
  }

  index_t in_ = 0, out_ = 0;
  std::vector<Part> parts_;
  std::vector<std::uint8_t> scales_;
  bool usable_ = false;
};

/// [W_0; W_1; …] as a device reads it.
template <class T, class W>
PrepackedWeights<T> prepack_stacked(const place_t<T>& device, std::initializer_list<Matrix<W>> weights,
                                    KeepWeights keep) {
  if constexpr (!std::is_const_v<W> && !is_placed<T> && std::same_as<accumulate_t<T>, float>) {
    const StackedMxfp4 blocks(weights);
    if (blocks.usable()) return {device, blocks.rows()};
  }
  return {device, Stacked<value_t<T>>(weights).matrix(), keep};
}

/// The same as the weights of one group.
template <class T, class W>
void set_stacked(PrepackedGroups<T>& groups, const place_t<T>& device, index_t group,
                 std::initializer_list<Matrix<W>> weights) {
  if constexpr (is_placed<T>) {
    groups.set(device, group, Stacked<value_t<T>>(weights).matrix());
  } else {
    groups.set(device, group, prepack_stacked<T>(device, weights, kept_as(*weights.begin())));
  }
}

}  // namespace K3SPEC_NAMESPACE::detail
