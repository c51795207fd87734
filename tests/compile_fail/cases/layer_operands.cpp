// A view of another width, and one of another element type: one sentence for each call, and nothing behind it.
// expect: KimiRMSNorm: a view has another number of columns than the norm
// expect: KimiRMSNorm: a view and the weights mix double with float or bfloat16
// expect: Linear: a view has other columns than the layer's inputs or outputs
// expect: Linear: a view and the weights mix double with float or bfloat16
// expect: BiasedLinear: a view has other columns than the layer's inputs or outputs
// expect: GatedMLP: a view has another number of columns than the layer's hidden size
// expect: GatedMLP: a view and the weights mix double with float or bfloat16
// expect: MarkovHead: hidden_states has another number of columns than hidden_size
// expect: ConfidenceHead: hidden_states, previous or logits has other columns than the config says
// expect: evaluate: an operand has another number of columns than the result
// expect: evaluate: an operand and the result mix double with float or bfloat16
// errors: 11
// lines: 110
#include <k3spec/layers/confidence_head.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/layers/markov_head.hpp>

using namespace k3spec;

#ifdef K3SPEC_EXPECT_FAIL
constexpr index_t width = 64;
using Other = double;
#else
constexpr index_t width = 96;
using Other = float;
#endif

struct Config : configs::KimiK3TinyDSpark {
  static constexpr index_t hidden_size = 96, target_hidden_size = 96;
  static constexpr MarkovHeadType markov_head_type = MarkovHeadType::gated;
};
using Norm = KimiRMSNorm<96>;
using Square = Linear<96, 96>;
using Biased = BiasedLinear<96, 96>;
using MLP = SwiGLUMLP<96, 8>;
using Markov = MarkovHead<Config>;
using Confidence = ConfidenceHead<Config>;
template <class Layer>
using W = typename Layer::template Weights<const float>;

void widths(const W<Norm>& norm, const W<Square>& square, const W<Biased>& biased, const W<MLP>& mlp,
            const W<Confidence>& confidence, Rows<const float, width> x, Rows<float, 96> y, Rows<float, 1> logits,
            Rows<const float, Config::markov_rank> previous) {
  const Cpu cpu;
  Norm::forward(cpu, norm, 1e-5, x, y);
  Square::forward(cpu, square, x, y);
  Biased::forward(cpu, biased, x, y);
  MLP::forward<float>(cpu, mlp, x, y, MLP::Saved<float>{});
  Markov::begin(cpu, x, 4, Markov::Saved<float>{});
  Confidence::forward<float>(cpu, confidence, x, previous, logits, Confidence::Saved<float>{});
  evaluate(cpu, expr::arg<0>, y, x);
}

void element_types(const W<Norm>& norm, const W<Square>& square, const W<MLP>& mlp, Rows<const Other, 96> x,
                   Rows<float, 96> y) {
  const Cpu cpu;
  Norm::forward(cpu, norm, 1e-5, x, y);
  Square::forward(cpu, square, x, y);
  MLP::forward<float>(cpu, mlp, x, y, MLP::Saved<float>{});
  evaluate(cpu, expr::arg<0>, y, x);
}
