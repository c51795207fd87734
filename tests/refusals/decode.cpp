// Decoding with a wrong extent.
#include <k3spec/decode/block_session.hpp>
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/no_draft.hpp>
#include <k3spec/decode/plain.hpp>
#include <k3spec/decode/running_texts.hpp>
#include <k3spec/decode/speculative.hpp>
#include <k3spec/decode/target_rows.hpp>

#include "tests/refusals/models.hpp"
#include "tests/refusals/table.hpp"

using namespace k3spec;
using refusals::Arguments;
using refusals::Blame;
using refusals::both;
using refusals::refuses;

namespace {

using Config = refusals::Target;
const Cpu device{1};
constexpr index_t vocab = Config::vocab_size;

const FrozenTarget<Config, float>& target() {
  static const FrozenTarget<Config, float> frozen(both<K3Target<Config>>().w());
  return frozen;
}

std::span<const index_t> span_of(const Vector<index_t>& v) { return {v.data(), static_cast<std::size_t>(v.extent(0))}; }
template <class T>
std::span<T> span_of(const Vector<T>& v) {
  return {v.data(), static_cast<std::size_t>(v.extent(0))};
}

Distribution<float> weights(Arguments& a, const std::string& name, index_t n) {
  return Distribution<float>(span_of(a.vector<const float>(name, n, 1)));
}

/// Two sequences, of which one has 2 new positions and the other 1; chains of 2.
constexpr SessionSize size{.capacity = 6, .rows = 4, .chain = 2, .sequences = 2};

template <class Session>
void session(const std::string& header, Session& s) {
  const auto sequence = [](Arguments& a) { return a.index("sequence", 1, 2); };
  const auto append = [&](Arguments& a) {
    s.reset(0), s.reset(1);
    const auto ids = a.tokens("draft cache", {0, 1, 22}, vocab);
    const index_t other = a.extent("counts", 2);
    std::vector<index_t> counts{other, 1};
    counts.resize(static_cast<std::size_t>(a.extent("counts", 2)));
    s.append(device, a.matrix<const float>("states", 3, Session::states), span_of(ids), counts);
  };
  refuses({header + " append", "decode/draft_session.hpp require_append"}, append);
  refuses({header + " reset"}, [&](Arguments& a) { s.reset(sequence(a)); });
  refuses({header + " length"}, [&](Arguments& a) { (void)s.length(sequence(a)); });
  refuses({header + " draft", "decode/draft_session.hpp require_draft"}, [&](Arguments& a) {
    Arguments right;
    append(right);
    std::vector<index_t> counts{a.most("chain", 2), 1};
    counts.resize(static_cast<std::size_t>(a.extent("counts", 2)));
    const std::vector<Sampling> samplings(static_cast<std::size_t>(a.extent("samplings", 2)));
    s.draft(device, counts, samplings);
  });
  refuses({header + " proposal"}, [&](Arguments& a) { (void)s.proposal(sequence(a)); });
}

}  // namespace

TEST_CASE("an EAGLE-3 session") {
  using Draft = Eagle3Draft<refusals::Eagle3>;
  using Session = Eagle3Session<Draft, float>;
  const auto make = [](std::vector<index_t> map) {
    return Session(target(), {both<Draft>().w(), std::move(map)}, size);
  };
  refuses({"decode/eagle3_session.hpp Eagle3Session"}, [&](Arguments& a) {
    const auto map = a.ids("draft vocabulary", {0, 1, 2, 3, 4, 22}, vocab);
    make(std::vector<index_t>(map.data(), map.data() + map.extent(0)));
  });
  CHECK_THROWS_WITH_AS(make({0, 1, 2, 3, 4, 1}), "draft vocabulary: id 5: found token 1 again, wanted each token once",
                       Error);
  refuses({"decode/eagle3_session.hpp taps"}, [](Arguments& a) {
    const std::vector<index_t> layers(static_cast<std::size_t>(a.extent("aux layers", 2)));
    if (layers.size() == 2) return;
    (void)Session::taps(layers, 2, {});
  });
  auto s = make({0, 1, 2, 3, 4, 22});
  session("decode/eagle3_session.hpp", s);
}

TEST_CASE("a block session") {
  using Dflash = DFlashDraft<refusals::Dflash>;
  using Dspark = DSparkDraft<refusals::Dspark>;
  BlockSession<Dflash, float> of_dflash(target(), {both<Dflash>().w()}, size);
  session("decode/block_session.hpp", of_dflash);
  BlockSession<Dspark, float> of_dspark(target(), {both<Dspark>().w()}, size);
  session("decode/block_session.hpp", of_dspark);
  refuses({"decode/block_session.hpp taps"}, [](Arguments& a) {
    const std::vector<index_t> layers(static_cast<std::size_t>(a.extent("target layers", 2)));
    if (layers.size() == 2) return;
    (void)BlockSession<Dflash, float>::taps(layers, 2, {});
  });
}

TEST_CASE("block drafts' heads") {
  using Dspark = DSparkDraft<refusals::Dspark>;
  using Heads = BlockHeads<Dspark, float>;
  constexpr index_t hidden = Dspark::hidden;
  static const auto packed = prepack_weights<Dspark, float>(both<Dspark>().w());
  const Heads heads(target(), packed);
  // Two blocks of three slots.
  const auto block = [](Arguments& a) {
    return a.planned_right([](auto& arena) { return Heads::Block::allocate(arena, 2, 3); });
  };
  const auto states = [](Arguments& a) { return a.rows<const float, hidden>("hidden_states", 6, Blame::any); };
  const auto slots = [](Arguments& a) { return a.index("slots", 3, 7); };  // 7 do not divide 6 rows
  const auto slot = [](Arguments& a) { return a.index("slot", 0, 3); };
  refuses({"decode/block_heads.hpp begin"}, [&](Arguments& a) {
    const auto n = slots(a);
    heads.begin(device, packed, states(a), n, a.matrix<float>("logits", 6, vocab), block(a));
  });
  const auto begun = [&](Arguments& a) {
    const auto b = block(a);
    heads.begin(device, packed, Rows<const float, hidden>(a.memory<float>(6 * hidden), 6), 3, a.of<float>(6, vocab), b);
    return b;
  };
  refuses({"decode/block_heads.hpp step"}, [&](Arguments& a) {
    const auto b = begun(a);
    heads.step(device, packed, 3, slot(a), a.tokens("previous", {0, 22}, vocab), b);
  });
  refuses({"decode/block_heads.hpp confidence"}, [&](Arguments& a) {
    const auto b = begun(a);
    const auto n = slots(a);
    heads.confidence(device, packed, states(a), n, slot(a), b);
  });
  refuses({"decode/block_heads.hpp correct"}, [&](Arguments& a) {
    const auto b = begun(a);
    heads.correct(device, packed, 3, slot(a), a.matrix<float>("logits", 2, vocab), b);
  });
  using Dflash = DFlashDraft<refusals::Dflash>;
  static const auto other = prepack_weights<Dflash, float>(both<Dflash>().w());
  const BlockHeads<Dflash, float> targets(target(), other);
  refuses({"decode/block_heads.hpp begin"}, [&](Arguments& a) {
    const auto n = slots(a);
    targets.begin(device, other, states(a), n, a.matrix<float>("logits", 6, vocab), {});
  });
  refuses({"decode/block_heads.hpp step"}, [&](Arguments& a) {
    targets.step(device, other, 3, slot(a), Vector<const index_t>(a.memory<index_t>(2), 2), {});
  });
  refuses({"decode/block_heads.hpp correct"}, [&](Arguments& a) {
    const auto k = slot(a);
    targets.correct(device, other, 3, k, a.of<float>(2, a.extent("logits", vocab)), {});
  });
}

TEST_CASE("a target session") {
  TargetSession<Config, float> s(target(), {{Tap::What::embedding}}, {6, 4, 3, 2, 2});
  const auto forward = [&](Arguments& a) {
    s.reset(0), s.reset(1);
    const auto ids = a.tokens("counts", {0, 1, 22}, vocab, Blame::any, "token id");
    std::vector<index_t> counts{a.extent("counts", 2, Blame::any), 1}, choices{a.most("choices", 2), 1};
    counts.resize(static_cast<std::size_t>(a.extent("counts", 2)));
    choices.resize(static_cast<std::size_t>(a.extent("choices", 2)));
    s.forward(device, span_of(ids), counts, choices);
  };
  refuses({"decode/target_session.hpp forward", "decode/target_engine.hpp require_forward"}, forward);
  // Of 3 choices that were planned, two sequences cannot have 2 each.
  CHECK_THROWS_WITH_AS(
      s.forward(device, std::vector<index_t>{0, 1, 2, 3}, std::array<index_t, 2>{2, 2}, std::array<index_t, 2>{2, 2}),
      "target session: choices: found 2 from 0, wanted some of 1", Error);
  Arguments right;
  forward(right);
  refuses({"decode/target_session.hpp tapped"}, [&](Arguments& a) { (void)s.tapped(a.most("tapped", 4)); });
  const auto sequence = [](Arguments& a) { return a.index("sequence", 1, 2); };
  refuses({"decode/target_session.hpp accept"}, [&](Arguments& a) { s.accept(sequence(a), a.most("tokens", 1)); });
  refuses({"decode/target_session.hpp reset"}, [&](Arguments& a) { s.reset(sequence(a)); });
  refuses({"decode/target_session.hpp length"}, [&](Arguments& a) { (void)s.length(sequence(a)); });
}

TEST_CASE("whose rows of a target's forward are whose") {
  TargetRows<TargetSession<Config, float>> rows(target(), {{Tap::What::embedding}}, {6, 4, 3, 2, 2});
  rows.forward(device, std::vector<index_t>{0, 1, 22}, std::array<index_t, 2>{2, 1}, std::array<index_t, 2>{2, 1});
  refuses({"decode/target_rows.hpp gather_tapped"}, [&](Arguments& a) {
    std::vector<index_t> counts{a.most("counts", 2), 1};
    counts.resize(static_cast<std::size_t>(a.extent("counts", 2)));
    rows.gather_tapped(device, counts);
  });
  const auto sequence = [](Arguments& a) { return a.index("sequence", 1, 2); };
  refuses({"decode/target_rows.hpp logits_of"}, [&](Arguments& a) { (void)rows.logits_of(sequence(a)); });
  refuses({"decode/target_rows.hpp top_of"}, [&](Arguments& a) { (void)rows.top_of(sequence(a)); });
  refuses({"decode/target_rows.hpp sound"}, [&](Arguments& a) {
    rows.top(device);
    (void)rows.sound(sequence(a));
  });
}

TEST_CASE("choosing a token") {
  refuses({"decode/sampling.hpp choose"}, [](Arguments& a) {
    TokenChoices<> choices(device, 1);
    choices.choose(device, a.of<float>(1, a.least("logits", 1)), {.row = a.index("logits: row", 0, 1)});
    choices.choose(device, a.of<float>(1, a.least("logits", 1)), {.sampling = {.temperature = 1}});
  });
  TokenChoices<> one(device, 1);
  one.add({});
  CHECK_THROWS_WITH_AS(one.add({}), "sampling: draws: found 1, wanted 0 to 0", Error);
  TextSoFar text;
  static const std::vector<index_t> tokens{0, 4};
  text.tokens = tokens;
  refuses({"decode/logit_processor.hpp operator()"}, [&](Arguments& a) {
    LogitBias({{4, 1.0}}, 5)(text, span_of(a.vector<float>("logits", 5)));
  });
  refuses({"decode/logit_processor.hpp operator()"}, [](Arguments& a) {
    Penalties penalties({.repetition = 2, .presence = 1}, 5);
    const auto all = a.ids("tokens", {0, 4}, 5);
    const TextSoFar own{span_of(all), a.most("prompt", 2)};
    if (all.extent(0) != 2) throw Error("tokens", "another number", "any");
    penalties(own, span_of(a.vector<float>("logits", 5)));
  });
  refuses({"decode/logit_processor.hpp LogitBias"}, [](Arguments& a) {
    LogitBias({{a.index("token", 4, 5), 1.0}}, 5);
  });
  std::vector<float> none;
  truncate_row(Truncation{.top_k = 1}, std::span<float>(none));
}

TEST_CASE("verifying a proposal") {
  refuses({"decode/verify.hpp verify_greedy"}, [](Arguments& a) {
    const auto tokens = a.vector<index_t>("top", 2);
    verify_greedy(span_of(tokens), span_of(a.vector<index_t>("top", 3)));
  });
  refuses({"cpu/verify.hpp stays"},
          [](Arguments& a) { stays(weights(a, "weights", 5), weights(a, "weights", 5), a.index("token", 4, 5), 0.5); });
  const auto two = [](Arguments& a, auto&& f) {
    const auto p = weights(a, "weights", 5), q = weights(a, "weights", 5);
    f(p, q);
  };
  refuses({"cpu/verify.hpp residual_total"},
          [&](Arguments& a) { two(a, [](auto& p, auto& q) { residual_total(p, q, 1); }); });
  refuses({"cpu/verify.hpp prefix_stays"},
          [&](Arguments& a) { two(a, [](auto& p, auto& q) { prefix_stays(p, q, 1, 0.5); }); });
  refuses({"cpu/verify.hpp pick_residual"},
          [&](Arguments& a) { two(a, [](auto& p, auto& q) { pick_residual(p, q, 0.5); }); });
  for (const Verification rule : {Verification::token, Verification::block}) {
    refuses(
        {"cpu/verify.hpp verify_sampled", "cpu/verify.hpp verify_tokens", "cpu/verify.hpp verify_block"},
        [&](Arguments& a) {
          const auto tokens = a.ids("tokens", {0, 4}, 5, Blame::any);
          const index_t rows = a.extent("weights", 2), n = a.extent("weights", 5, Blame::any);
          const Proposal<float> proposal{span_of(tokens), Matrix<const float>(a.memory<float>(rows * n, 1), rows, n)};
          const std::vector<float> own(5, 1);
          verify_sampled(
              rule, proposal, [&](index_t) { return Distribution<float>(own); }, Sampling{.temperature = 1}, 3);
        });
  }
  refuses({"decode/verify.hpp add"}, [](Arguments& a) {
    Verifier<Cpu, float> verifier(device, 1, 2);
    const auto tokens = a.ids("tokens", {0, 4}, 5, Blame::any);
    const index_t rows = a.extent("weights", 2), n = a.extent("weights", 5, Blame::any);
    const Proposal<float> proposal{span_of(tokens), Matrix<const float>(a.memory<float>(rows * n, 1), rows, n)};
    verifier.add(proposal, a.of<float>(a.extent("logits", 3), 5), Sampling{.temperature = 1}, 3);
  });
  static const std::vector<index_t> drafted{0, 4};
  refuses({"backend/verify_problem.hpp first"}, [](Arguments& a) {
    const Proposal<float> proposal{drafted, Matrix<const float>(a.memory<float>(10, 1), 2, 5)};
    (void)proposal.first(a.most("tokens", 2));
  });
  refuses({"backend/verify_problem.hpp first"}, [](Arguments& a) {
    const index_t rows = a.optional_extent("weights", 2);
    (void)Proposal<float>{drafted, Matrix<const float>(a.memory<float>(rows * 5, 1), rows, 5)}.first(1);
  });
  refuses({"backend/verify_problem.hpp distribution"}, [](Arguments& a) {
    const Proposal<float> proposal{drafted, Matrix<const float>(a.memory<float>(10, 1), 2, 5)};
    (void)proposal.distribution(a.index("row", 1, 2));
  });
}

TEST_CASE("several prompts") {
  DecodeOptions options;
  options.max_new_tokens = 1;
  using Decoder = SpeculativeDecoder<Config, NoDraft<Config, float>>;
  Decoder decoder(target(), {}, {}, {}, 6, options, 2);
  refuses({"decode/speculative.hpp generate_all"}, [&](Arguments& a) {
    const std::vector<std::vector<index_t>> prompts(2, std::vector<index_t>{1, a.index("token id at row", 2, vocab)});
    const std::vector<std::uint64_t> seeds(static_cast<std::size_t>(a.optional_extent("seeds", 2)), 1);
    decoder.generate_all(device, prompts, seeds);
  });
}

TEST_CASE("texts") {
  const std::vector<index_t> prompt{1, 2};
  DecodeOptions options;
  options.max_new_tokens = 1;
  refuses({"decode/continuation.hpp text"}, [&](Arguments& a) {
    Continuation text(options);
    text.begin(prompt, 2);
    const std::vector<index_t> drafted(static_cast<std::size_t>(a.most("drafted tokens", 3)));
    (void)text.text(drafted);
  });
  Continuation text(options);
  text.begin(prompt);
  CHECK_THROWS_WITH_AS(text.last(), "text: tokens: found none, wanted at least one", Error);
  text.push(3);
  CHECK_THROWS_WITH_AS(text.push(4), "text: tokens left: found none, wanted at least one", Error);
  RunningTexts texts(options, 2);
  refuses({"decode/running_texts.hpp operator[]"}, [&](Arguments& a) { (void)texts[a.index("place", 1, 2)]; });
  refuses({"decode/running_texts.hpp drop"}, [&](Arguments& a) { texts.drop(a.index("place", 1, 2)); });
  refuses({"decode/running_texts.hpp share"}, [&](Arguments& a) {
    std::vector<index_t> counts(static_cast<std::size_t>(a.extent("counts", 2)));
    texts.share(4, counts);
  });
}
