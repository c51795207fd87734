// The laws of the layers that treat each row by itself.
#include <doctest/doctest.h>

#include <tests/laws/check_laws.hpp>
#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/ops/embedding.hpp>

using namespace k3spec;
using laws::Input;
using laws::Shape;

namespace {

template <index_t In, index_t Out>
struct LinearLaw : laws::Defaults {
  using Layer = Linear<In, Out>;
  static constexpr std::array inputs{Input{In}};
  static constexpr index_t output = Out;
  static void forward(const auto& c) { Layer::forward(c.cpu, c.w, c.x[0], c.y); }
  static void backward(const auto& c, const auto& b) { Layer::backward(c.cpu, c.w, b.d_w, c.x[0], b.d_y, b.d_x[0]); }
};

template <index_t N>
struct RMSNormLaw : laws::Defaults {
  using Layer = KimiRMSNorm<N>;
  static constexpr std::array inputs{Input{N}};
  static constexpr index_t output = N;
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape shape) {
    return Layer::template scratch_bytes<T>(shape.rows());
  }
  static void forward(const auto& c) { Layer::forward(c.cpu, c.w, 1e-5, c.x[0], c.y); }
  static void backward(const auto& c, const auto& b) {
    Layer::backward(c.cpu, c.w, b.d_w, 1e-5, c.x[0], b.d_y, b.d_x[0], b.scratch);
  }
};

/// The norm where it adds to its input's gradient.
template <index_t N>
struct AddingNormLaw : RMSNormLaw<N> {
  static constexpr std::array inputs{Input{N, laws::Gradient::accumulated}};
  static void backward(const auto& c, const auto& b) {
    KimiRMSNorm<N>::backward(c.cpu, c.w, b.d_w, 1e-5, c.x[0], b.d_y, b.d_x[0], b.scratch, Into::accumulate);
  }
};

template <class Mlp, index_t Hidden>
struct MlpLaw : laws::Defaults {
  using Layer = Mlp;
  static constexpr std::array inputs{Input{Hidden}};
  static constexpr index_t output = Hidden;
  template <class T>
  struct Saved : Layer::template Saved<T> {
    template <Allocator A>
    static constexpr Saved allocate(A& a, Shape shape) {
      return {Layer::template Saved<T>::allocate(a, shape.rows())};
    }
  };
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape shape) {
    return Layer::template scratch_bytes<T>(shape.rows());
  }
  template <class T>
  static void forward(const laws::Call<MlpLaw, T>& c) {
    Layer::template forward<T>(c.cpu, c.w, c.x[0], c.y, c.saved);
  }
  template <class T>
  static void backward(const laws::Call<MlpLaw, T>& c, const laws::Back<MlpLaw, T>& b) {
    Layer::template backward<T>(c.cpu, c.w, b.d_w, c.x[0], c.saved, b.d_y, b.d_x[0], b.scratch);
  }
};

struct Bounded : configs::KimiK3 {};
struct Unbounded : configs::KimiK3 {
  static constexpr std::optional<double> activation_situ_linear_beta = std::nullopt;
};

template <index_t N>
struct Table {
  template <class T>
  struct Weights {
    View<T, 13, N> table;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "table", w.table, Init::normal);
  }
};

template <index_t N>
struct EmbeddingLaw : laws::Defaults {
  using Layer = Table<N>;
  static constexpr std::array<Input, 0> inputs{};
  static constexpr index_t output = N, vocabulary = 13;
  template <class T>
  static void forward(const laws::Call<EmbeddingLaw, T>& c) {
    embedding_forward<T>(c.cpu, c.ids, c.w.table, c.y);
  }
  template <class T>
  static void backward(const laws::Call<EmbeddingLaw, T>& c, const laws::Back<EmbeddingLaw, T>& b) {
    embedding_backward<accumulate_t<T>>(c.cpu, c.ids, std::nullopt, b.d_y, b.d_w.table);
  }
};

}  // namespace

TEST_CASE("laws: Linear") {
  laws::check<LinearLaw<5, 3>>({{1, 1}, {3, 1}, {2, 9}, {1, 40}, {0, 1}});
  laws::check<LinearLaw<1, 1>>({{1, 1}, {5, 1}});
  laws::check<LinearLaw<67, 130>>({{3, 25}});
}

TEST_CASE("laws: Embedding") { laws::check<EmbeddingLaw<7>>({{1, 1}, {3, 5}, {1, 40}, {0, 1}}); }

TEST_CASE("laws: KimiRMSNorm") {
  laws::check<RMSNormLaw<11>>({{1, 1}, {3, 1}, {2, 17}, {0, 1}});
  laws::check<RMSNormLaw<1>>({{1, 1}, {3, 1}});
  laws::check<AddingNormLaw<130>>({{1, 1}, {2, 41}});
}

TEST_CASE("laws: SiTUMLP and SwiGLUMLP") {
  laws::check<MlpLaw<SiTUMLP<7, 13, Bounded>, 7>>({{1, 1}, {3, 1}, {2, 9}, {0, 1}});
  laws::check<MlpLaw<SiTUMLP<7, 13, Unbounded>, 7>>({{1, 1}, {2, 9}});
  laws::check<MlpLaw<SwiGLUMLP<40, 51>, 40>>({{1, 1}, {3, 31}});
}

TEST_CASE("a padding id's row has no gradient, and an id outside the table is refused") {
  std::vector<double> table(13 * 2, 1.0), d_table(13 * 2, 0.0), y(3 * 2), d_y(3 * 2, 1.0);
  std::vector<index_t> ids{4, 3, 4};
  const Vector<const index_t> in(ids.data(), 3);
  embedding_backward<double>(Cpu{}, in, 3, Matrix<double>(d_y.data(), 3, 2), Matrix<double>(d_table.data(), 13, 2));
  for (index_t i = 0; i < 26; ++i) CHECK(d_table[static_cast<std::size_t>(i)] == (i / 2 == 4 ? 2 : 0));
  for (const index_t wrong : {-1, 13}) {
    ids[1] = wrong;
    const auto call = [&] {
      embedding_forward<double>(Cpu{}, in, Matrix<const double>(table.data(), 13, 2), Matrix<double>(y.data(), 3, 2));
    };
    CHECK_THROWS_WITH_AS(call(), doctest::Contains("token id at row 1"), Error);
  }
}

TEST_CASE("bfloat16: a linear layer's output is float32's, rounded once") {
  laws::Trial<LinearLaw<67, 130>, float> wide({3, 25});
  laws::Trial<LinearLaw<67, 130>, bfloat16> narrow({3, 25});
  wide.forward(), narrow.forward();
  for (std::size_t i = 0; i < wide.y.size(); ++i) CHECK(bfloat16(wide.y[i]).bits == narrow.y[i].bits);
}
