// A layer of one's own, its backward pass written out: y = x + scale ∘ (x Wdownᵀ) Wupᵀ, a residual adapter of low rank.
// Its gradients are held against differences.
#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/layers/linear.hpp>
#include <k3spec/testing.hpp>

using namespace k3spec;

template <index_t Hidden, index_t Rank>
struct Adapter {
  using Down = Linear<Hidden, Rank>;
  using Up = Linear<Rank, Hidden>;

  /// Its tensors, of any element type; visit names them, in the order that parameters lie in.
  template <class T>
  struct Weights {
    typename Down::template Weights<T> down;
    typename Up::template Weights<T> up;
    View<stored_t<T>, Hidden> scale;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Down::visit(w.down, at / "down", v);
    Up::visit(w.up, at / "up", v);
    v(at / "scale", w.scale, Init::ones);
  }

  /// What backward needs of forward, beside x.
  template <class T>
  struct Saved {
    Rows<T, Rank> narrow;
    Rows<T, Hidden> wide;

    template <Allocator A>
    static constexpr Saved allocate(A& a, index_t rows) {
      Saved s;
      take_rows(a, rows, s.narrow), take_rows(a, rows, s.wide);
      return s;
    }
  };

  /// x, scale, wide -> y
  static constexpr auto formula() { return expr::arg<0> + expr::column<1> * expr::arg<2>; }

  /// x, y [rows, Hidden]
  template <class T, Device D>
  static void forward(const D& device, const Weights<const T>& w, const Rows<T, Hidden>& x, const Rows<T, Hidden>& y,
                      const Saved<T>& saved) {
    require_rows("Adapter: y", y, x.extent(0));
    Down::forward(device, w.down, x, saved.narrow);
    Up::forward(device, w.up, saved.narrow, saved.wide);
    evaluate(device, formula(), y, x, w.scale, saved.wide);
  }

  /// The gradients of Σ y ∘ d_y: those of parameters are added to, d_x is overwritten.
  template <class T, Device D, Allocator A>
  static void backward(const Workspace<D, A>& on, const Weights<const T>& w, const Weights<T>& d_w,
                       const Rows<T, Hidden>& x, const Saved<T>& saved, const Rows<T, Hidden>& d_y,
                       const Rows<T, Hidden>& d_x) {
    const Scope scope(on.scratch);
    const auto d_saved = Saved<T>::allocate(on.scratch, x.extent(0));
    differentiate(on.device, formula(), d_y, gradients(overwrite(d_x), accumulate(d_w.scale), overwrite(d_saved.wide)),
                  on.scratch, x, w.scale, saved.wide);
    Up::backward(on.device, w.up, d_w.up, saved.narrow, d_saved.wide, d_saved.narrow);
    Down::backward(on.device, w.down, d_w.down, x, d_saved.narrow, Destination<T>(d_x, Into::accumulate));
  }
};

int main() {
  using Layer = Adapter<9, 4>;
  const index_t rows = 5;
  std::vector<double> numbers(4 * rows * 9);
  const auto view = [&](index_t i) { return Rows<double, 9>(numbers.data() + i * rows * 9, rows); };
  const auto x = view(0), d_x = view(1), y = view(2), d_y = view(3);
  for (index_t i = 0; i < x.size(); ++i) x.data()[i] = Philox(7).normal(static_cast<std::uint64_t>(i));
  Parameters<Layer, double> w;
  Gradients<Layer, double> d_w;
  w.initialize(/*seed=*/1, /*deviation=*/0.5);
  Arena arena(1 << 16);
  const auto saved = Layer::Saved<double>::allocate(arena, rows);

  testing::GradientCheck check;
  check.input("x", x, d_x).parameters(w, d_w).output(y, d_y);
  const testing::Report report =
      check.run([&] { Layer::forward(Cpu{}, w.weights(), x, y, saved); },
                [&] { Layer::backward(Workspace(Cpu{}, arena), w.weights(), d_w.weights(), x, saved, d_y, d_x); });
  fmt::print("{}", report.text());
  return report.ok() ? 0 : 1;
}
