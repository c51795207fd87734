#pragma once
// What every layer must obey, written once and run on each. A Law names a layer, its operands and its calls:
//
//     struct LinearLaw : laws::Defaults {
//       using Layer = Linear<5, 3>;                            // parameters
//       static constexpr std::array inputs{laws::Input{5}};    // columns; rows are the shape's
//       static constexpr index_t output = 3;
//       template <class T> struct Saved { ... allocate(A&, Shape) ... };          // if any; `Fixture` for what owns
//       memory template <class T> static constexpr std::size_t scratch_bytes(Shape);     // if any static void
//       forward(const auto& call);                 // laws::Call: call.x[i], call.saved -> call.y static void
//       backward(const auto& call, const auto& b); // laws::Back: b.d_y -> b.d_x[i], b.d_w
//     };
//
// Each law returns "" or what broke it, so that planted faults can be tested too. Data depend on (tensor, sequence,
// element) alone and are bfloat16 values in every type.
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <tests/support/mirror.hpp>
#include <k3spec/core/arena.hpp>
#include <k3spec/core/device.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/parameters.hpp>

namespace k3spec::laws {

struct Shape {
  index_t sequences, length;
  constexpr index_t rows() const { return sequences * length; }
};

enum class Gradient { overwritten, accumulated, none };

struct Input {
  index_t columns;
  Gradient gradient = Gradient::overwritten;
};

/// For layers without parameters.
struct NoParameters {
  template <class T>
  struct Weights {};
  template <class W, class V>
  static constexpr void visit(W&, const Path&, V&&) {}
};

struct Defaults {
  /// Token ids are below this.
  static constexpr index_t vocabulary = 1;
  /// The output is one number, in row 0, with d_y = 1.
  static constexpr bool scalar = false;
  /// Products, whose rows cuBLAS on a card may sum in another way among others.
  static constexpr bool products = false;
  template <class T>
  struct Saved {
    template <Allocator A>
    static constexpr Saved allocate(A&, Shape) {
      return {};
    }
  };
  template <class T>
  struct Fixture {
    explicit Fixture(Shape) {}
  };
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape) {
    return 0;
  }
};

inline double bfloat16_value(double x) { return static_cast<double>(bfloat16(static_cast<float>(x))); }

/// A standard normal value, rounded to bfloat16.
inline double draw(std::uint64_t tensor, index_t sequence, index_t element) {
  return bfloat16_value(
      Philox(tensor, static_cast<std::uint64_t>(sequence)).normal(static_cast<std::uint64_t>(element)));
}

/// What a law's calls get, in the memory where T is.
template <class Law, class T>
struct Call {
  using S = accumulate_t<T>;
  static constexpr std::size_t count = Law::inputs.size();
  test::device_t<place_t<T>> device;
  Shape shape;
  typename Law::Layer::template Weights<const T> w;
  std::array<Matrix<const T>, count> x;
  Vector<const placed_as_t<index_t, T>> ids;
  Vector<const placed_as_t<std::uint8_t, T>> mask;
  typename Law::template Saved<T> saved;
  typename Law::template Fixture<T>& fixture;
  Matrix<T> y;
};

template <class Law, class T>
struct Back {
  using S = accumulate_t<T>;
  typename Law::Layer::template Weights<S> d_w;
  Matrix<const S> d_y;
  std::array<Matrix<S>, Law::inputs.size()> d_x;
  arena_t<place_t<T>>& scratch;
};

/// Whether a key may be seen: sequences without padding, padded at the end, at the start (whose first queries see
/// nothing), and padding only.
inline std::uint8_t unmasked(index_t sequence, index_t position, index_t length) {
  const index_t kind = sequence % 4, third = (length + 2) / 3;
  return kind == 0 || (kind == 1 && position < length - third) || (kind == 2 && position >= third) ? 1 : 0;
}

/// All operands of a layer, on the host, with a twin of each on the device for the calls.
template <class Law, class T, class D = Cpu>
class Trial {
 public:
  using S = accumulate_t<T>;
  using E = element_t<D, T>;
  using Layer = typename Law::Layer;
  static constexpr std::size_t count = Law::inputs.size();

  Shape shape;
  Parameters<Layer, T> parameters;
  Gradients<Layer, T> gradients;
  std::array<std::vector<T>, count> x;
  std::array<std::vector<S>, count> d_x;
  std::vector<T> y;
  std::vector<S> d_y;
  arena_t<D> arena{test::device<D>(), bytes(shape)};

  /// Sequences [first, first + shape.sequences) of the data.
  explicit Trial(Shape of, index_t first = 0) : shape(of) {
    fill_parameters();
    for (std::size_t i = 0; i < count; ++i) {
      fill(x[i], Law::inputs[i].columns, 100 + i, first);
      d_x[i].assign(x[i].size(), start(i));
    }
    y.resize(static_cast<std::size_t>(shape.rows() * Law::output));
    fill(d_y, Law::output, 99, first);
    if (Law::scalar && !d_y.empty()) std::fill(d_y.begin(), d_y.end(), S(0)), d_y[0] = S(1);
    for (index_t r = 0; r < shape.rows(); ++r) {
      const index_t sequence = first + r / shape.length, t = r % shape.length;
      mask_.push_back(unmasked(sequence, t, shape.length));
      const Philox random(98, static_cast<std::uint64_t>(sequence));
      ids_.push_back(static_cast<index_t>(random.below(static_cast<std::uint64_t>(t), Law::vocabulary)));
    }
    for (std::size_t i = 0; i < count; ++i) twin_.x[i].resize(x[i].size()), twin_.d_x[i].resize(x[i].size());
    twin_.y.resize(y.size()), twin_.d_y.resize(y.size());
    twin_.ids.resize(ids_.size()), twin_.mask.resize(ids_.size());
  }

  static constexpr std::size_t bytes(Shape shape) {
    return plan_bytes([&](ArenaPlan& a) {
      Law::template Saved<E>::allocate(a, shape);
      a.borrow(Law::template scratch_bytes<T>(shape));
    });
  }

  void forward(int threads = 1) {
    arena.release(0);
    saved_ = Law::template Saved<E>::allocate(arena, shape);
    Law::forward(call(threads));
    twin_.y.get(y);
  }
  void backward(int threads = 1) {
    Law::backward(call(threads), back());
    fetch_gradients();
  }
  void fetch_gradients() {
    download(device(), Vector<const element_t<D, S>>(twin_.gradients.flat()), gradients.flat());
    for (std::size_t i = 0; i < count; ++i) twin_.d_x[i].get(d_x[i]);
  }

  /// The operands as they are now.
  Call<Law, E> call(int threads) {
    upload(device(), Vector<const T>(parameters.all()), twin_.parameters.all());
    twin_.ids.put(ids_), twin_.mask.put(mask_), twin_.y.put(y);
    Call<Law, E> c{test::device<D>(threads),
                   shape,
                   twin_.parameters.weights(),
                   {},
                   twin_.ids.vector(),
                   twin_.mask.vector(),
                   saved_,
                   fixture_,
                   twin_.y.matrix(Law::output)};
    for (std::size_t i = 0; i < count; ++i) {
      twin_.x[i].put(x[i]);
      c.x[i] = twin_.x[i].matrix(Law::inputs[i].columns);
    }
    return c;
  }
  Back<Law, E> back() {
    upload(device(), Vector<const S>(gradients.flat()), twin_.gradients.flat());
    twin_.d_y.put(d_y);
    Back<Law, E> b{twin_.gradients.weights(), twin_.d_y.matrix(Law::output), {}, arena};
    for (std::size_t i = 0; i < count; ++i) {
      twin_.d_x[i].put(d_x[i]);
      b.d_x[i] = twin_.d_x[i].matrix(Law::inputs[i].columns);
    }
    return b;
  }
  typename Law::template Fixture<E>& fixture() { return fixture_; }

  /// NaN in all that must be written before it is read.
  void poison() {
    arena.release(0);
    arena.poison();
    std::fill(y.begin(), y.end(), T(NAN));
    for (std::size_t i = 0; i < count; ++i) {
      if (Law::inputs[i].gradient == Gradient::overwritten) std::fill(d_x[i].begin(), d_x[i].end(), S(NAN));
    }
  }

  struct Tensor {
    std::string name;
    T* value;
    S* gradient;
    index_t size;
  };
  /// Everything that has a gradient.
  std::vector<Tensor> tensors() {
    std::vector<Tensor> all;
    auto g = gradients.weights();
    Layer::visit(g, Path{}, [&](const Path& path, auto& view, auto) {
      if (view.data() == nullptr) return;
      T* value = parameters.trainable().data() + (view.data() - gradients.flat().data());
      all.push_back({path.str(), value, view.data(), view.size()});
    });
    for (std::size_t i = 0; i < count; ++i) {
      if (Law::inputs[i].gradient == Gradient::none || x[i].empty()) continue;
      all.push_back({fmt::format("input {}", i), x[i].data(), d_x[i].data(), static_cast<index_t>(x[i].size())});
    }
    return all;
  }

  struct Result {
    std::string name;
    std::vector<double> values;
  };
  /// y and all gradients.
  std::vector<Result> results() {
    std::vector<Result> all{{"output", {y.begin(), y.end()}}};
    for (const Tensor& t : tensors()) all.push_back({t.name, {t.gradient, t.gradient + t.size}});
    return all;
  }

 private:
  /// What a gradient holds before its first backward.
  static S start(std::size_t input) { return Law::inputs[input].gradient == Gradient::overwritten ? S(NAN) : S(0); }

  template <class U>
  void fill(std::vector<U>& to, index_t columns, std::uint64_t tensor, index_t first) {
    for (index_t s = 0; s < shape.sequences; ++s) {
      for (index_t i = 0; i < shape.length * columns; ++i)
        to.push_back(U(static_cast<accumulate_t<U>>(draw(tensor, first + s, i))));
    }
  }

  /// Matrices N(0, 1 / columns), so that activations stay near 1; vectors 1 + N(0, 0.3²).
  void fill_parameters() {
    auto w = parameters.mutable_weights();
    std::uint64_t tensor = 0;
    Layer::visit(w, Path{}, [&](const Path&, auto& view, auto) {
      ++tensor;
      const bool matrix = std::remove_cvref_t<decltype(view)>::rank > 1;
      const double deviation = matrix ? 1 / std::sqrt(static_cast<double>(view.row_size())) : 0.3;
      for (index_t i = 0; i < view.size(); ++i) {
        const double value = bfloat16_value((matrix ? 0.0 : 1.0) + deviation * draw(tensor, 0, i));
        view.data()[i] = T(static_cast<S>(value));
      }
    });
  }

  static decltype(auto) device() { return test::device<D>(); }

  /// What the calls see.
  struct Twin {
    Parameters<Layer, T, D> parameters{test::device<D>()};
    Gradients<Layer, T, D> gradients{test::device<D>()};
    std::array<test::Mirror<T, D>, count> x;
    std::array<test::Mirror<S, D>, count> d_x;
    test::Mirror<T, D> y;
    test::Mirror<S, D> d_y;
    test::Mirror<index_t, D> ids;
    test::Mirror<std::uint8_t, D> mask;
  };

  Twin twin_;
  std::vector<index_t> ids_;
  std::vector<std::uint8_t> mask_;
  typename Law::template Fixture<E> fixture_{shape};
  typename Law::template Saved<E> saved_{};
};

inline bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

template <class Found, class Wanted>
std::string compare_bits(const Found& found, const Wanted& wanted, const char* what) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!same_bits(found[i].values, wanted[i].values)) return fmt::format("{}: '{}' differs", what, wanted[i].name);
  }
  return {};
}

inline double norm(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}
inline double distance(const std::vector<double>& a, std::vector<double> b) {
  for (std::size_t i = 0; i < b.size(); ++i) b[i] -= a[i];
  return norm(b);
}

// ---- The laws ---------------------------------------------------------------------------------------------------

/// Moves one tensor along a direction and compares the slope of <y, d_y> with the gradient.
template <class Law, class D>
class FiniteDifference {
 public:
  explicit FiniteDifference(Trial<Law, double, D>& trial) : trial_(trial) {}

  /// \returns what is wrong with `tensor`'s gradient along `direction`
  std::string check(const typename Trial<Law, double, D>::Tensor& tensor, const std::vector<double>& direction) {
    double slope = 0, length = 0;
    for (index_t i = 0; i < tensor.size; ++i) {
      slope += tensor.gradient[i] * direction[static_cast<std::size_t>(i)];
      length += std::abs(tensor.gradient[i] * direction[static_cast<std::size_t>(i)]);
    }
    const std::vector<double> at(tensor.value, tensor.value + tensor.size);
    const auto central = [&](double h) {
      const double up = value_at(tensor, at, direction, h), down = value_at(tensor, at, direction, -h);
      std::copy(at.begin(), at.end(), tensor.value);
      return (up - down) / (2 * h);
    };
    // Central differences are off by c₂h² + c₄h⁴ + …; two of them cancel c₂, and what two such pairs differ by is 15
    // times what the better one is off by, to leading order. To it comes the rounding of the values, of some tens of
    // operations, divided by h.
    constexpr double h = 1e-3, rounding = 64 * std::numeric_limits<double>::epsilon();
    const double d1 = central(h), d2 = central(2 * h), d4 = central(4 * h);
    const double better = (4 * d1 - d2) / 3, worse = (4 * d2 - d4) / 3;
    const double tolerance = std::abs(better - worse) + rounding * (magnitude_ / h + length);
    if (std::abs(better - slope) <= tolerance) return {};
    return fmt::format("'{}': slope {}, wanted {} within {:.2g}", tensor.name, slope, better, tolerance);
  }

 private:
  double value_at(const typename Trial<Law, double, D>::Tensor& tensor, const std::vector<double>& at,
                  const std::vector<double>& direction, double h) {
    for (std::size_t i = 0; i < at.size(); ++i) tensor.value[i] = at[i] + h * direction[i];
    trial_.forward();
    double sum = 0;
    magnitude_ = 0;
    for (std::size_t i = 0; i < trial_.y.size(); ++i) {
      sum += trial_.y[i] * trial_.d_y[i];
      magnitude_ += std::abs(trial_.y[i] * trial_.d_y[i]);
    }
    return sum;
  }

  Trial<Law, double, D>& trial_;
  double magnitude_ = 0;
};

/// Every gradient, along a direction that moves all elements, and at the first and the last element.
template <class Law, class D = Cpu>
std::string gradients_are_slopes(Shape shape) {
  Trial<Law, double, D> trial(shape);
  trial.forward();
  trial.backward();
  FiniteDifference<Law, D> difference(trial);
  for (const auto& tensor : trial.tensors()) {
    const auto n = static_cast<std::size_t>(tensor.size);
    std::vector<double> all(n), first(n), last(n);
    for (std::size_t i = 0; i < n; ++i)
      all[i] = draw(97, 0, static_cast<index_t>(i)) / std::sqrt(static_cast<double>(n));
    first.front() = last.back() = 1;
    for (const auto& direction : {all, first, last}) {
      if (auto fault = difference.check(tensor, direction); !fault.empty()) return fault;
    }
  }
  return {};
}

/// Outputs, saved activations and input gradients are written before they are read: NaN in them changes no bit.
template <class Law, class T, class D = Cpu>
std::string overwrites(Shape shape) {
  Trial<Law, T, D> clean(shape), poisoned(shape);
  clean.forward();
  clean.backward();
  poisoned.poison();
  poisoned.forward();
  poisoned.backward();
  for (const auto& result : poisoned.results()) {
    for (const double v : result.values) {
      if (!std::isfinite(v)) return fmt::format("'{}' is not finite", result.name);
    }
  }
  return compare_bits(poisoned.results(), clean.results(), "poisoned");
}

/// Parameter gradients (and input gradients that say so) are added to what is there; other input gradients are not.
template <class Law, class D = Cpu>
std::string accumulates(Shape shape) {
  using T = double;
  Trial<Law, T, D> once(shape), twice(shape), from_one(shape);
  const auto ones = from_one.gradients.flat();
  std::fill_n(ones.data(), ones.extent(0), 1.0);
  for (auto* trial : {&once, &twice, &from_one}) trial->forward(), trial->backward();
  twice.backward();
  const auto a = once.tensors(), b = twice.tensors(), c = from_one.tensors();
  for (std::size_t t = 0; t < a.size(); ++t) {
    const bool is_input = a[t].name.rfind("input ", 0) == 0;
    const bool adds = !is_input || Law::inputs[t - (a.size() - Law::inputs.size())].gradient == Gradient::accumulated;
    double scale = 1;
    for (index_t i = 0; i < a[t].size; ++i) scale = std::max(scale, std::abs(a[t].gradient[i]));
    for (index_t i = 0; i < a[t].size; ++i) {
      const double g = a[t].gradient[i];
      // Chains of at most a few hundred additions that begin elsewhere.
      if (!(std::abs(b[t].gradient[i] - (adds ? 2 * g : g)) <= 1e-13 * scale)) return a[t].name + ": backward twice";
      if (!(std::abs(c[t].gradient[i] - (is_input ? g : 1 + g)) <= 1e-13 * scale)) return a[t].name + ": from 1";
    }
  }
  return {};
}

/// The plan is what is used, to the byte.
template <class Law, class T, class D = Cpu>
std::string plan_is_exact(Shape shape) {
  Trial<Law, T, D> trial(shape);
  trial.forward();
  trial.backward();
  if (trial.arena.peak() == trial.arena.capacity()) return {};
  return fmt::format("planned {} bytes, used {}", trial.arena.capacity(), trial.arena.peak());
}

/// After a first call, nothing is allocated.
template <class Law, class T, class D = Cpu>
std::string never_allocates(Shape shape) {
  Trial<Law, T, D> trial(shape);
  trial.forward();
  trial.backward();
  const long before = test::allocations<D>();
  trial.forward();
  trial.backward();
  const long made = test::allocations<D>() - before;
  return made == 0 ? "" : fmt::format("{} allocations", made);
}

/// 1, 2 and 3 threads.
template <class Law, class T, class D = Cpu>
std::string threads_change_nothing(Shape shape) {
  Trial<Law, T, D> one(shape);
  one.forward(1);
  one.backward(1);
  for (const int threads : {2, 3}) {
    Trial<Law, T, D> trial(shape);
    trial.forward(threads);
    trial.backward(threads);
    if (auto fault = compare_bits(trial.results(), one.results(), "threads"); !fault.empty()) return fault;
  }
  return {};
}

/// A sequence's output and input gradients are the same bits alone and among others.
template <class Law, class T, class D = Cpu>
std::string sequences_are_alone(Shape shape) {
  Trial<Law, T, D> all(shape);
  all.forward();
  all.backward();
  const auto part_is_same = [&](const auto& whole, const auto& part, index_t s) {
    return part.empty() || std::memcmp(whole.data() + static_cast<std::size_t>(s) * part.size(), part.data(),
                                       part.size() * sizeof(part[0])) == 0;
  };
  for (index_t s = 0; s < shape.sequences; ++s) {
    Trial<Law, T, D> one({1, shape.length}, s);
    one.forward();
    one.backward();
    if (!part_is_same(all.y, one.y, s)) return fmt::format("output of sequence {}", s);
    for (std::size_t i = 0; i < Law::inputs.size(); ++i) {
      if (!part_is_same(all.d_x[i], one.d_x[i], s)) return fmt::format("gradient of input {} of sequence {}", i, s);
    }
  }
  return {};
}

/// bfloat16 storage stays near exact arithmetic on the same (bfloat16) operands.
///
/// The rule: arithmetic in float32, each stored tensor rounded once. A stored value t becomes t (1 + δ), |δ| <= u =
/// 2⁻⁸. Where t = Wx, that is the exact value for a W whose row is off by δ; where t goes into the next product, for a
/// W whose column is; in a weight's gradient d_yᵀx, one for a d_y that is. So the whole calculation is an exact one on
/// operands off by no more than u for each stored tensor beside them, and a weight has at most one before it and one
/// after it: 2. How far results move when each weight, input and d_y moves by u, up or down, is measured in double,
/// eight times; to first order twice the largest is the bound. Where a result is one number, eight draws are few to
/// find how far it moves: 32. To it comes float32's own rounding: of terms near 1, as all operands here are, so for r
/// rows some 2⁻²⁰ √r an element even where the terms cancel.
template <class Law, class D = Cpu>
std::string rounds_once(Shape shape) {
  constexpr double u = 0x1p-8;
  Trial<Law, double, D> exact(shape);
  Trial<Law, bfloat16, D> rounded(shape);
  exact.forward(), exact.backward(), rounded.forward(), rounded.backward();
  const auto wanted = exact.results();
  const auto found = rounded.results();
  std::vector<double> moved(wanted.size());
  for (index_t sample = 0; sample < (Law::scalar ? 32 : 8); ++sample) {
    Trial<Law, double, D> off(shape);
    index_t n = 0;
    for (const auto& t : off.tensors()) {
      for (index_t i = 0; i < t.size; ++i) t.value[i] *= 1 + (draw(96, sample, n++) < 0 ? -u : u);
    }
    for (double& d : off.d_y) d *= 1 + (draw(96, sample, n++) < 0 ? -u : u);
    off.forward(), off.backward();
    const auto results = off.results();
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] = std::max(moved[i], distance(results[i].values, wanted[i].values));
    }
  }
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const double error = distance(found[i].values, wanted[i].values);
    const double elements = static_cast<double>(wanted[i].values.size()) * static_cast<double>(shape.rows());
    const double bound = 2 * moved[i] + 0x1p-20 * std::sqrt(elements);
    if (!(error <= bound)) return fmt::format("'{}': off by {:.3g}, wanted <= {:.3g}", wanted[i].name, error, bound);
  }
  return {};
}

}  // namespace k3spec::laws
