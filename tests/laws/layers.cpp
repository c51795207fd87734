// The laws of the layers that treat each row by itself.
#include <doctest/doctest.h>

#include <tests/laws/check_laws.hpp>
#include <tests/laws/row_layers.hpp>

using namespace k3spec;
using namespace laws;

TEST_CASE("laws: Linear") {
  laws::check<LinearLaw<5, 3>>({{1, 1}, {3, 1}, {2, 9}, {1, 40}, {0, 1}});
  laws::check<LinearLaw<1, 1>>({{1, 1}, {5, 1}});
  laws::check<LinearLaw<67, 130>>({{3, 25}});
}

TEST_CASE("laws: Embedding") { laws::check<EmbeddingLaw<7>>({{1, 1}, {3, 5}, {1, 40}, {0, 1}}); }

TEST_CASE("laws: output gate") { check<OutputGateLaw<13>>({{1, 1}, {3, 5}, {0, 1}}); }

TEST_CASE("laws: KimiRMSNorm") {
  laws::check<RMSNormLaw<11>>({{1, 1}, {3, 1}, {2, 17}, {0, 1}});
  laws::check<RMSNormLaw<1>>({{1, 1}, {3, 1}});
  laws::check<AddingNormLaw<130>>({{1, 1}, {2, 41}});
}

TEST_CASE("laws: SiTUMLP and SwiGLUMLP") {
  laws::check<MLPLaw<SiTUMLP<7, 13, Bounded>, 7>>({{1, 1}, {3, 1}, {2, 9}, {0, 1}});
  laws::check<MLPLaw<SiTUMLP<7, 13, Unbounded>, 7>>({{1, 1}, {2, 9}});
  laws::check<MLPLaw<SwiGLUMLP<40, 51>, 40>>({{1, 1}, {3, 31}});
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
    const auto back = [&] {
      embedding_backward<double>(Cpu{}, in, 3, Matrix<double>(d_y.data(), 3, 2), Matrix<double>(d_table.data(), 13, 2));
    };
    CHECK_THROWS_WITH_AS(back(), doctest::Contains("token id at row 1"), Error);
  }
  CHECK_THROWS_WITH_AS(
      embedding_forward<double>(Cpu{}, in, Matrix<const double>(table.data(), 13, 2), Matrix<double>(y.data(), 2, 2)),
      "embedding: y: found 2 x 2, wanted 3 x 2", Error);
}

TEST_CASE("bfloat16: a linear layer's output is float32's, rounded once") {
  laws::Trial<LinearLaw<67, 130>, float> wide({3, 25});
  laws::Trial<LinearLaw<67, 130>, bfloat16> narrow({3, 25});
  wide.forward(), narrow.forward();
  for (std::size_t i = 0; i < wide.y.size(); ++i) CHECK(bfloat16(wide.y[i]).bits == narrow.y[i].bits);
}
