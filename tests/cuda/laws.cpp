// The laws of the layers that treat each row by itself, on Cuda.
#include <doctest/doctest.h>

#include <tests/cuda/device.hpp>
#include <tests/laws/check_laws.hpp>
#include <tests/laws/row_layers.hpp>

using namespace k3spec;
using namespace k3spec::laws;

TEST_CASE("laws on Cuda: Linear") {
  check<LinearLaw<5, 3>, Cuda>({{1, 1}, {3, 1}, {2, 9}, {1, 40}, {0, 1}});
  check<LinearLaw<1, 1>, Cuda>({{1, 1}, {5, 1}});
  check<LinearLaw<67, 130>, Cuda>({{3, 25}});
}

TEST_CASE("laws on Cuda: Embedding") { check<EmbeddingLaw<7>, Cuda>({{1, 1}, {3, 5}, {1, 40}, {0, 1}}); }

TEST_CASE("laws on Cuda: output gate") { check<OutputGateLaw<13>, Cuda>({{1, 1}, {3, 5}, {0, 1}}); }

TEST_CASE("laws on Cuda: KimiRMSNorm") {
  check<RMSNormLaw<11>, Cuda>({{1, 1}, {3, 1}, {2, 17}, {0, 1}});
  check<RMSNormLaw<1>, Cuda>({{1, 1}, {3, 1}});
  check<AddingNormLaw<130>, Cuda>({{1, 1}, {2, 41}});
}

TEST_CASE("laws on Cuda: SiTUMLP and SwiGLUMLP") {
  check<MLPLaw<SiTUMLP<7, 13, Bounded>, 7>, Cuda>({{1, 1}, {3, 1}, {2, 9}, {0, 1}});
  check<MLPLaw<SiTUMLP<7, 13, Unbounded>, 7>, Cuda>({{1, 1}, {2, 9}});
  check<MLPLaw<SwiGLUMLP<40, 51>, 40>, Cuda>({{1, 1}, {3, 31}});
}

// Widths around a warp's, and more rows than one wave of blocks. A row has a warp, which takes its time where a CPU
// plays all of its threads: the laws that need hundreds of calls see the shapes above only.
TEST_CASE("laws on Cuda: widths 1, 7, 32, 33, 1000 with 1, 31 and 4097 rows") {
  const auto bits = []<class Law>(std::type_identity<Law>, index_t rows) {
    const Shape shape{1, rows};
    check_bits<Law, float, Cuda>(shape);
    hold<Law, float>("accumulates", shape, accumulates<Law, Cuda>(shape));
  };
  for (const index_t rows : {1, 31}) {
    bits(std::type_identity<RMSNormLaw<1>>{}, rows);
    bits(std::type_identity<RMSNormLaw<7>>{}, rows);
    bits(std::type_identity<RMSNormLaw<32>>{}, rows);
    bits(std::type_identity<RMSNormLaw<33>>{}, rows);
    bits(std::type_identity<RMSNormLaw<1000>>{}, rows);
    bits(std::type_identity<LinearLaw<1000, 33>>{}, rows);
    bits(std::type_identity<EmbeddingLaw<1000>>{}, rows);
    bits(std::type_identity<MLPLaw<SiTUMLP<33, 7, Bounded>, 33>>{}, rows);
  }
  check_bits<LinearLaw<7, 32>, float, Cuda>({1, 4097});
  check_bits<EmbeddingLaw<33>, float, Cuda>({1, 4097});
  check_bits<MLPLaw<SiTUMLP<7, 13, Bounded>, 7>, float, Cuda>({1, 4097});
  hold<RMSNormLaw<33>, float>("overwrites", {1, 4097}, overwrites<RMSNormLaw<33>, float, Cuda>({1, 4097}));
}
