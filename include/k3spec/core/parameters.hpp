#pragma once
/// \file
/// Parameters of a model as one contiguous buffer. A layer says once, in `visit`, which tensors it has; counts,
/// offsets, names, initial values, gradients and files all follow from that.
///
/// A layer is a type with Weights, of static shapes, and a visit that calls v for each tensor in file order and hands
/// sublayers on:
/// ```cpp
/// struct Mine {
///   template <class T>
///   struct Weights {
///     View<T, 8, 16> weight;
///     Linear<16, 8>::Weights<T> sub;
///   };
///   template <class W, class V>
///   static constexpr void visit(W& w, const Path& at, V&& v) {
///     v(at / "weight", w.weight, Init::normal);
///     Linear<16, 8>::visit(w.sub, at / "sub", v);
///   }
/// };
/// static_assert(parameter_count<Mine> == 2 * 8 * 16);
/// ```
///
/// A tensor that a checkpoint keeps in F32 beside others in BF16 is a View<full_precision_t<T>, ...>: whatever T the
/// model is stored in, counts, offsets and files go by the tensor's own type. Such a tensor must be Frozen.
/// defines: Path, Init, Frozen, Prepacked, stored_t, full_precision_t, parameter_count, trainable_count, trainable_slots,
///          parameter_slots, bind_weights, SerialLoop, Parameters, Gradients

#include <algorithm>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include <k3spec/core/dtype.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/rng.hpp>
#include <k3spec/core/view.hpp>

namespace K3SPEC_NAMESPACE {

/// A tensor's dotted name, kept as a list of its parts so that it can be built when compiling.
class Path {
 public:
  constexpr Path() = default;
  constexpr Path(const Path& outer, std::string_view part) : outer_(&outer), part_(part) {}
  constexpr Path(const Path& outer, index_t number) : outer_(&outer), number_(number) {}

  std::string str() const {
    if (outer_ == nullptr) return {};
    std::string name = outer_->str();
    if (!name.empty()) name += '.';
    return name + (part_.empty() ? std::to_string(number_) : std::string(part_));
  }

 private:
  const Path* outer_ = nullptr;
  std::string_view part_;
  index_t number_ = 0;
};

/// The path of a part; valid while `outer` lives, so write it inside the call that uses it.
constexpr Path operator/(const Path& outer, std::string_view part) { return {outer, part}; }
/// The path of a numbered part.
constexpr Path operator/(const Path& outer, index_t number) { return {outer, number}; }

/// What a fresh parameter holds.
enum class Init { normal, ones, zeros };

/// Wraps the Init of a tensor that is read but not trained: it has no gradient and stands after all trained ones.
struct Frozen {
  Init init;
};

/// In place of an element type, `Weights<Prepacked<T>>`: matrices laid out for products with few rows, never to change
/// (layers/prepacked.hpp).
template <class T>
struct Prepacked {};

namespace detail {
template <class T>
struct Stored {
  using type = T;
};
template <class T>
struct Stored<Prepacked<T>> {
  using type = const T;
};
}  // namespace detail

/// The element type of what is no matrix of a product: vectors and tables.
template <class T>
using stored_t = typename detail::Stored<T>::type;

namespace detail {
template <class T>
struct FullPrecision {
  using type = accumulate_t<T>;
};
template <class T>
struct FullPrecision<const T> {
  using type = const accumulate_t<T>;
};
}  // namespace detail

/// The element type of a tensor that is never rounded to a narrower one: that of sums over T, float at least.
template <class T>
using full_precision_t = typename detail::FullPrecision<stored_t<T>>::type;

namespace detail {

template <class I>
inline constexpr bool is_frozen = std::is_same_v<std::remove_cvref_t<I>, Frozen>;
constexpr Init init_of(Init i) { return i; }
constexpr Init init_of(Frozen f) { return f.init; }

/// Offsets are kept at multiples of this many elements so that every tensor starts on an aligned address.
inline constexpr index_t slot_multiple = static_cast<index_t>(alignment) / 2;
constexpr index_t slot(index_t size) { return ceil_div(size, slot_multiple) * slot_multiple; }
/// Of a buffer of T, those of a tensor of `size` elements of type E.
template <class T, class E>
constexpr index_t slot(index_t size) {
  static_assert(sizeof(E) % sizeof(T) == 0, "a tensor's elements take whole elements of the model's storage type");
  return slot(size * static_cast<index_t>(sizeof(E) / sizeof(T)));
}

enum class Which { all, trainable, frozen };

template <class Layer, class T>
constexpr index_t sum_sizes(Which which, bool padded) {
  index_t total = 0;
  typename Layer::template Weights<T> w{};
  Layer::visit(w, Path{}, [&](const Path&, auto& view, auto init) {
    using E = typename std::remove_cvref_t<decltype(view)>::value_type;
    const bool frozen = is_frozen<decltype(init)>;
    if (which == (frozen ? Which::trainable : Which::frozen)) return;
    total += padded ? slot<T, E>(view.size()) : view.size();
  });
  return total;
}

}  // namespace detail

/// Exact number of parameters, frozen ones included.
template <class Layer>
inline constexpr index_t parameter_count = detail::sum_sizes<Layer, float>(detail::Which::all, false);

/// Exact number of parameters that have a gradient.
template <class Layer>
inline constexpr index_t trainable_count = detail::sum_sizes<Layer, float>(detail::Which::trainable, false);

/// Elements of the buffers that hold them, each tensor padded to an aligned start. All trained ones are of the model's
/// storage type; where all are, the second number does not depend on it.
template <class Layer>
inline constexpr index_t trainable_slots = detail::sum_sizes<Layer, float>(detail::Which::trainable, true);
template <class Layer, class T = float>
inline constexpr index_t parameter_slots = detail::sum_sizes<Layer, T>(detail::Which::all, true);

/// Points the views of `w` into a buffer of parameter_slots<Layer, T> elements: trained tensors first, in visiting
/// order, then frozen ones. With `frozen_base` null the frozen views stay null (gradients).
template <class Layer, class T>
constexpr typename Layer::template Weights<T> bind_weights(T* trainable_base, T* frozen_base) {
  typename Layer::template Weights<T> w{};
  Layer::visit(w, Path{}, [&](const Path&, auto& view, auto init) {
    using V = std::remove_cvref_t<decltype(view)>;
    using E = typename V::element_type;
    constexpr bool frozen = detail::is_frozen<decltype(init)>;
    static_assert(frozen || std::is_same_v<E, T>, "a trained tensor is of the model's storage type");
    T*& base = frozen ? frozen_base : trainable_base;
    if (base == nullptr) return;
    if constexpr (std::is_same_v<E, T>) {
      view = V(base);
    } else {
      view = V(reinterpret_cast<E*>(base));
    }
    base += detail::slot<T, E>(view.size());
  });
  return w;
}

/// A loop on the calling thread.
struct SerialLoop {
  template <class F>
  void operator()(index_t count, F&& body) const {
    for (index_t i = 0; i < count; ++i) body(i);
  }
};

/// Every parameter of a model, one buffer, storage type T, in the memory of a device.
template <class Layer, Element T, Device D = Cpu>
class Parameters {
 public:
  using layer = Layer;
  using value_type = T;
  using E = element_t<D, T>;
  template <class U>
  using Weights = typename Layer::template Weights<U>;

  Parameters() requires std::same_as<D, Cpu> : Parameters(Cpu{}) {}
  explicit Parameters(const D& device) : memory_(device, parameter_slots<Layer, T>) {}

  Weights<E> mutable_weights() {
    return bind_weights<Layer, E>(memory_.data(), memory_.data() + trainable_slots<Layer>);
  }
  Weights<const E> weights() const {
    return bind_weights<Layer, const E>(memory_.data(), memory_.data() + trainable_slots<Layer>);
  }

  /// The trained part as one vector (padding between tensors included, always zero).
  Vector<E> trainable() { return Vector<E>(memory_.data(), trainable_slots<Layer>); }
  Vector<const E> trainable() const { return Vector<const E>(memory_.data(), trainable_slots<Layer>); }

  /// All parameters' memory as one vector, the same on every device, to be copied and nothing else (a tensor of another
  /// element type takes several): `upload(device, host.all(), parameters.all())`.
  Vector<E> all() { return Vector<E>(memory_.data(), memory_.size()); }
  Vector<const E> all() const { return Vector<const E>(memory_.data(), memory_.size()); }

  static constexpr double default_deviation = 0.02;

  /// Fresh values: Init::normal draws N(0, deviation^2), one random stream per tensor, in visiting order.
  /// \param loop  loop(count, body) calls body(i) for each i below count, in any order
  template <class Loop = SerialLoop>
  void initialize(std::uint64_t seed, double deviation = default_deviation,
                  const Loop& loop = {}) requires std::same_as<D, Cpu> {
    auto w = mutable_weights();
    std::uint64_t stream = streams::parameters;
    Layer::visit(w, Path{}, [&](const Path&, auto& view, auto init) {
      const Philox random(seed, stream++);
      loop(ceil_div(view.size(), block), [&, n = view.size(), to = view.data()](index_t piece) {
        const index_t begin = piece * block, end = std::min(n, begin + block);
        for (index_t i = begin; i < end; ++i) set(to[i], detail::init_of(init), deviation, random, i);
      });
    });
  }

 private:
  static constexpr index_t block = 4096;

  template <class X>
  static void set(X& to, Init init, double deviation, const Philox& random, index_t i) {
    const double value = init == Init::normal ? deviation * random.normal(static_cast<std::uint64_t>(i))
                                              : (init == Init::ones ? 1.0 : 0.0);
    to = static_cast<X>(static_cast<accumulate_t<X>>(value));
  }

  buffer_t<D, T> memory_;
};

/// Gradients of the trained parameters, one buffer in the accumulation type. Frozen views are null.
template <class Layer, Element T, Device D = Cpu>
class Gradients {
 public:
  using value_type = accumulate_t<T>;
  using E = element_t<D, value_type>;

  Gradients() requires std::same_as<D, Cpu> : Gradients(Cpu{}) {}
  explicit Gradients(const D& device) : memory_(device, trainable_slots<Layer>) {}

  typename Layer::template Weights<E> weights() { return bind_weights<Layer, E>(memory_.data(), nullptr); }
  Vector<E> flat() { return Vector<E>(memory_.data(), memory_.size()); }
  void zero() requires std::same_as<D, Cpu> { memory_.fill(value_type(0)); }

 private:
  buffer_t<D, value_type> memory_;
};

}  // namespace K3SPEC_NAMESPACE
