// Backward passes of the library's layers and of one's own, right ones and wrong ones.
#include <doctest/doctest.h>

#include <functional>

#include <k3spec/testing.hpp>

using namespace k3spec;
using testing::GradientCheck;
using testing::Report;

namespace {

struct Small : configs::KimiK3 {
  static constexpr index_t hidden_size = 9;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 5;
  static constexpr index_t kv_lora_rank = 7, qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 6;
};

/// [rows, C] of normal numbers, or zeros.
template <index_t C>
class Numbers {
 public:
  explicit Numbers(index_t rows, std::uint64_t stream = 0) : values_(static_cast<std::size_t>(rows * C)) {
    for (std::size_t i = 0; stream != 0 && i < values_.size(); ++i) values_[i] = Philox(3, stream).normal(i);
  }
  Rows<double, C> view() { return Rows<double, C>(values_.data(), static_cast<index_t>(values_.size()) / C); }

 private:
  std::vector<double> values_;
};

/// y = x σ(x) + x² / 4 of one's own, and a backward pass that a test may spoil.
struct Own {
  static constexpr index_t columns = 5;
  explicit Own(index_t rows) : x(rows, 1), d_x(rows), y(rows), d_y(rows) {}
  Numbers<columns> x, d_x, y, d_y;

  static constexpr auto formula() {
    constexpr auto x = expr::arg<0>;
    return x * sigmoid(x) + 0.25 * square(x);
  }
  void forward() { evaluate(Cpu{}, formula(), y.view(), x.view()); }
  void backward() {
    Arena scratch(0);
    differentiate(Cpu{}, formula(), d_y.view(), gradients(overwrite(d_x.view())), scratch, x.view());
  }
  Report check(
      const std::function<void()>& spoil = [] {}, const testing::GradientOptions& options = {}) {
    GradientCheck check(options);
    check.input("x", x.view(), d_x.view()).output(y.view(), d_y.view());
    return check.run([&] { forward(); }, [&] { backward(), spoil(); });
  }
};

using Index = std::vector<index_t>;

}  // namespace

TEST_CASE("gradients: the library's layers are right") {
  constexpr index_t rows = 4;
  Numbers<9> x(rows, 1), d_x(rows), y(rows), d_y(rows);
  GradientCheck with_input;
  with_input.input("x", x.view(), d_x.view()).output(y.view(), d_y.view());

  SUBCASE("SiTUMLP") {
    using MLP = SiTUMLP<9, 13, Small>;
    Parameters<MLP, double> w;
    Gradients<MLP, double> d_w;
    w.initialize(1, 0.3);
    Arena arena(plan_bytes([&](ArenaPlan& a) {
      MLP::Saved<double>::allocate(a, rows);
      a.borrow(MLP::scratch_bytes<double>(rows));
    }));
    const auto saved = MLP::Saved<double>::allocate(arena, rows);
    const Report report = with_input.parameters(w, d_w, "mlp.")
                              .run([&] { MLP::forward<double>(Cpu{}, w.weights(), x.view(), y.view(), saved); },
                                   [&] {
                                     MLP::backward<double>(Workspace(Cpu{}, arena), w.weights(), d_w.weights(),
                                                           x.view(), saved, d_y.view(), d_x.view());
                                   });
    CHECK_MESSAGE(report.ok(), report.text());
    CHECK(report.rows().size() == 4);
    CHECK(report.rows()[1].name == "mlp.gate_proj.weight");
    CHECK(report.rows()[1].note == "24 of 117 elements");
  }
  SUBCASE("KimiRMSNorm, of tiny and of large numbers") {
    using Norm = KimiRMSNorm<9>;
    for (const double scale : {1e-4, 1.0, 1e6}) {
      for (index_t i = 0; i < x.view().size(); ++i)
        x.view().data()[i] = scale * Philox(5).normal(static_cast<std::uint64_t>(i));
      Parameters<Norm, double> w;
      Gradients<Norm, double> d_w;
      w.initialize(1);
      Arena arena(Norm::scratch_bytes<double>(rows));
      GradientCheck check;
      check.input("x", x.view(), d_x.view()).parameters(w, d_w).output(y.view(), d_y.view());
      const Report report = check.run([&] { Norm::forward(Cpu{}, w.weights(), 1e-5, x.view(), y.view()); },
                                      [&] {
                                        Norm::backward(Workspace(Cpu{}, arena), w.weights(), d_w.weights(), 1e-5,
                                                       x.view(), d_y.view(), d_x.view());
                                      });
      CHECK_MESSAGE(report.ok(), report.text());
    }
  }
  SUBCASE("the projections of MLA, which has three outputs") {
    using Attention = MLA<Small>;
    Parameters<Attention, double> w;
    Gradients<Attention, double> d_w;
    w.initialize(1, 0.3);
    Arena arena(plan_bytes([&](ArenaPlan& a) {
      Attention::Saved<double>::allocate(a, rows), Attention::Gradient<double>::allocate(a, rows);
      a.borrow(Attention::scratch_bytes<double>(rows));
    }));
    const auto saved = Attention::Saved<double>::allocate(arena, rows);
    const auto g = Attention::Gradient<double>::allocate(arena, rows);
    std::fill_n(g.d_gate.data(), g.d_gate.size(), 0.0);
    Numbers<3 * 11> d_kv(rows);
    Numbers<3> k_rope(rows), d_k_rope(rows);
    GradientCheck check;
    check.input("x", x.view(), d_x.view()).parameters(w, d_w).output(saved.q, g.d_q).output(saved.kv, d_kv.view());
    check.output(k_rope.view(), d_k_rope.view());
    const Report report = check.run(
        [&] {
          Attention::project<double>(Cpu{}, w.weights(), x.view(), saved);
          for (index_t r = 0; r < rows; ++r) {
            for (index_t i = 0; i < 3; ++i) k_rope.view()(r, i) = saved.k_rope()(r, i);
          }
        },
        [&] {
          Attention::project_backward<double>(Workspace(Cpu{}, arena), w.weights(), d_w.weights(), x.view(), saved,
                                              g.with_keys({d_kv.view(), d_k_rope.view()}), d_x.view());
        });
    CHECK_MESSAGE(report.ok(), report.text());
    CHECK(report.rows().size() == 9);
  }
}

TEST_CASE("gradients: an expression of one's own; what is off is named") {
  for (const index_t rows : {0, 1, 3, 40}) {
    const Report report = Own(rows).check();
    CHECK_MESSAGE(report.ok(), report.text());
  }
  Own small(3);
  const Report one = small.check([&] { small.d_x.view()(1, 2) *= 1 + 1e-7; });
  REQUIRE(one.rows().size() == 1);
  CHECK(one.rows()[0].name == "x");
  CHECK(one.rows()[0].bad == 1);
  CHECK(one.rows()[0].first_bad == Index{1, 2});
  CHECK(one.rows()[0].shape == Index{3, 5});

  const Report none = small.check([&] { std::fill_n(small.d_x.view().data(), 15, 0.0); });
  CHECK(none.rows()[0].bad == 15);
  CHECK(!small.check([&] { small.d_x.view()(2, 4) = NAN; }).ok());
}

TEST_CASE("gradients: of a large tensor an element that was not drawn is found") {
  for (const index_t row : {0, 17, 133, 199}) {
    Own large(200);
    const Report report = large.check([&] { large.d_x.view()(row, 3) += 1e-3; });
    CHECK(!report.ok());
    CHECK(report.rows()[0].first_bad == Index{row, 3});
  }
  Own large(200);
  testing::GradientOptions all;
  all.elements = 1000;
  CHECK(large.check([] {}, all).rows()[0].note.empty());
  all.elements = 50;
  CHECK(large.check([] {}, all).rows()[0].note == "50 of 1000 elements");
}

TEST_CASE("gradients: the tolerance tells an error of 1e-8 from none, at any size of the numbers") {
  for (const double scale : {1e-3, 1.0}) {
    for (const double error : {0.0, 1e-8}) {
      Own own(3);
      for (index_t i = 0; i < 15; ++i) own.x.view().data()[i] *= scale;
      const Report report = own.check([&] { own.d_x.view()(0, 0) *= 1 + error; });
      CHECK_MESSAGE(report.ok() == (error == 0), report.text());
    }
  }
}

TEST_CASE("gradients: a kink, and a forward pass that is no function, are told") {
  Own own(2);
  GradientCheck check;
  check.input("x", own.x.view(), own.d_x.view()).output(own.y.view(), own.d_y.view());
  own.x.view()(1, 1) = 0x1p-12;
  const auto x = expr::arg<0>;
  Arena scratch(0);
  const auto relu = [&] { evaluate(Cpu{}, max(x, 0.0), own.y.view(), own.x.view()); };
  const auto d_relu = [&] {
    differentiate(Cpu{}, max(x, 0.0), own.d_y.view(), gradients(overwrite(own.d_x.view())), scratch, own.x.view());
  };
  const Report kink = check.run(relu, d_relu);
  CHECK(!kink.ok());
  CHECK(kink.rows()[0].note.find("differences do not settle at [1, 1]") != std::string::npos);

  int calls = 0;
  const Report changing = check.run([&] { own.forward(), own.y.view()(0, 0) += ++calls; }, [&] { own.backward(); });
  CHECK(changing.rows().back().note == "computed again from the same inputs it is another");
  CHECK(!changing.ok());
}

TEST_CASE("gradients: what is no pair is refused, and the inputs are put back") {
  std::vector<double> numbers(12);
  GradientCheck check;
  const Matrix<double> a(numbers.data(), 3, 4), b(numbers.data(), 4, 3),
      gaps(numbers.data(), Extents<dyn, dyn>(3, 3), 4);
  CHECK_THROWS_WITH_AS(check.input("x", a, b), "gradient of 'x': shape: found [4, 3], wanted [3, 4]", Error);
  CHECK_THROWS_WITH_AS(check.input("x", gaps, gaps), "'x': found gaps between rows, wanted a packed tensor", Error);
  CHECK_THROWS_WITH_AS(check.output(a, b), "gradient of 'output': shape: found [4, 3], wanted [3, 4]", Error);
  Own own(3), same(3);
  own.check();
  for (index_t i = 0; i < 15; ++i) CHECK(own.x.view().data()[i] == same.x.view().data()[i]);
  same.forward();
  for (index_t i = 0; i < 15; ++i) CHECK(own.y.view().data()[i] == same.y.view().data()[i]);
}
