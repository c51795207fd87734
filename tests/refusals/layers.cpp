// Layers with a wrong extent.
#include <k3spec/layers/biased_linear.hpp>
#include <k3spec/layers/confidence_head.hpp>
#include <k3spec/layers/gated_mlp.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/layers/linear.hpp>
#include <k3spec/layers/markov_head.hpp>
#include <k3spec/layers/mla.hpp>
#include <k3spec/layers/prepacked.hpp>

#include "tests/refusals/models.hpp"
#include "tests/refusals/table.hpp"

using namespace k3spec;
using refusals::Arguments;
using refusals::Blame;
using refusals::both;
using refusals::refuses;

namespace {

const Cpu device{1};

template <class Layer>
auto saved(Arguments& a, const std::string& name, index_t rows) {
  return a.planned(name, rows, [](auto& arena, index_t n) { return Layer::template Saved<float>::allocate(arena, n); });
}

}  // namespace

TEST_CASE("linear layers") {
  using Layer = Linear<5, 4>;
  auto& model = both<Layer>();
  refuses({"layers/linear.hpp forward"}, [&](Arguments& a) {
    Layer::forward(device, model.w(), a.matrix<const float>("x", 3, 5, Blame::any), a.matrix<float>("y", 3, 4));
  });
  refuses({"layers/linear.hpp forward"}, [&](Arguments& a) {
    static const auto packed = prepack_weights<Layer, float>(model.w());
    Layer::forward(device, packed, a.matrix<const float>("x", 3, 5, Blame::any), a.matrix<float>("y", 3, 4));
  });
  refuses({"layers/linear.hpp backward_input"}, [&](Arguments& a) {
    const auto d_y = a.matrix<const float>("d_y", 3, 4);
    Layer::backward_input(device, model.w(), d_y, a.matrix<float>("d_x", 3, 5, Blame::any));
  });
  refuses({"layers/linear.hpp backward_weight"}, [&](Arguments& a) {
    Layer::backward_weight(device, model.d_w(), a.matrix<const float>("x", 3, 5, Blame::any),
                           a.matrix<const float>("d_y", 3, 4));
  });
  refuses({"layers/linear.hpp backward"}, [&](Arguments& a) {
    Layer::backward(device, model.w(), model.d_w(), a.matrix<const float>("x", 3, 5, Blame::any),
                    a.matrix<const float>("d_y", 3, 4), a.matrix<float>("d_x", 3, 5, Blame::any));
  });
}

TEST_CASE("linear layers with a bias") {
  using Layer = BiasedLinear<5, 4>;
  auto& model = both<Layer>();
  refuses({"layers/biased_linear.hpp forward"}, [&](Arguments& a) {
    Layer::forward(device, model.w(), a.matrix<const float>("x", 3, 5, Blame::any), a.matrix<float>("y", 3, 4));
  });
  refuses({"layers/biased_linear.hpp backward_input"}, [&](Arguments& a) {
    const auto d_y = a.matrix<const float>("d_y", 3, 4);
    Layer::backward_input(device, model.w(), d_y, a.matrix<float>("d_x", 3, 5, Blame::any));
  });
  refuses({"layers/biased_linear.hpp backward_weight"}, [&](Arguments& a) {
    Layer::backward_weight(Workspace(device, a.scratch()), model.d_w(), a.matrix<const float>("x", 3, 5, Blame::any),
                           a.matrix<const float>("d_y", 3, 4));
  });
}

TEST_CASE("norms") {
  using Layer = KimiRMSNorm<5>;
  auto& model = both<Layer>();
  refuses({"layers/kimi_rms_norm.hpp forward"}, [&](Arguments& a) {
    const auto x = a.matrix<const float>("x", 3, 5, Blame::any);
    Layer::forward(device, model.w(), 1e-5, x, a.matrix<float>("y", 3, 5));
  });
  refuses({"layers/kimi_rms_norm.hpp backward"}, [&](Arguments& a) {
    const auto x = a.matrix<const float>("x", 3, 5, Blame::any);
    Layer::backward(Workspace(device, a.scratch()), model.w(), model.d_w(), 1e-5, x, a.matrix<const float>("d_y", 3, 5),
                    a.matrix<float>("d_x", 3, 5));
  });
}

TEST_CASE("gated MLPs") {
  using Layer = SwiGLUMLP<5, 4>;
  auto& model = both<Layer>();
  refuses({"layers/gated_mlp.hpp forward"}, [&](Arguments& a) {
    Layer::forward<float>(device, model.w(), a.matrix<const float>("x", 3, 5, Blame::any), a.matrix<float>("y", 3, 5),
                          saved<Layer>(a, "saved", 3));
  });
  refuses({"layers/gated_mlp.hpp backward"}, [&](Arguments& a) {
    Layer::backward<float>(Workspace(device, a.scratch()), model.w(), model.d_w(),
                           a.matrix<const float>("x", 3, 5, Blame::any), saved<Layer>(a, "saved", 3),
                           a.matrix<const float>("d_y", 3, 5), a.matrix<float>("d_x", 3, 5));
  });
}

TEST_CASE("DSpark's confidence head") {
  using Layer = ConfidenceHead<refusals::Dspark>;
  auto& model = both<Layer>();
  constexpr index_t hidden = Layer::hidden, rank = Layer::rank;
  refuses({"layers/confidence_head.hpp forward"}, [&](Arguments& a) {
    Layer::forward<float>(device, model.w(), a.matrix<const float>("hidden_states", 3, hidden, Blame::any),
                          a.matrix<const float>("previous", 3, rank), a.matrix<float>("logits", 3, 1),
                          saved<Layer>(a, "saved", 3));
  });
  refuses({"layers/confidence_head.hpp backward"}, [&](Arguments& a) {
    Layer::backward<float>(Workspace(device, a.scratch()), model.w(), model.d_w(),
                           a.matrix<const float>("hidden_states", 3, hidden, Blame::any), saved<Layer>(a, "saved", 3),
                           a.matrix<const float>("d_logits", 3, 1),
                           {a.matrix<float>("d_hidden", 3, hidden), a.matrix<float>("d_previous", 3, rank)});
  });
}

TEST_CASE("DSpark's Markov head") {
  using Layer = MarkovHead<refusals::Dspark>;
  auto& model = both<Layer>();
  constexpr index_t hidden = Layer::hidden, rank = Layer::rank, vocabulary = Layer::vocabulary;
  const auto all = [](Arguments& a) {
    return a.planned_right([](auto& arena) { return Layer::Saved<float>::allocate(arena, 6); });
  };
  refuses({"layers/markov_head.hpp forward", "layers/markov_head.hpp begin"}, [&](Arguments& a) {
    Layer::forward<float>(device, model.w(), a.tokens("previous", {0, 1, 2, 3, 4, 22}, 23, Blame::any),
                          a.matrix<const float>("hidden_states", 6, hidden), a.index("block_size", 3, 4), all(a));
  });
  refuses({"layers/markov_head.hpp step"}, [&](Arguments& a) {
    const auto s = all(a);
    Layer::begin<float>(device, Matrix<const float>(a.memory<float>(6 * hidden), 6, hidden), 3, s);
    const auto previous = a.tokens("previous", {0, 22}, 23, Blame::any);
    Layer::step<float>(device, model.w(), previous, 3, a.index("step", 0, 3), s);
  });
  refuses({"layers/markov_head.hpp add_logits"}, [&](Arguments& a) {
    Layer::add_logits(device, model.w(), a.matrix<const float>("latent", 3, rank, Blame::any),
                      a.matrix<float>("logits", 3, vocabulary));
  });
  refuses({"layers/markov_head.hpp add_logits_backward"}, [&](Arguments& a) {
    Layer::add_logits_backward<float>(
        device, model.w(), model.d_w(), a.matrix<const float>("latent", 3, rank, Blame::any),
        a.matrix<const float>("d_logits", 3, vocabulary), a.matrix<float>("d_latent", 3, rank));
  });
  refuses({"layers/markov_head.hpp backward"}, [&](Arguments& a) {
    const auto previous = a.tokens("previous", {0, 1, 2, 3, 4, 22}, 23, Blame::any);
    const auto s = all(a);
    Layer::backward<float>(Workspace(device, a.scratch()), model.w(), model.d_w(),
                           {previous, a.index("block_size", 3, 4)}, s,
                           {a.rows<float, rank>("d_latent", 6),
                            a.matrix<float>("d_previous", 6, rank),
                            {a.matrix<float>("d_hidden", 6, hidden), Into::overwrite}});
  });
}

TEST_CASE("latent attention's projections") {
  using Layer = MLA<refusals::Dflash>;
  auto& model = both<Layer>();
  constexpr index_t input = Layer::input, hidden = Layer::hidden, kv = Layer::heads * (Layer::nope + Layer::v_dim);
  const auto keys = [](Arguments& a) {
    return a.planned_right([](auto& arena) { return Layer::Keys<float>::allocate(arena, 3); });
  };
  const auto all = [](Arguments& a) {
    return a.planned_right([](auto& arena) { return Layer::Saved<float>::allocate(arena, 3); });
  };
  const auto gradient = [](Arguments& a) {
    return a.planned("g", 3, [](auto& arena, index_t n) { return Layer::Gradient<float>::allocate(arena, n); });
  };
  const auto x = [](Arguments& a) { return a.matrix<const float>("x", 3, input, Blame::any); };
  refuses({"layers/mla.hpp project", "layers/mla.hpp project_queries"},
          [&](Arguments& a) { Layer::project<float>(device, model.w(), x(a), all(a)); });
  refuses({"layers/latent_keys.hpp project_keys", "layers/latent_keys.hpp project_latents"},
          [&](Arguments& a) { Layer::project_keys<float>(device, model.w(), x(a), keys(a)); });
  refuses({"layers/latent_keys.hpp project_keys", "layers/latent_keys.hpp project_latents"}, [&](Arguments& a) {
    const auto k = a.planned("x", 3, [](auto& arena, index_t n) { return Layer::Keys<float>::allocate(arena, n); });
    Layer::project_latents<float>(device, model.w(), Matrix<const float>(a.memory<float>(3 * input), 3, input), k);
  });
  refuses({"layers/latent_keys.hpp expand_latents"}, [&](Arguments& a) {
    Layer::expand_latents(device, model.w(), a.matrix<const float>("kv_latent", 3, Layer::kv_lora, Blame::any),
                          a.matrix<float>("kv", 3, kv));
  });
  refuses({"layers/mla.hpp output"}, [&](Arguments& a) {
    Layer::output<float>(device, model.w(), x(a), all(a), a.matrix<float>("y", 3, hidden));
  });
  refuses({"layers/mla.hpp output_backward"}, [&](Arguments& a) {
    Layer::output_backward<float>(Workspace(device, a.scratch()), model.w(), model.d_w(), all(a),
                                  a.matrix<const float>("d_y", 3, hidden), gradient(a));
  });
  refuses({"layers/mla.hpp project_backward", "layers/latent_keys.hpp keys_backward"}, [&](Arguments& a) {
    Layer::project_backward<float>(Workspace(device, a.scratch()), model.w(), model.d_w(), x(a), all(a),
                                   gradient(a).with_keys({a.matrix<const float>("d_kv", 3, kv),
                                                          a.matrix<const float>("d_k_rope", 3, Layer::rope)}),
                                   a.matrix<float>("d_x", 3, input));
  });
}

TEST_CASE("latent attention's rotation") {
  using Layer = MLA<refusals::DeepSeek>;
  refuses({"layers/mla.hpp rotate"}, [&](Arguments& a) {
    auto s = a.planned_right([](auto& arena) { return Layer::Saved<float>::allocate(arena, 3); });
    s.q = a.rows<float, Layer::heads * Layer::qk_dim>("q", 3, Blame::any);
    s.kv_a = a.rows<float, Layer::kv_lora + Layer::rope>("k_rope", 3);
    Layer::rotate<float>(device, RotaryPositions{}, s);
  });
  refuses({"layers/mla.hpp rotate_back"}, [&](Arguments& a) {
    Layer::rotate_back(device, RotaryPositions{}, a.matrix<float>("d_q", 3, Layer::heads * Layer::qk_dim, Blame::any),
                       a.matrix<float>("d_k_rope", 3, Layer::rope));
  });
}
