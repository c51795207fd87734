#pragma once
/// \file
/// Tensors that are still where they are kept, in a checkpoint's files: a model's Weights<Unread<T>> says which they
/// are, and each is read when it is laid out, so that no two copies of a model exist at a time.
/// defines: KeepWeights, UnreadTensor, Unread, View of Unread

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/mxfp4.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// How frozen weights are kept where a device prepacks them. Both give the same bits.
enum class KeepWeights : std::uint8_t {
  native,  ///< in the narrowest format that has each of a weight's numbers exactly
  full,    ///< as numbers of the accumulation type
};

/// A tensor to be read. Several threads may read at a time.
class UnreadTensor {
 public:
  virtual ~UnreadTensor() = default;

  /// Reads all its numbers, row-major. \param to  of the element type that its view says
  virtual void read(void* to) const = 0;
  virtual KeepWeights keep() const { return KeepWeights::native; }

  /// Whether it is kept as MXFP4, of which the following read.
  virtual bool is_mxfp4() const { return false; }
  /// Reads the blocks' scales. \param to  [rows, columns / 32]
  virtual void read_scales([[maybe_unused]] std::uint8_t* to) const {}
  /// Reads rows [first, first + count). \param to  [count, columns / 2], the lower half of a byte being the even column
  virtual void read_nibbles([[maybe_unused]] index_t first, [[maybe_unused]] index_t count,
                            [[maybe_unused]] std::uint8_t* to) const {}

  /// Whether it is kept as bfloat16, of which the following reads rows [first, first + count).
  virtual bool is_bfloat16() const { return false; }
  /// Those rows' bytes as they are stored.
  /// \param to  [count, columns] of two bytes each
  virtual void read_bfloat16([[maybe_unused]] index_t first, [[maybe_unused]] index_t count,
                             [[maybe_unused]] std::uint8_t* to) const {}
};

/// In place of an element type, `Weights<Unread<T>>`: tensors of T that are still to be read.
template <class T>
struct Unread {};

namespace detail {
template <class T>
struct FullPrecision<Unread<T>> {
  using type = Unread<accumulate_t<T>>;
};
}  // namespace detail

/// A tensor's place and shape; the tensor must outlive it.
template <class T, index_t... E>
class View<Unread<T>, E...> {
 public:
  using element_type = Unread<T>;
  using value_type = T;
  using extents_type = Extents<E...>;
  static constexpr std::size_t rank = sizeof...(E);

  /// Refers to nothing; only to be assigned to.
  constexpr View() = default;
  constexpr View(const UnreadTensor* tensor, extents_type extents) : tensor_(tensor), extents_(extents) {}
  constexpr explicit View(const UnreadTensor* tensor) requires(extents_type::dynamic_rank == 0) : tensor_(tensor) {}

  constexpr const UnreadTensor& tensor() const { return *tensor_; }
  constexpr const extents_type& extents() const { return extents_; }
  constexpr index_t extent(std::size_t axis) const { return extents_[axis]; }
  constexpr index_t size() const { return extents_.product(); }
  constexpr View<Unread<T>, dyn, dyn> matrix() const {
    return {tensor_, Extents<dyn, dyn>(extent(0), extents_.product(1))};
  }

 private:
  const UnreadTensor* tensor_ = nullptr;
  extents_type extents_{};
};

/// How a weight is to be kept: as narrow as can be, where nobody says otherwise.
template <class T, index_t... E>
KeepWeights kept_as(const View<T, E...>&) {
  return KeepWeights::native;
}
/// As its tensor says.
template <class T, index_t... E>
KeepWeights kept_as(const View<Unread<T>, E...>& w) {
  return w.tensor().keep();
}

}  // namespace K3SPEC_NAMESPACE
