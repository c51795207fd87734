// The frozen target with a wrong extent.
#include <k3spec/target/forward.hpp>

#include "tests/refusals/models.hpp"
#include "tests/refusals/table.hpp"

using namespace k3spec;
using refusals::Arguments;
using refusals::Blame;
using refusals::both;
using refusals::refuses;

namespace {

using Config = refusals::Target;
using Model = K3Target<Config>;
const Cpu device{1};
constexpr index_t hidden = Config::hidden_size, vocab = Config::vocab_size;

const FrozenTarget<Config, float>& target() {
  static const FrozenTarget<Config, float> frozen(both<Model>().w());
  return frozen;
}

/// Room for what a layer takes.
ArenaSlice slice(Arguments& a) {
  constexpr index_t bytes = index_t{1} << 18;
  return {a.scratch().take<std::byte>(bytes), static_cast<std::size_t>(bytes)};
}

/// A layer's weights, prepacked.
template <class Layer>
const typename Layer::template Prepacked<float>& prepacked() {
  static const typename Layer::template Prepacked<float> ready(Cpu{}, both<Layer>().w());
  return ready;
}

}  // namespace

TEST_CASE("the target's forward") {
  const std::vector<Tap> taps{{Tap::What::embedding}, {Tap::What::post_norm}};
  TargetState<Config, float> state({.sequences = 2, .capacity = 4, .rollback = 2});
  Arena arena(FrozenTarget<Config, float>::scratch_bytes(2, 4));
  const auto run = [&](Arguments& a, const NewTokens& tokens, index_t rows) {
    state.reset(0), state.reset(1);
    target().forward(device, state, tokens,
                     {a.matrix<float>("last", rows, hidden), taps, a.matrix<float>("tapped", rows, 2 * hidden)}, arena);
  };
  refuses({"target/forward.hpp forward"}, [&](Arguments& a) {
    const auto ids = a.of<index_t>(a.extent("ids", 2), a.extent("rows of last", 3));
    if (ids.size() > 0) ids(ids.extent(0) - 1, 2 % ids.extent(1)) = a.index("token id", 22, vocab);
    if (ids.size() == 0) a.index("token id", 22, vocab);
    run(a, Matrix<const index_t>(ids), 6);
  });
  refuses({"target/new_tokens.hpp NewTokens"}, [&](Arguments& a) {
    const std::vector<index_t> ids(static_cast<std::size_t>(a.extent("new tokens", 4, Blame::any)));
    std::vector<index_t> counts{a.extent("new tokens", 3, Blame::any), 1};
    counts[1] = a.extent("new tokens", 1, Blame::any);
    NewTokens(ids, counts);
  });
  refuses({"target/new_tokens.hpp NewTokens"}, [&](Arguments& a) {
    // Together as many as there are ids: of no sequence less than none.
    const index_t first = a.most("counts", 3);
    const std::vector<index_t> ids(3), counts{first, 3 - first};
    NewTokens(ids, counts);
  });
  refuses({"target/forward.hpp compute_logits"}, [](Arguments& a) {
    target().compute_logits(device, a.matrix<const float>("last", 3, hidden, Blame::any),
                            a.matrix<float>("logits", 3, vocab));
  });
}

TEST_CASE("the target's state") {
  TargetState<Config, float> state({.sequences = 2, .capacity = 4, .rollback = 2});
  const auto sequence = [](Arguments& a) { return a.index("sequence", 1, 2); };
  refuses({"target/state.hpp reset"}, [&](Arguments& a) { state.reset(sequence(a)); });
  refuses({"target/state.hpp length"}, [&](Arguments& a) { (void)state.length(sequence(a)); });
  refuses({"target/state.hpp accept"}, [&](Arguments& a) { state.accept(sequence(a), a.most("tokens", 0)); });
  refuses({"target/state.hpp step"}, [&](Arguments& a) { (void)state.step(sequence(a), a.most("positions", 4)); });
  refuses({"target/state.hpp kda"}, [&](Arguments& a) { (void)state.kda(a.index("layer", 0, 1), sequence(a)); });
  refuses({"target/state.hpp mla"}, [&](Arguments& a) { (void)state.mla(a.index("layer", 0, 1), sequence(a)); });
}

TEST_CASE("the target's taps") {
  refuses({"target/taps.hpp eagle3_taps"}, [](Arguments& a) {
    const std::vector<index_t> ids{0, a.index("aux layer id", 5, 6)};
    eagle3_taps(ids, 6);
  });
  refuses({"target/taps.hpp block_taps"}, [](Arguments& a) {
    const index_t id = a.index("target layer id", 5, 6);
    const std::vector<index_t> ids{0, id == -1 ? -2 : id};  // -1 is the embedding
    block_taps(ids, 6);
  });
}

TEST_CASE("the target's products") {
  refuses({"target/prepacked_linear.hpp PrepackedLinear"}, [](Arguments& a) {
    PrepackedLinear<float>{Cpu{}, {a.of<const float>(3, a.extent("weights", 5)), a.of<const float>(2, 5)}};
  });
  static const PrepackedLinear<float> linear{Cpu{}, {both<Linear<5, 4>>().w().weight.matrix()}};
  refuses({"target/prepacked_linear.hpp forward"}, [](Arguments& a) {
    const index_t rows = a.extent("y", 3);
    linear.forward(device, a.of<const float>(rows, a.extent("columns of A", 5)),
                   a.of<float>(3, a.extent("outputs", 4)));
  });
  using MLP = DenseMLP<Config, Config::intermediate_size>;
  refuses({"target/dense_mlp.hpp forward"}, [](Arguments& a) {
    auto arena = slice(a);
    MLP::forward<float>(device, prepacked<MLP>(), a.matrix<const float>("x", 3, hidden, Blame::any),
                        a.matrix<float>("y", 3, hidden), Into::overwrite, arena);
  });
  using Moe = LatentMoe<Config>;
  refuses({"target/latent_moe.hpp forward"}, [](Arguments& a) {
    auto arena = slice(a);
    Moe::forward<float>(device, prepacked<Moe>(), a.matrix<const float>("x", 3, hidden, Blame::any),
                        a.matrix<float>("y", 3, hidden), Into::overwrite, arena);
  });
}

namespace {

/// Two sequences of 2 and 1 new tokens. memory(state, steps): what the layer is given of them
template <class Layer, class F>
void attention(F&& memory) {
  refuses({Layer::is_mla ? "target/mla_attention.hpp forward" : "target/kda_attention.hpp forward"}, [&](Arguments& a) {
    TargetState<Config, float> state({.sequences = 2, .capacity = 4, .rollback = 2});
    auto arena = slice(a);
    std::vector<SequenceStep> steps{state.step(0, 2), state.step(1, 1)};
    steps[1].row = a.index("rows of a sequence", 2, 3);
    using Attention = typename Layer::Attention;
    Attention::template forward<float>(device, prepacked<Attention>(), memory(state, steps),
                                       a.matrix<const float>("x", 3, hidden, Blame::any),
                                       a.matrix<float>("y", 3, hidden), Into::overwrite, arena);
  });
}

}  // namespace

TEST_CASE("the target's attention") {
  const auto kda = [](auto& state, std::span<const SequenceStep> steps) { return state.kda(0, steps); };
  attention<DecoderLayer<Config, LayerKind::kda_dense>>(kda);
  const auto mla = [](auto& state, std::span<const SequenceStep> steps) { return state.mla(0, steps); };
  attention<DecoderLayer<Config, LayerKind::mla_moe>>(mla);
  using Attention = AbsorbedAttention<Config, float>;
  constexpr index_t kv_rows = Attention::heads * (Attention::nope + Attention::v_dim);
  refuses({"target/absorbed_attention.hpp AbsorbedAttention"},
          [](Arguments& a) { Attention(Cpu{}, a.matrix<const float>("kv_b", kv_rows, Attention::kv_lora)); });
  const std::vector<float> kv_b(static_cast<std::size_t>(kv_rows * Attention::kv_lora));
  const Attention attention(Cpu{}, Matrix<const float>(kv_b.data(), kv_rows, Attention::kv_lora));
  refuses({"target/absorbed_attention.hpp forward"}, [&](Arguments& a) {
    const index_t tokens = a.most("rows of a sequence", 3);
    const auto scratch =
        a.planned("scratch", 3, [](auto& arena, index_t n) { return Attention::Scratch::allocate(arena, n); });
    const LatentSequence<float> sequence{a.of<float>(a.least("rows seen", 3), a.extent("kv", Attention::latent)),
                                         0,
                                         tokens,
                                         {.before = 0, .tokens = tokens}};
    attention.forward(device, std::span(&sequence, 1),
                      a.matrix<const float>("q", 3, Attention::heads * Attention::qk_dim, Blame::any),
                      a.matrix<float>("y", 3, Attention::heads * Attention::v_dim), scratch);
  });
}
