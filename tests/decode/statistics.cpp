// What a decoder counts of its rounds, and how long their parts take.
#include <doctest/doctest.h>

#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/no_draft.hpp>
#include <k3spec/io/draft_checkpoint.hpp>

#include "tests/decode/scripted.hpp"

using namespace k3spec;
using namespace k3spec::test;

namespace {

using Depths = std::vector<DepthStatistics>;

DecodeStatistics of_chain(std::size_t chain) {
  DecodeStatistics s;
  s.depths.resize(chain);
  return s;
}

/// The product over depths of the share of rounds that drafted there and of the acceptance, summed up.
double length_by_acceptances(const DecodeStatistics& s) {
  double length = 1, stays = 1;
  index_t before = s.rounds;
  for (const DepthStatistics& d : s.depths) {
    if (before == 0) break;
    stays *= static_cast<double>(d.reached) / static_cast<double>(before) * d.acceptance();
    length += stays, before = d.accepted;
  }
  return length;
}

}  // namespace

TEST_CASE("statistics: a round's tokens are counted where they stand in the chain") {
  DecodeStatistics s = of_chain(3);
  CHECK(s.accept_length() == 0);
  s.count(3, 3, 1);
  CHECK(s.depths == Depths{{1, 1, 1}, {1, 1, 0}, {1, 0, 0}});
  s.count(3, 3, 3), s.count(0, 0, 0), s.count(1, 1, 0), s.count(2, 2, 2);
  CHECK(s.depths == Depths{{4, 4, 3}, {3, 3, 2}, {2, 1, 1}});
  // The second one could not be verified: nothing is known of it.
  s.count(2, 1, 1);
  CHECK(s.depths == Depths{{5, 5, 4}, {4, 3, 2}, {2, 1, 1}});
  CHECK(s.rounds == 6);
  CHECK(s.drafted() == 11);
  CHECK(s.accepted() == 7);
  CHECK(s.depths[0].acceptance() == 0.8);
  CHECK(DepthStatistics{3, 0, 0}.acceptance() == 0);
  CHECK(s.accept_length() == 1 + 7.0 / 6);
  CHECK(length_by_acceptances(s) == doctest::Approx(1 + 7.0 / 6));
  CHECK_THROWS_AS(s.count(4, 4, 0), Error);
  CHECK_THROWS_AS(s.count(2, 3, 0), Error);
  CHECK_THROWS_AS(s.count(2, 2, 3), Error);
  CHECK(s.rounds == 6);
}

TEST_CASE("statistics: sums of chains of any lengths") {
  DecodeStatistics a = of_chain(1), b = of_chain(2), none;
  a.count(1, 1, 1), b.count(2, 2, 1);
  a.passes = 2, b.passes = 3, a.prefills = 4, b.prefills = 5;
  a.draft_seconds = 1, a.verify_seconds = 2, a.keep_seconds = 4, a.prefill_seconds = 8;
  b.draft_seconds = 16, b.verify_seconds = 32, b.keep_seconds = 64, b.prefill_seconds = 128;
  a += none;
  a += b;
  none += a;
  CHECK(none.depths == Depths{{2, 2, 2}, {1, 1, 0}});
  CHECK(none.rounds == 2);
  CHECK(none.passes == 5);
  CHECK(none.prefills == 9);
  CHECK(none.draft_seconds == 17);
  CHECK(none.verify_seconds == 34);
  CHECK(none.keep_seconds == 68);
  CHECK(none.prefill_seconds == 136);
  CHECK(none.seconds() == 255);
}

TEST_CASE("statistics: a scripted draft's depths and seconds") {
  Script script;
  script.draft_fixed = 2, script.draft_step = 1, script.append = 0.25, script.row = 16;
  script.right = [](index_t position, index_t) { return position % 7 != 4 && position != 16; };
  const auto prompt = add_text(script, 0, 9);
  DecodeOptions o = scripted_options(script, 3, 20);
  o.prefill_chunk = 4;
  ScriptedDecoder decoder(*tiny().target, {}, {}, {&script}, 40, o);
  const auto result = decoder.generate(Cpu{1}, prompt);
  CHECK(result.tokens == std::vector<index_t>(script.texts[0].begin() + 9, script.texts[0].begin() + 29));
  // Token 9 is the prompt's. Rounds: 10 stays, 11 is wrong; 12 to 14; none but 16; 17; 19 to 21; 23 and 24; 26 and 27,
  // for which two were drafted.
  const auto& s = decoder.statistics();
  CHECK(s.depths == Depths{{7, 7, 6}, {7, 6, 4}, {6, 3, 2}});
  CHECK(s.rounds == result.target_forwards);
  CHECK(s.passes == s.rounds);
  CHECK(s.prefills == 3);
  const auto rounds = static_cast<double>(s.rounds), drafted = static_cast<double>(s.drafted());
  CHECK(s.draft_seconds == 2 * rounds + drafted);
  CHECK(s.verify_seconds == 16 * (rounds + drafted));
  CHECK(s.keep_seconds == 0.25 * (rounds - 1));  // what is over needs no cache
  CHECK(s.prefill_seconds == 16 + 3 * 0.25);
  CHECK(s.seconds() == script.now);
  CHECK(s.accept_length() == result.accept_length());
  CHECK(length_by_acceptances(s) == doctest::Approx(result.accept_length()));
  decoder.reset_statistics();
  CHECK(decoder.statistics().depths == Depths(3));
  CHECK(decoder.statistics().rounds + decoder.statistics().passes + decoder.statistics().prefills == 0);
  CHECK(decoder.statistics().seconds() == 0);
}

TEST_CASE("statistics: no tokens, one, two, chains of one, and drafts that propose nothing") {
  Script script;
  const auto prompt = add_text(script, 0, 5);
  for (const index_t chain : {1, 3}) {
    for (const index_t tokens : {0, 1, 2, 3, 8}) {
      ScriptedDecoder decoder(*tiny().target, {}, {}, {&script}, 40, scripted_options(script, chain, tokens));
      const auto result = decoder.generate(Cpu{1}, prompt);
      const auto& s = decoder.statistics();
      CHECK(s.depths.size() == static_cast<std::size_t>(chain));
      CHECK(s.rounds == result.target_forwards);
      CHECK(s.drafted() == result.drafted);
      CHECK(s.accepted() == result.accepted);
      CHECK(s.rounds + s.accepted() == std::max<index_t>(tokens - 1, 0));
      CHECK(s.prefills == (tokens > 0 ? 1 : 0));
    }
  }
  script.most = 0;
  ScriptedDecoder silent(*tiny().target, {}, {}, {&script}, 40, scripted_options(script, 3, 8));
  (void)silent.generate(Cpu{1}, prompt);
  CHECK(silent.statistics().depths == Depths(3));
  CHECK(silent.statistics().rounds == 7);
  CHECK(silent.statistics().accept_length() == 1);
  SpeculativeDecoder<Config, NoDraft<Config, float>> none(*tiny().target, {}, {}, {}, 40, [] {
    DecodeOptions o;
    o.max_new_tokens = 8;
    return o;
  }());
  (void)none.generate(Cpu{1}, prompt);
  CHECK(none.statistics().depths.empty());
  CHECK(none.statistics().rounds == 7);
}

TEST_CASE("statistics: what stays behind a stop token is counted, and not emitted") {
  Script script;
  const auto prompt = add_text(script, 0, 9);
  DecodeOptions o = scripted_options(script, 4, 20);
  // The end comes at the second token that is drafted.
  o.stop_token_ids = {script.texts[0][11]};
  REQUIRE(script.texts[0][11] != script.texts[0][9]);
  REQUIRE(script.texts[0][11] != script.texts[0][10]);
  ScriptedDecoder decoder(*tiny().target, {}, {}, {&script}, 40, o);
  const auto result = decoder.generate(Cpu{1}, prompt);
  CHECK(result.tokens.size() == 3);
  CHECK(result.accepted == 2);
  CHECK(decoder.statistics().depths == Depths(4, {1, 1, 1}));
  CHECK(result.accept_length() == 2);
  CHECK(decoder.statistics().accept_length() == 5);
}

TEST_CASE("statistics: texts decoded together have the sums of each alone, and fewer passes") {
  using Draft = Eagle3Draft<Config>;
  const auto trained = load_draft<Draft, float>(root / "tests/data/drafts/eagle3_k3_tiny");
  const auto ids = trained.vocabulary.target_ids();
  const auto make = [&](index_t texts) {
    return SpeculativeDecoder<Config, Eagle3Session<Draft, float>>(
        *tiny().target, trained.layer_ids, trained.conventions,
        {trained.parameters.weights(), {ids.data(), ids.data() + ids.size()}}, 160, decode_options(5, 40), texts);
  };
  std::vector<std::vector<index_t>> prompts;
  for (std::size_t i = 0; i < 5; ++i) prompts.emplace_back(tiny().prompt(i).begin(), tiny().prompt(i).end());
  auto one = make(1), several = make(3);
  index_t tokens = 0;
  for (const auto& prompt : prompts) tokens += static_cast<index_t>(one.generate(Cpu{1}, prompt).tokens.size()) - 1;
  several.generate_all(Cpu{1}, prompts);
  const auto &a = one.statistics(), &b = several.statistics();
  CHECK(a.depths == b.depths);
  CHECK(a.rounds == b.rounds);
  CHECK(a.passes == a.rounds);
  CHECK(b.passes < a.passes);
  CHECK(a.accept_length() == static_cast<double>(tokens) / static_cast<double>(a.rounds));
  CHECK(length_by_acceptances(a) == doctest::Approx(a.accept_length()));
  for (const double seconds : {a.draft_seconds, a.verify_seconds, a.keep_seconds, a.prefill_seconds}) {
    CHECK(seconds > 0);
  }
}
