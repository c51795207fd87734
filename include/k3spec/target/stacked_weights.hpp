#pragma once
/// \file
/// Several weights that read the same input as one, prepacked; they are in memory or still to be read.
/// defines: detail::Stacked, detail::StackedRows, detail::StackedMxfp4, detail::StackedBfloat16,
/// detail::prepack_stacked, detail::reserve_stacked, detail::set_stacked

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
    memory_ = Buffer<T>(uninitialized, out_ * in_);
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

/// The same of weights that are all still to be read, part of them at a time.
class StackedRows {
 public:
  template <class T>
  explicit StackedRows(std::initializer_list<Matrix<Unread<T>>> weights) {
    for (const auto& w : weights) in_ = w.extent(1), out_ += w.extent(0), parts_.push_back({&w.tensor(), w.extent(0)});
  }

 protected:
  struct Part {
    const UnreadTensor* tensor;
    index_t rows;
  };

  /// Whether all are to be kept narrow and `is` holds for them.
  bool are_narrow(bool (UnreadTensor::*is)() const) const {
    return std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
      return (part.tensor->*is)() && part.tensor->keep() != KeepWeights::full;
    });
  }

  /// Rows [first, first + count), each of `row` bytes.
  void read(void (UnreadTensor::*of)(index_t, index_t, std::uint8_t*) const, index_t row, index_t first, index_t count,
            std::uint8_t* to) const {
    for (const Part& part : parts_) {
      const index_t n = std::min(count, part.rows - first);
      if (n > 0) {
        (part.tensor->*of)(first, n, to);
        to += n * row, first += n, count -= n;
      }
      first -= part.rows;
    }
  }

  index_t in_ = 0, out_ = 0;
  std::vector<Part> parts_;
};

/// Of weights that are all kept as MXFP4, by their own bits, of which only the scales are read at once.
class StackedMxfp4 : StackedRows {
 public:
  template <class T>
  explicit StackedMxfp4(std::initializer_list<Matrix<Unread<T>>> weights) : StackedRows(weights) {
    if (!are_narrow(&UnreadTensor::is_mxfp4)) return;
    const index_t blocks = in_ / mxfp4_block;
    scales_ = Buffer<std::uint8_t>(uninitialized, out_ * blocks);
    std::uint8_t* to = scales_.data();
    for (const Part& part : parts_) part.tensor->read_scales(to), to += part.rows * blocks;
    usable_ = are_normal_scales(scales_.data(), scales_.size());
  }

  /// Whether products with these bits are those with the numbers.
  bool usable() const { return usable_; }
  /// This must outlive them.
  auto rows() const {
    return Mxfp4Rows{out_, in_, scales_.data(), [this](index_t first, index_t count, std::uint8_t* to) {
                       read(&UnreadTensor::read_nibbles, in_ / 2, first, count, to);
                     }};
  }

 private:
  Buffer<std::uint8_t> scales_;
  bool usable_ = false;
};

/// Of weights that are all kept as bfloat16.
class StackedBfloat16 : StackedRows {
 public:
  template <class T>
  explicit StackedBfloat16(std::initializer_list<Matrix<Unread<T>>> weights)
      : StackedRows(weights), usable_(are_narrow(&UnreadTensor::is_bfloat16) && !has_mxfp4_values()) {}

  /// Whether bfloat16 is the narrowest format that has them.
  bool usable() const { return usable_; }
  /// This must outlive them.
  auto rows() const {
    return Bfloat16Rows{out_, in_, [this](index_t first, index_t count, std::uint8_t* to) { read(first, count, to); }};
  }

 private:
  void read(index_t first, index_t count, std::uint8_t* to) const {
    StackedRows::read(&UnreadTensor::read_bfloat16, 2 * in_, first, count, to);
  }

  /// Reads no further than to the first row that says no.
  bool has_mxfp4_values() const {
    if (in_ % mxfp4_block != 0) return false;
    Buffer<bfloat16> row(uninitialized, in_);
    for (index_t i = 0; i < out_; ++i) {
      read(i, 1, reinterpret_cast<std::uint8_t*>(row.data()));
      if (!detail::has_mxfp4_values(Matrix<const bfloat16>(row.data(), 1, in_))) return false;
    }
    return true;
  }

  bool usable_;
};

/// Whether weights may be prepacked by their own bits.
template <class T, class W>
inline constexpr bool has_own_bits = !std::is_const_v<W> && !is_placed<T> && std::same_as<accumulate_t<T>, float>;

/// Whether weights are all kept as MXFP4 and may stay so.
template <class T>
bool stay_mxfp4(std::initializer_list<Matrix<Unread<T>>> weights) {
  return std::all_of(weights.begin(), weights.end(), [](const Matrix<Unread<T>>& w) {
    return w.tensor().is_mxfp4() && w.tensor().keep() != KeepWeights::full;
  });
}

/// [W_0; W_1; …] as a device reads it.
template <class T, class W>
PrepackedWeights<T> prepack_stacked(const place_t<T>& device, std::initializer_list<Matrix<W>> weights,
                                    KeepWeights keep) {
  for (const auto& w : weights) require_count("stacked weights: columns", w.extent(1), weights.begin()->extent(1));
  if constexpr (has_own_bits<T, W>) {
    if (const StackedMxfp4 blocks(weights); blocks.usable()) return {device, blocks.rows()};
    if (const StackedBfloat16 halves(weights); halves.usable()) return {device, halves.rows()};
  }
  return {device, Stacked<value_t<T>>(weights).matrix(), keep};
}

/// [W_0; W_1; …] as the weights of one group.
template <class T, class W>
void set_stacked(PrepackedGroups<T>& groups, const place_t<T>& device, index_t group,
                 std::initializer_list<Matrix<W>> weights) {
  if constexpr (is_placed<T>) {
    groups.set(device, group, Stacked<value_t<T>>(weights).matrix());
  } else {
    if constexpr (has_own_bits<T, W>) {
      if (const StackedMxfp4 blocks(weights); blocks.usable()) return groups.set(device, group, blocks.rows());
    }
    groups.set(device, group, prepack_stacked<T>(device, weights, kept_as(*weights.begin())));
  }
}

}  // namespace K3SPEC_NAMESPACE::detail
