// Decoding with lengths that adapt: the same greedy tokens, the same distribution, and what durations make of it.
#include <doctest/doctest.h>

#include <k3spec/decode/block_session.hpp>
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/no_draft.hpp>
#include <k3spec/io/draft_checkpoint.hpp>

#include "tests/backend/allocations.hpp"
#include "tests/decode/block_drafts.hpp"
#include "tests/decode/sampled.hpp"
#include "tests/decode/scripted.hpp"

using namespace k3spec;
using namespace k3spec::test;

namespace {

using Eagle3 = Eagle3Draft<Config>;
using Dflash = DFlashDraft<configs::KimiK3TinyDFlash>;
using Dspark = DSparkDraft<configs::KimiK3TinyDSpark>;

/// Seconds that no machine measured: each call is later than the one before by another amount, so that rounds are of
/// all lengths and kinds.
struct UnevenClock {
  std::shared_ptr<std::uint64_t> calls = std::make_shared<std::uint64_t>(0);
  std::shared_ptr<double> now = std::make_shared<double>(0);
  double operator()() const { return *now += 0.001 + 0.1 * Philox(9, 0).uniform((*calls)++); }
};

DecodeOptions adaptive(DecodeOptions o) {
  o.adaptive_length = true;
  o.clock = UnevenClock{};
  return o;
}

/// f(name, make(options, texts) -> decoder) for the trained draft of each kind.
template <class F>
void for_each_trained(F&& f) {
  const auto of = [&]<class Draft, class Session>(const char* name, const char* file, auto&&... rest) {
    const auto draft = load_draft<Draft, float>(root / "tests/data/drafts" / file);
    f(name, [&](const DecodeOptions& o, index_t texts) {
      return SpeculativeDecoder<Config, Session>(*tiny().target, draft.layer_ids, draft.conventions,
                                                 {draft.parameters.weights(), rest(draft)...}, 160, o, texts);
    });
  };
  of.template operator()<Eagle3, Eagle3Session<Eagle3, float>>("EAGLE-3", "eagle3_k3_tiny", [](const auto& draft) {
    const auto ids = draft.vocabulary.target_ids();
    return std::vector<index_t>(ids.data(), ids.data() + ids.size());
  });
  of.template operator()<Dflash, BlockSession<Dflash, float>>("DFlash", "dflash_k3_tiny");
  of.template operator()<Dspark, BlockSession<Dspark, float>>("DSpark", "dspark_k3_tiny");
}

}  // namespace

TEST_CASE("adaptive: greedy tokens are plain decoding's with every draft, alone and together; no round allocates") {
  DecodeOptions o = decode_options(5, 60);
  o.stop_token_ids = {101};  // e
  PlainDecoder<Config, float> plain(*tiny().target, 160, o);
  std::vector<std::vector<index_t>> prompts, wanted;
  index_t shorter = 0;
  for (std::size_t i = 0; i < 24; ++i) {
    const auto prompt = tiny().prompt(i).first(i % 3 == 0 ? 1 : 64 - i);
    prompts.emplace_back(prompt.begin(), prompt.end());
    wanted.push_back(plain.generate(Cpu{1}, prompt).tokens);
  }
  for_each_trained([&](const std::string& name, const auto& make) {
    CAPTURE(name);
    auto one = make(adaptive(o), 1), several = make(adaptive(o), 3);
    for (std::size_t i = 0; i < prompts.size(); ++i) CHECK(one.generate(Cpu{1}, prompts[i]).tokens == wanted[i]);
    const auto results = several.generate_all(Cpu{2}, prompts);
    for (std::size_t i = 0; i < prompts.size(); ++i) CHECK(results[i].tokens == wanted[i]);
    // Rounds of several lengths, and some without a draft.
    for (const DecodeStatistics& s : {one.statistics(), several.statistics()}) {
      CHECK(s.depths[0].drafted < s.rounds);
      CHECK(s.depths[4].drafted > 0);
      shorter += s.depths[0].drafted - s.depths[4].drafted;
    }
    several.add(prompts[1], 1), several.add(prompts[2], 2);
    for (int round = 0; round < 3; ++round) several.step(Cpu{1});
    const auto before = allocations();
    for (int round = 0; round < 40; ++round) several.step(Cpu{1});
    CHECK(allocations() == before);
  });
  CHECK(shorter > 0);
}

TEST_CASE("adaptive: a draft of one token at a time, texts of none to three, and no draft at all") {
  for (const index_t tokens : {0, 1, 2, 3}) {
    const DecodeOptions o = adaptive(decode_options(1, tokens));
    PlainDecoder<Config, float> plain(*tiny().target, 160, o);
    const auto wanted = plain.generate(Cpu{1}, tiny().prompt(3)).tokens;
    for_each_trained([&](const std::string& name, const auto& make) {
      CAPTURE(name);
      auto decoder = make(o, 1);
      for (int i = 0; i < 12; ++i) CHECK(decoder.generate(Cpu{1}, tiny().prompt(3)).tokens == wanted);
    });
    SpeculativeDecoder<Config, NoDraft<Config, float>> none(*tiny().target, {}, {}, {}, 160, o);
    CHECK(none.generate(Cpu{1}, tiny().prompt(3)).tokens == wanted);
  }
}

TEST_CASE("adaptive: what cannot is refused") {
  Script script;
  const DecodeOptions o = adaptive(decode_options(3, 8));
  CHECK_THROWS_WITH_AS(ScriptedDecoder(*tiny().target, {}, {}, {&script}, 40, o),
                       "adaptive_length: found true, wanted false: this draft has no confidences", Error);
  Parameters<Eagle3, float> random;
  std::vector<index_t> ids(64);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<index_t>(i);
  Eagle3Session<Eagle3, float> session(*tiny().target, {random.weights(), ids}, {10, 4, 3});
  AdaptiveLength lengths(1, 3);
  const index_t count = 1;
  const Sampling greedy{};
  CHECK_THROWS_WITH_AS(session.draft(Cpu{}, std::span(&count, 1), std::span(&greedy, 1), &lengths),
                       "draft: lengths: found some that adapt, wanted none, as planned", Error);
}

TEST_CASE("adaptive, at temperature 1: 20,000 texts have the target's distribution with every kind of draft") {
  DecodeOptions o = decode_options(2, 4);
  o.temperature = 1;
  for (const Verification rule : {Verification::token, Verification::block}) {
    o.verification = rule;
    const auto check = [&](const char* name, auto& decoder) {
      const double p = small_p(decoder, 0.05);
      CHECK_MESSAGE(p > 0.01, name, ": p = ", p);
      const auto& s = decoder.statistics();
      CHECK(s.depths[0].drafted < s.rounds);
      CHECK(s.depths[1].drafted < s.depths[0].drafted);
    };
    Parameters<Eagle3Draft<Small>, float> random;
    random.initialize(2, 0.3);
    SpeculativeDecoder<Small, Eagle3Session<Eagle3Draft<Small>, float>> eagle3(
        small_target(), std::array<index_t, 3>{0, 1, 3}, {}, {random.weights(), {0, 1, 3, 4, 6, 8, 11}}, 8,
        adaptive(o));
    check("EAGLE-3", eagle3);
    const auto check_block = [&]<class Draft>(const char* name, std::type_identity<Draft>) {
      Parameters<Draft, float> weights;
      weights.initialize(2, 0.3);
      SpeculativeDecoder<Small, BlockSession<Draft, float>> decoder(small_target(), small_layers, {},
                                                                    {weights.weights()}, 8, adaptive(o));
      check(name, decoder);
    };
    check_block("DFlash", std::type_identity<DFlashDraft<DFlashOf<Small>>>{});
    check_block("DSpark", std::type_identity<DSparkDraft<DSparkOf<Small>>>{});
  }
}
