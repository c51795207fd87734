// The laws of attention: the op alone with 1 to 4 steps' keys, and MLA around it.
#include <doctest/doctest.h>

#include <tests/laws/check_laws.hpp>
#include <tests/support/case_configs.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/layers/mla.hpp>
#include <k3spec/ops/ttt_attention.hpp>

using namespace k3spec;
using laws::Input;
using laws::Shape;

namespace {

/// Inputs: q, then each step's kv and k_rope. Sequences are packed with documents of at most `Document` positions.
template <index_t Steps, index_t Document = 0, class Scale = SqrtScale, laws::Gradient Is = laws::Gradient::overwritten>
struct TttAttentionLaw : laws::Defaults {
  static constexpr index_t heads = 2, nope = 3, rope = 2, v = 5;
  using Layer = laws::NoParameters;
  using Heads = AttentionHeads<heads, nope, rope, v>;
  static constexpr index_t output = heads * v;
  static constexpr auto inputs = [] {
    std::array<Input, 1 + 2 * Steps> all{Input{heads * (nope + rope)}};
    for (std::size_t s = 0; s < Steps; ++s) {
      all[1 + 2 * s] = {heads * (nope + v), Is};
      all[2 + 2 * s] = {rope, Is};
    }
    return all;
  }();

  template <class T>
  struct Saved {
    Rows<log_sum_exp_t<T>, heads> lse;
    template <Allocator A>
    static constexpr Saved allocate(A& a, Shape shape) {
      Saved s;
      take_rows(a, shape.rows(), s.lse);
      return s;
    }
  };
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape shape) {
    return ttt_attention_scratch<Heads, T>(shape.rows(), Steps);
  }

  template <class T>
  struct Fixture {
    std::vector<index_t> starts;
    explicit Fixture(Shape shape) {
      for (index_t r = 0; Document > 0 && r < shape.rows(); ++r)
        starts.push_back(r % shape.length / Document * Document);
    }
  };
  static CausalVisibility visible(const auto& c) {
    return {c.mask.data(), c.shape.length, Document > 0 ? c.fixture.starts.data() : nullptr};
  }

  static AttentionSpan span(Shape shape) { return {shape.sequences, shape.length, shape.length}; }
  template <class U, class X>
  static AttentionSteps<U> keys(const X& x) {
    AttentionSteps<U> all;
    for (std::size_t s = 0; s < Steps; ++s) all.add({x[1 + 2 * s], x[2 + 2 * s]});
    return all;
  }
  template <class T>
  static TttProblem<Heads, T, CausalVisibility> problem(const laws::Call<TttAttentionLaw, T>& c) {
    const auto scale = Scale::template of<accumulate_t<T>>(Heads::qk);
    return {span(c.shape), c.x[0], keys<const T>(c.x), visible(c), scale};
  }
  template <class T>
  static AttentionResult<T> result(const laws::Call<TttAttentionLaw, T>& c) {
    return {c.y, c.saved.lse.matrix()};
  }
  template <class T>
  static void forward(const laws::Call<TttAttentionLaw, T>& c) {
    ttt_attention_forward(c.device, problem(c), result(c));
  }
  template <class T>
  static void backward(const laws::Call<TttAttentionLaw, T>& c, const laws::Back<TttAttentionLaw, T>& b) {
    const Into into = Is == laws::Gradient::accumulated ? Into::accumulate : Into::overwrite;
    const TttGradients<accumulate_t<T>> d{b.d_x[0], keys<accumulate_t<T>>(b.d_x), Into::overwrite, into};
    ttt_attention_backward(c.device, problem(c), result(c), b.d_y, d, b.scratch);
  }
};

struct SmallMLA : configs::KimiK3 {
  static constexpr index_t hidden_size = 9, attention_input_size = 11;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 5;
  static constexpr index_t kv_lora_rank = 7, qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 6;
};
struct NoQLora : SmallMLA {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
};
struct NoGate : SmallMLA {
  static constexpr bool mla_use_output_gate = false;
};

struct DeepSeekMLA : test::DeepSeekCases<SmallMLA> {
  static constexpr index_t qk_rope_head_dim = 4;
  static constexpr std::optional<Yarn> rope_scaling = test::yarn_of_cases;
};

/// Projections, rotation, causal attention, gate and output.
template <class Config>
struct MLALaw : laws::Defaults {
  using Layer = MLA<Config>;
  using Heads = typename Layer::Heads;
  static constexpr std::array inputs{Input{Layer::input}};
  static constexpr index_t output = Layer::hidden;

  template <class T>
  struct Saved {
    typename Layer::template Saved<T> layer;
    Rows<log_sum_exp_t<T>, Layer::heads> lse;
    template <Allocator A>
    static constexpr Saved allocate(A& a, Shape shape) {
      Saved s{Layer::template Saved<T>::allocate(a, shape.rows()), {}};
      take_rows(a, shape.rows(), s.lse);
      return s;
    }
    AttentionResult<T> attended() const { return {layer.o.matrix(), lse.matrix()}; }
  };
  template <class T>
  struct Scratch {
    using S = accumulate_t<T>;
    typename Layer::template Gradient<T> gradient;
    Rows<S, Layer::heads*(Layer::nope + Layer::v_dim)> d_kv;
    Rows<S, Layer::rope> d_k_rope;
    template <Allocator A>
    static constexpr Scratch allocate(A& a, Shape shape) {
      Scratch s{Layer::template Gradient<T>::allocate(a, shape.rows()), {}, {}};
      take_rows(a, shape.rows(), s.d_kv), take_rows(a, shape.rows(), s.d_k_rope);
      return s;
    }
  };
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape shape) {
    return plan_bytes([&](ArenaPlan& a) {
      Scratch<T>::allocate(a, shape);
      a.borrow(Layer::template scratch_bytes<T>(shape.rows()));
      a.borrow(ttt_attention_scratch<Heads, T>(shape.rows(), 1));
    });
  }

  template <class T>
  static TttProblem<Heads, T, CausalVisibility> problem(const laws::Call<MLALaw, T>& c) {
    const auto& s = c.saved.layer;
    AttentionSteps<const T> keys;
    keys.add({s.kv.matrix(), s.k_rope().matrix()});
    return {{c.shape.sequences, c.shape.length, c.shape.length},
            s.q.matrix(),
            keys,
            {bare(c.mask.data()), c.shape.length},
            SqrtScale::of<scalar_t<T>>(Heads::qk)};
  }
  template <class T>
  static void forward(const laws::Call<MLALaw, T>& c) {
    const auto& s = c.saved;
    Layer::template project<T>(c.device, c.w, c.x[0], s.layer);
    Layer::rotate(c.device, RotaryPositions{nullptr, c.shape.length}, s.layer);
    ttt_attention_forward(c.device, problem(c), s.attended());
    Layer::template output<T>(c.device, c.w, c.x[0], s.layer, c.y);
  }
  template <class T>
  static void backward(const laws::Call<MLALaw, T>& c, const laws::Back<MLALaw, T>& b) {
    Scope scope(b.scratch);
    const auto& s = c.saved;
    const auto g = Scratch<T>::allocate(b.scratch, c.shape);
    TttGradients<accumulate_t<T>> d{g.gradient.d_q.matrix(), {}};
    d.d_steps.add({g.d_kv.matrix(), g.d_k_rope.matrix()});
    Layer::template output_backward<T>(Workspace(c.device, b.scratch), c.w, b.d_w, s.layer, b.d_y, g.gradient);
    ttt_attention_backward(c.device, problem(c), s.attended(), g.gradient.d_o, d, b.scratch);
    Layer::rotate_back(c.device, RotaryPositions{nullptr, c.shape.length}, g.gradient.d_q, g.d_k_rope);
    Layer::template project_backward<T>(Workspace(c.device, b.scratch), c.w, b.d_w, c.x[0], s.layer,
                                        g.gradient.with_keys({g.d_kv, g.d_k_rope}), b.d_x[0]);
  }
};

}  // namespace

TEST_CASE("laws: ttt_attention with the keys of 1 to 4 steps, padding at either end or everywhere") {
  laws::check<TttAttentionLaw<1>>({{1, 1}, {4, 5}, {0, 1}});
  laws::check<TttAttentionLaw<2>>({{4, 1}, {4, 7}});
  laws::check<TttAttentionLaw<4>>({{1, 1}, {4, 3}, {3, 71}});
}

TEST_CASE("laws: ttt_attention on packed documents, with YaRN's softmax factor, and adding to its keys' gradients") {
  laws::check<TttAttentionLaw<3, 4, SqrtScale, laws::Gradient::accumulated>>({{4, 7}, {0, 1}});
  laws::check<TttAttentionLaw<2, 1>>({{4, 3}});
  laws::check<TttAttentionLaw<3, 4>>({{4, 7}, {0, 1}});
  laws::check<TttAttentionLaw<2, 33>>({{2, 71}});
  laws::check<TttAttentionLaw<2, 3, YarnScale<configs::DeepSeekV3>>>({{4, 5}});
}

TEST_CASE("laws: MLA with and without a low-rank query and a gate") {
  laws::check<MLALaw<SmallMLA>>({{1, 1}, {4, 6}, {0, 1}});
  laws::check<MLALaw<NoQLora>>({{1, 1}, {4, 6}});
  laws::check<MLALaw<NoGate>>({{1, 1}, {4, 6}});
}

TEST_CASE("laws: MLA with rotary positions") { laws::check<MLALaw<DeepSeekMLA>>({{1, 1}, {4, 6}, {0, 1}}); }

TEST_CASE("bfloat16: attention's output is float32's, rounded once, and its log-sums are float32's") {
  laws::Trial<TttAttentionLaw<4>, float> wide({4, 70});
  laws::Trial<TttAttentionLaw<4>, bfloat16> narrow({4, 70});
  wide.forward(), narrow.forward();
  for (std::size_t i = 0; i < wide.y.size(); ++i) CHECK(bfloat16(wide.y[i]).bits == narrow.y[i].bits);
}

TEST_CASE("a query that sees a NaN gives NaN; one that sees nothing gives 0 and an infinite log-sum") {
  using Heads = AttentionHeads<1, 2, 1, 2>;
  std::vector<float> q{0.5f, 0.25f, 1, NAN, 0, 1, 1, 1, 1}, kv(3 * 4, 0.5f), k_rope(3, 0.25f), o(6);
  std::vector<LogSumExp<float>> lse(3);
  const std::vector<std::uint8_t> mask{0, 1, 1};
  AttentionSteps<const float> keys;
  keys.add({Matrix<const float>(kv.data(), 3, 4), Matrix<const float>(k_rope.data(), 3, 1)});
  const TttProblem<Heads, float, CausalVisibility> problem{
      {1, 3, 3}, Matrix<const float>(q.data(), 3, 3), keys, {mask.data(), 3}, SqrtScale::of<float>(Heads::qk)};
  ttt_attention_forward(
      Cpu{}, problem,
      AttentionResult<float>{Matrix<float>(o.data(), 3, 2), Matrix<LogSumExp<float>>(lse.data(), 3, 1)});
  CHECK(o[0] == 0);
  CHECK(lse[0].top + lse[0].log_mass == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(o[2]));
  CHECK(std::isnan(lse[1].top + lse[1].log_mass));
  CHECK(o[4] == 0.5f);
}
