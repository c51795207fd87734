#pragma once
/// \file
/// A backward pass against central differences of its forward pass, in double.
///
/// f = Σ <output, d_output>, and f'(x) is wanted. D(h) = (f(x + h) - f(x - h)) / 2h is off by c₂h² + c₄h⁴ + …; the
/// better (4 D(h) - D(2h)) / 3 has no h² any more, and what it and the worse (4 D(2h) - D(4h)) / 3 differ by is 15
/// times what the better is off by, to leading order. Rounding adds what a value of f is off by, over h: with M = Σ
/// |output * d_output| and `rounding` operations on the way to an output that is rounding * ε M / h; and x + h itself
/// is rounded, which is ε |x f'(x)| / h. The sum of these three is the tolerance.
///
/// h is a power of two near `step` times the tensor's root mean square (1 where all is 0), so that it fits tensors of
/// any size. With 2^-10 h⁴ is 1e-12 and ε / h 2e-13, in units of the tensor's size: a hundredth of the step has 100
/// times the second, ten times the step 10⁴ times the first.
///
/// defines: testing::GradientOptions, testing::GradientCheck

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/parameters.hpp>
#include <k3spec/testing/report.hpp>

namespace K3SPEC_NAMESPACE::testing {

/// How differences are taken.
struct GradientOptions {
  /// Of a tensor with more elements so many (at least 2) are tried, drawn by `seed`, the first and the last among them;
  /// all together are along one direction, and where that disagrees the element is searched for.
  index_t elements = 24;
  std::uint64_t seed = 1;
  /// See above.
  double step = 0x1p-10;
  double rounding = 64;
  /// Differences that are off by more than this part of the tensor's largest, rounding aside, say nothing: there is a
  /// kink (ReLU's at 0), or the forward pass is not smooth at all.
  double unsettled = 1e-4;
};

/// The tensors of a layer and where its backward pass writes their gradients.
/// ```cpp
/// #include <k3spec/testing.hpp>
/// inline testing::Report check_norm() {
///   using Norm = KimiRMSNorm<12>;
///   std::vector<double> numbers(4 * 5 * 12, 0.5);
///   const auto view = [&](index_t i) { return Rows<double, 12>(numbers.data() + i * 60, 5); };
///   const auto x = view(0), d_x = view(1), y = view(2), d_y = view(3);
///   for (index_t i = 0; i < x.size(); ++i) x.data()[i] = Philox(7).normal(static_cast<std::uint64_t>(i));
///   Parameters<Norm, double> w;
///   Gradients<Norm, double> d_w;
///   w.initialize(1);
///   Arena scratch(Norm::scratch_bytes<double>(5));
///
///   testing::GradientCheck check;
///   check.input("x", x, d_x).parameters(w, d_w).output(y, d_y);
///   return check.run([&] { Norm::forward(Cpu{}, w.weights(), 1e-5, x, y); },
///                    [&] { Norm::backward(Workspace(Cpu{}, scratch), w.weights(), d_w.weights(), 1e-5, x, d_y, d_x);
///                    });
/// }
/// ```
class GradientCheck {
 public:
  explicit GradientCheck(const GradientOptions& options = {}) : options_(options) {}

  /// A tensor that the forward pass reads. It is moved and put back.
  /// \throws Error on views of different shapes or with gaps between rows
  template <index_t... E, index_t... F>
  GradientCheck& input(std::string name, const View<double, E...>& x, const View<double, F...>& d_x) {
    pair(name, x, d_x);
    inputs_.push_back({std::move(name), io::shape_of(x), values(x), values(d_x)});
    return *this;
  }
  /// All trained parameters of a layer, by their names.
  template <class Layer>
  GradientCheck& parameters(Parameters<Layer, double>& w, Gradients<Layer, double>& d_w,
                            const std::string& prefix = "") {
    auto views = d_w.weights();
    Layer::visit(views, Path{}, [&](const Path& path, auto& view, auto) {
      if (view.data() == nullptr) return;
      double* value = w.trainable().data() + (view.data() - d_w.flat().data());
      const auto size = static_cast<std::size_t>(view.size());
      inputs_.push_back({prefix + path.str(), io::shape_of(view), {value, size}, {view.data(), size}});
    });
    return *this;
  }
  /// A tensor that the forward pass writes, and its gradient, which is drawn here. There may be several.
  /// \throws Error on views of different shapes or with gaps between rows
  template <index_t... E, index_t... F>
  GradientCheck& output(const View<double, E...>& y, const View<double, F...>& d_y) {
    pair("output", y, d_y);
    outputs_.push_back({"output", io::shape_of(y), values(y), values(d_y)});
    return *this;
  }

  /// Calls both and compares. The gradients are zero before `backward`, which may add to them or overwrite them;
  /// `forward` has run before it, and runs last.
  /// \param forward   forward(): writes the outputs
  /// \param backward  backward(): writes the gradients
  /// \returns a row for each tensor: found is the gradient, wanted the difference, at the elements that were tried
  template <class Forward, class Backward>
  Report run(const Forward& forward, const Backward& backward) {
    const std::function<void()> call = forward;
    draw_outputs();
    forward();
    for (const Variable& v : inputs_) std::fill(v.gradient.begin(), v.gradient.end(), 0.0);
    backward();
    const std::vector<double> before = all_outputs();
    Report report;
    for (const Variable& v : inputs_) report.add(row_of(v, call));
    forward();
    const std::vector<double> after = all_outputs();
    if (std::memcmp(before.data(), after.data(), before.size() * sizeof(double)) != 0)
      report.fault("output", "computed again from the same inputs it is another");
    return report;
  }

 private:
  struct Variable {
    std::string name;
    std::vector<index_t> shape;
    std::span<double> value, gradient;
  };
  /// f's slope along a direction.
  struct Slope {
    double better = 0, unsettled = 0, rounding = 0;
  };
  /// A direction: elements `at` move by `by`.
  struct Direction {
    std::vector<std::size_t> at;
    std::vector<double> by;
  };

  template <index_t... E>
  static std::span<double> values(const View<double, E...>& v) {
    return {v.data(), static_cast<std::size_t>(v.size())};
  }
  template <class A, class B>
  static void pair(const std::string& name, const A& a, const B& b) {
    if (io::shape_of(a) != io::shape_of(b)) {
      throw Error("gradient of '" + name + "': shape", io::shape_string(io::shape_of(b)),
                  io::shape_string(io::shape_of(a)));
    }
    if (!a.is_packed() || !b.is_packed()) throw Error("'" + name + "'", "gaps between rows", "a packed tensor");
  }

  void draw_outputs() {
    std::uint64_t stream = 1;
    for (const Variable& v : outputs_) {
      const Philox random(options_.seed, stream++);
      for (std::size_t i = 0; i < v.gradient.size(); ++i) v.gradient[i] = random.normal(i);
    }
  }
  std::vector<double> all_outputs() const {
    std::vector<double> all;
    for (const Variable& v : outputs_) all.insert(all.end(), v.value.begin(), v.value.end());
    return all;
  }

  /// f with the elements moved by h, and M beside it.
  std::pair<double, double> moved(const Variable& v, const Direction& d, double h,
                                  const std::function<void()>& forward) const {
    std::vector<double> kept(d.at.size());
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = v.value[d.at[i]], v.value[d.at[i]] += h * d.by[i];
    forward();
    for (std::size_t i = 0; i < kept.size(); ++i) v.value[d.at[i]] = kept[i];
    double sum = 0, magnitude = 0;
    for (const Variable& out : outputs_) {
      for (std::size_t i = 0; i < out.value.size(); ++i) {
        const double term = out.value[i] * out.gradient[i];
        sum += term, magnitude += std::abs(term);
      }
    }
    return {sum, magnitude};
  }

  Slope slope(const Variable& v, const Direction& d, const std::function<void()>& forward) const {
    double squares = 0, shift = 0, magnitude = 0;
    for (const double x : v.value) squares += x * x;
    const double size = squares == 0 ? 1 : std::sqrt(squares / static_cast<double>(v.value.size()));
    const double h = std::exp2(std::floor(std::log2(options_.step * size)));
    for (std::size_t i = 0; i < d.at.size(); ++i)
      shift += std::abs(v.gradient[d.at[i]] * d.by[i]) + std::abs(v.gradient[d.at[i]] * v.value[d.at[i]]) / h;
    const auto central = [&](double by) {
      const auto [up, above] = moved(v, d, by, forward);
      const auto [down, below] = moved(v, d, -by, forward);
      magnitude = std::max({magnitude, above, below});
      return (up - down) / (2 * by);
    };
    const double d1 = central(h), d2 = central(2 * h), d4 = central(4 * h);
    constexpr double epsilon = std::numeric_limits<double>::epsilon();
    const double better = (4 * d1 - d2) / 3, worse = (4 * d2 - d4) / 3;
    return {better, std::abs(better - worse), epsilon * (options_.rounding * magnitude / h + shift)};
  }

  static Direction one(std::size_t i) { return {{i}, {1.0}}; }
  /// Elements [begin, end), each by a number of its own.
  Direction many(std::size_t begin, std::size_t end, std::size_t all) const {
    Direction d;
    for (std::size_t i = begin; i < end; ++i) {
      d.at.push_back(i);
      d.by.push_back(Philox(options_.seed, 0).normal(i) / std::sqrt(static_cast<double>(all)));
    }
    return d;
  }
  bool agrees(const Variable& v, const Direction& d, const std::function<void()>& forward) const {
    const Slope s = slope(v, d, forward);
    double found = 0;
    for (std::size_t i = 0; i < d.at.size(); ++i) found += v.gradient[d.at[i]] * d.by[i];
    return std::abs(found - s.better) <= s.unsettled + s.rounding;
  }

  /// The elements to try, ascending. \param far  gets whether all of them together disagree
  std::vector<std::size_t> chosen(const Variable& v, const std::function<void()>& forward, bool& far) const {
    const std::size_t n = v.value.size(), most = static_cast<std::size_t>(std::max<index_t>(2, options_.elements));
    std::vector<std::size_t> at;
    // Of each of as many parts one; of the first part its first, of the last its last.
    const std::size_t parts = std::min(n, most);
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t begin = i * n / parts, end = (i + 1) * n / parts;
      const bool drawn = i > 0 && i + 1 < parts;
      at.push_back(drawn ? begin + Philox(options_.seed, ~std::uint64_t{0}).below(i, end - begin) : i == 0 ? 0 : n - 1);
    }
    far = n > most && !agrees(v, many(0, n, n), forward);
    if (far) {
      std::size_t begin = 0, end = n;
      while (end - begin > 1) {
        const std::size_t middle = begin + (end - begin) / 2;
        (agrees(v, many(begin, middle, n), forward) ? begin : end) = middle;
      }
      at.push_back(begin);
    }
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
    return at;
  }

  Row row_of(const Variable& v, const std::function<void()>& forward) const {
    bool far = false;
    const auto at = chosen(v, forward, far);
    Tensor<double> found{v.name, {static_cast<index_t>(at.size())}, {}}, wanted = found;
    std::vector<double> limits, unsettled, rounding;
    for (const std::size_t i : at) {
      const Slope s = slope(v, one(i), forward);
      found.values.push_back(v.gradient[i]), wanted.values.push_back(s.better);
      limits.push_back(s.unsettled + s.rounding), unsettled.push_back(s.unsettled), rounding.push_back(s.rounding);
    }
    Row row{v.name, found.shape};
    detail::measure(row, found, wanted, [&](std::size_t i) { return limits[i]; });
    if (row.bad > 0) row.first_bad = detail::multi_index(v.shape, static_cast<index_t>(at[place(row)]));
    row.shape = v.shape;
    if (at.size() < v.value.size()) row.note = fmt::format("{} of {} elements", at.size(), v.value.size());
    if (far && row.bad == 0) add_fault(row, "off along a direction of all elements");
    const double most = detail::largest(wanted.values);
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (unsettled[i] <= options_.unsettled * most + rounding[i]) continue;
      const auto where = detail::multi_index(v.shape, static_cast<index_t>(at[i]));
      add_fault(row, fmt::format("differences do not settle at {}: a kink, or noise", io::shape_string(where)));
      break;
    }
    return row;
  }
  static std::size_t place(const Row& row) { return static_cast<std::size_t>(row.first_bad[0]); }
  static void add_fault(Row& row, const std::string& note) {
    row.note += (row.note.empty() ? "" : "; ") + note;
    row.ok = false;
  }

  GradientOptions options_;
  std::vector<Variable> inputs_, outputs_;
};

}  // namespace K3SPEC_NAMESPACE::testing
