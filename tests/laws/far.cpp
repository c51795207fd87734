// Layers and drafts on a device whose memory the host cannot read.
#include <doctest/doctest.h>

#include <tests/laws/check_far.hpp>
#include <tests/laws/draft_laws.hpp>
#include <tests/laws/row_layers.hpp>
#include <tests/support/small_blocks.hpp>
#include <k3spec/drafts/block_backbone.hpp>

using namespace k3spec;
using namespace k3spec::laws;

namespace {

/// The target's states and the noise -> what the block drafts' heads read. The shape is the context's, and there are as
/// many rows of noise.
template <class Config>
struct BackboneLaw : Defaults {
  using Layer = BlockBackbone<Config>;
  static constexpr std::array inputs{Input{Layer::target_width}, Input{Layer::hidden}};
  static constexpr index_t output = Layer::hidden;

  static BlockSpan span(Shape shape) {
    return {shape.sequences, shape.length, shape.length / Config::block_size, Config::block_size};
  }
  template <class T>
  struct Saved {
    typename Layer::template Activations<T> acts;
    template <Allocator A>
    static constexpr Saved allocate(A& a, Shape shape) {
      return {Layer::template Activations<T>::allocate(a, shape.rows(), shape.rows())};
    }
  };
  /// Anchors at 1, 4, 7 …
  template <class T>
  struct Fixture {
    std::vector<index_t> anchors;
    explicit Fixture(Shape shape) {
      for (index_t s = 0; s < shape.sequences; ++s) {
        for (index_t b = 0; b < span(shape).blocks; ++b) anchors.push_back(1 + 3 * b);
      }
    }
  };
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape shape) {
    return Layer::template scratch_bytes<T>(shape.rows(), shape.rows());
  }
  static BlockVisibility visible(const auto& c) { return {c.fixture.anchors.data(), nullptr, nullptr, 5, true}; }
  template <class T>
  static void forward(const Call<BackboneLaw, T>& c) {
    Layer::template forward<T>(
        c.device, c.w,
        typename Layer::template Inputs<T, BlockVisibility>{rows_of<Layer::target_width>(c.x[0]),
                                                            rows_of<Layer::hidden>(c.x[1]), span(c.shape), visible(c)},
        c.saved.acts);
    evaluate(c.device, expr::arg<0>, c.y, c.saved.acts.out);
  }
  template <class T>
  static void backward(const Call<BackboneLaw, T>& c, const Back<BackboneLaw, T>& b) {
    Layer::template backward<T>(
        Workspace(c.device, b.scratch), c.w, b.d_w,
        typename Layer::template Inputs<T, BlockVisibility>{rows_of<Layer::target_width>(c.x[0]),
                                                            rows_of<Layer::hidden>(c.x[1]), span(c.shape), visible(c)},
        c.saved.acts, rows_of<Layer::hidden>(b.d_y), {b.d_x[1], b.d_x[0]});
  }
};

}  // namespace

TEST_CASE("far: layers whose rows are alone") {
  check_far<LinearLaw<5, 3>, bfloat16>({2, 9});
  check_far<EmbeddingLaw<7>, float>({3, 5});
  check_far<RMSNormLaw<11>, double>({2, 17});
  check_far<MLPLaw<SiTUMLP<7, 13, Bounded>, 7>, bfloat16>({2, 9});
}

TEST_CASE("far: the EAGLE-3 draft's unroll") {
  check_far<UnrollLaw<Small>, double>({4, 5});
  check_far<UnrollLaw<Small31, Sequence::packed>, bfloat16>({3, 7});
  check_far<UnrollLaw<SmallDeepSeek31>, float>({3, 5});
}

TEST_CASE("far: the block drafts' backbone") {
  check_far<BackboneLaw<test::SmallBlocks>, double>({2, 8});
  check_far<BackboneLaw<test::SmallBlocks>, bfloat16>({1, 12});
}
