// Speculative decoding gives plain greedy decoding's tokens, whatever the draft, the chain or the thread count.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/no_draft.hpp>
#include <k3spec/io/draft_checkpoint.hpp>

#include "tests/backend/allocations.hpp"
#include "tests/decode/sampled.hpp"
#include "tests/decode/several.hpp"
#include "tests/decode/tiny.hpp"

using namespace k3spec;

namespace {

using namespace test;
using Draft = Eagle3Draft<Config>;
constexpr std::array<index_t, 3> aux_layers{1, 3, 4};

/// A draft that the main job trained; most of what it says is right.
LoadedDraft<Draft, float> load_trained() { return load_draft<Draft, float>(root / "tests/data/drafts/eagle3_k3_tiny"); }

std::vector<index_t> target_ids(const DraftVocabulary& v) {
  return {v.target_ids().data(), v.target_ids().data() + v.target_ids().size()};
}

/// A draft vocabulary: the tokens from `first` on.
std::vector<index_t> tokens_from(index_t first, std::size_t count) {
  std::vector<index_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

using Session = Eagle3Session<Draft, float>;
using Decoder = SpeculativeDecoder<Config, Session>;

}  // namespace

TEST_CASE("plain greedy decoding gives the stored continuations") {
  PlainDecoder<Config, float> decoder(*tiny().target, 160, decode_options(1));
  for (std::size_t i = 0; i < 32; ++i) {
    const auto tokens = decoder.generate(Cpu{2}, tiny().prompt(i)).tokens;
    const auto wanted = tiny().continuation(i);
    for (std::size_t t = 0; t < 96; ++t) {
      if (tokens[t] == wanted[t]) continue;
      CHECK_MESSAGE(tiny().gaps[i * 96 + t] < 1e-4, "prompt ", i, " token ", t);
      break;
    }
  }
}

TEST_CASE("speculative decoding equals plain greedy decoding: trained and random drafts, chains of 1 to 7") {
  PlainDecoder<Config, float> plain(*tiny().target, 160, decode_options(1));
  std::vector<std::vector<index_t>> wanted;
  for (std::size_t i = 0; i < 32; ++i) wanted.push_back(plain.generate(Cpu{}, tiny().prompt(i)).tokens);

  const auto trained = load_trained();
  const auto ids = target_ids(trained.vocabulary);
  Parameters<Draft, float> random;
  random.initialize(3);
  for (const bool is_trained : {true, false}) {
    for (index_t chain = 1; chain <= 7; ++chain) {
      Decoder decoder(*tiny().target, aux_layers, {}, {(is_trained ? trained.parameters : random).weights(), ids}, 160,
                      decode_options(chain));
      index_t forwards = 0, tokens = 0;
      // A random draft's rounds are all alike, and many.
      for (std::size_t i = 0; i < (is_trained ? 32 : 6); ++i) {
        const auto result = decoder.generate(Cpu{chain == 4 ? 2 : 1}, tiny().prompt(i));
        CHECK(result.tokens == wanted[i]);
        CHECK(result.drafted >= result.accepted);
        forwards += result.target_forwards;
        tokens += static_cast<index_t>(result.tokens.size()) - 1;
      }
      const double per_forward = static_cast<double>(tokens) / static_cast<double>(forwards);
      MESSAGE(std::string(is_trained ? "trained" : "random"), " draft, chain ", chain, ": ", per_forward,
              " tokens per forward");
      // Deep acceptance, so that states are rolled back to every depth.
      if (is_trained) CHECK(per_forward > (chain < 3 ? 1.5 : 2.5));
      if (!is_trained) CHECK(per_forward < 1.1);
    }
  }
}

TEST_CASE("decoding ends with the end-of-sequence token, inside an accepted block too") {
  const auto trained = load_trained();
  const auto ids = target_ids(trained.vocabulary);
  index_t inside = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    DecodeOptions o = decode_options(5);
    o.stop_token_ids = {tiny().continuation(i)[41]};
    PlainDecoder<Config, float> plain(*tiny().target, 160, o);
    Decoder decoder(*tiny().target, aux_layers, {}, {trained.parameters.weights(), ids}, 160, o);
    const auto wanted = plain.generate(Cpu{}, tiny().prompt(i)).tokens;
    CHECK(wanted.back() == o.stop_token_ids[0]);
    const auto result = decoder.generate(Cpu{}, tiny().prompt(i));
    CHECK(result.tokens == wanted);
    CHECK(result.finish == FinishReason::stop_token);
    // Every forward adds its accepted tokens and one more, unless the end comes first.
    const auto emitted = static_cast<index_t>(result.tokens.size()) - 1;
    if (result.accepted + result.target_forwards <= emitted) continue;
    ++inside;
    CHECK(result.accept_length() == static_cast<double>(emitted) / static_cast<double>(result.target_forwards));
  }
  CHECK(inside > 0);
}

TEST_CASE("any of several stop tokens ends a text") {
  const auto trained = load_trained();
  const auto ids = target_ids(trained.vocabulary);
  const auto whole = tiny().continuation(2);
  DecodeOptions o = decode_options(5);
  for (const std::size_t at : {0U, 9U, 40U}) {
    // The second one never comes before the first.
    o.stop_token_ids = {259, whole[at]};
    const auto end = std::find(whole.begin(), whole.end(), whole[at]) + 1;
    PlainDecoder<Config, float> plain(*tiny().target, 160, o);
    Decoder decoder(*tiny().target, aux_layers, {}, {trained.parameters.weights(), ids}, 160, o);
    for (const auto& result : {plain.generate(Cpu{}, tiny().prompt(2)), decoder.generate(Cpu{}, tiny().prompt(2))}) {
      CHECK(result.tokens == std::vector<index_t>(whole.begin(), end));
      CHECK(result.finish == FinishReason::stop_token);
    }
  }
  o.stop_token_ids = {7, 260};
  CHECK_THROWS_WITH_AS((PlainDecoder<Config, float>(*tiny().target, 160, o)),
                       "stop_token_ids: found 260, wanted 0 to 259", Error);
  CHECK_THROWS_WITH_AS(Decoder(*tiny().target, aux_layers, {}, {trained.parameters.weights(), ids}, 160, o),
                       "stop_token_ids: found 260, wanted 0 to 259", Error);
}

TEST_CASE("a text ends where a stop string does, inside an accepted block too") {
  const auto trained = load_trained();
  const auto ids = target_ids(trained.vocabulary);
  DecodeOptions o = decode_options(5);
  o.token_bytes = byte_of_token;
  index_t inside = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    std::string whole;
    for (const index_t t : tiny().continuation(i)) whole += byte_of_token(t);
    o.stop_strings = {whole.substr(30 + i, 4), "no such text"};
    const auto end = whole.find(o.stop_strings[0]) + 4;
    PlainDecoder<Config, float> plain(*tiny().target, 160, o);
    Decoder decoder(*tiny().target, aux_layers, {}, {trained.parameters.weights(), ids}, 160, o);
    const auto result = decoder.generate(Cpu{}, tiny().prompt(i));
    CHECK(result.finish == FinishReason::stop_string);
    CHECK(result.tokens.size() == end);
    CHECK(result.tokens == plain.generate(Cpu{}, tiny().prompt(i)).tokens);
    if (result.accepted + result.target_forwards >= static_cast<index_t>(end)) ++inside;
  }
  CHECK(inside > 0);
}

TEST_CASE("short prompts, prefill chunks and token limits change nothing") {
  const auto trained = load_trained();
  const auto ids = target_ids(trained.vocabulary);
  for (const index_t tokens : {0, 1, 2, 7}) {
    for (const index_t chunk : {1, 3, 64}) {
      DecodeOptions o = decode_options(3, tokens);
      o.prefill_chunk = chunk;
      PlainDecoder<Config, float> plain(*tiny().target, 160, o);
      Decoder decoder(*tiny().target, aux_layers, {}, {trained.parameters.weights(), ids}, 160, o);
      for (const std::size_t length : {1U, 2U, 33U}) {
        const auto prompt = tiny().prompt(4).first(length);
        const auto wanted = plain.generate(Cpu{}, prompt).tokens;
        CHECK(static_cast<index_t>(wanted.size()) == tokens);
        CHECK(decoder.generate(Cpu{}, prompt).tokens == wanted);
      }
    }
  }
}

TEST_CASE("decoding refuses what it cannot do, and says what") {
  Parameters<Draft, float> random;
  const std::vector<index_t> ids = tokens_from(0, 64);
  const auto make = [&](index_t chain, std::span<const index_t> layers) {
    return Decoder(*tiny().target, layers, {}, {random.weights(), ids}, 100, decode_options(chain));
  };
  CHECK_THROWS_WITH_AS(make(0, aux_layers), "chain: found 0, wanted 1 to 16", Error);
  CHECK_THROWS_WITH_AS(make(17, aux_layers), "chain: found 17, wanted 1 to 16", Error);
  CHECK_THROWS_WITH_AS(make(3, std::span(aux_layers).first(2)), "aux layers: found 2, wanted 3", Error);
  auto decoder = make(3, aux_layers);
  CHECK_THROWS_WITH_AS(decoder.generate(Cpu{}, {}), "prompt: found no token, wanted at least one", Error);
  CHECK_THROWS_WITH_AS(decoder.generate(Cpu{}, tiny().prompt(0)),
                       "max_new_tokens: found 96, wanted 0 to 36 after this prompt", Error);

  const auto with = [&](DecodeOptions o, index_t capacity) {
    PlainDecoder<Config, float> plain(*tiny().target, capacity, o);
    return Decoder(*tiny().target, aux_layers, {}, {random.weights(), ids}, capacity, o);
  };
  DecodeOptions o = decode_options(3);
  o.prefill_chunk = 0;
  CHECK_THROWS_WITH_AS(with(o, 100), "prefill_chunk: found 0, wanted 1 to 4294967296", Error);
  CHECK_THROWS_WITH_AS(with(decode_options(3), index_t{1} << 61),
                       "capacity: found 2305843009213693952, wanted 1 to 4294967296", Error);
  CHECK_THROWS_WITH_AS(with(decode_options(1000000000), 100), "chain: found 1000000000, wanted 1 to 16", Error);
  CHECK_THROWS_WITH_AS(with(decode_options(3, -1), 100), "max_new_tokens: found -1, wanted 0 to 4294967296", Error);
}

TEST_CASE("a draft session refuses what was not planned for") {
  Parameters<Draft, float> random;
  Session session(*tiny().target, {random.weights(), tokens_from(0, 64)}, {10, 4, 3});
  const std::vector<float> aux(5 * 384);
  const std::vector<index_t> ids(5, 7);
  const auto append = [&](index_t rows, index_t columns, std::size_t n) {
    session.append(Cpu{}, Matrix<const float>(aux.data(), rows, columns), std::span(ids).first(n));
  };
  CHECK_THROWS_WITH_AS(session.draft(Cpu{}, 1, {}), "draft cache: positions: found 0, wanted at least 1", Error);
  CHECK_THROWS_WITH_AS(append(5, 384, 5), "draft cache: rows: found 5, wanted 1 to 4", Error);
  CHECK_THROWS_WITH_AS(append(0, 384, 0), "draft cache: rows: found 0, wanted 1 to 4", Error);
  CHECK_THROWS_WITH_AS(append(2, 380, 2), "draft cache: states: found 2 x 380, wanted 2 x 384, packed", Error);
  append(4, 384, 4);
  append(4, 384, 4);
  CHECK_THROWS_WITH_AS(append(4, 384, 4), "draft cache: positions: found 12, wanted at most 10", Error);
  CHECK_THROWS_WITH_AS(session.draft(Cpu{}, 4, {}), "chain: found 4, wanted 0 to 3", Error);
  CHECK(session.draft(Cpu{}, 3, {}).size() == 3);
}

TEST_CASE("EAGLE-3 at temperature 1: 20,000 texts have the target's distribution") {
  Parameters<Eagle3Draft<Small>, float> random;
  random.initialize(2, 0.3);
  DecodeOptions o = decode_options(2, 4);
  o.temperature = 1;
  for (const Verification rule : {Verification::token, Verification::block}) {
    o.verification = rule;
    SpeculativeDecoder<Small, Eagle3Session<Eagle3Draft<Small>, float>> decoder(
        small_target(), std::array<index_t, 3>{0, 1, 3}, {}, {random.weights(), {0, 1, 3, 4, 6, 8, 11}}, 8, o);
    const double p = small_p(decoder);
    CHECK_MESSAGE(p > 0.01, names_of<Verification>[static_cast<std::size_t>(rule)], ": p = ", p);
  }
}

TEST_CASE("truncated and penalised: 8,000 texts have the distribution of what the target's logits become") {
  DecodeOptions o = decode_options(2, 4);
  o.temperature = 0.8;
  o.truncation = {.top_k = 7, .top_p = 0.93, .min_p = 0.02};
  o.draft_truncation = Truncation{.top_k = 5};
  o.logit_processor = in_turn(Penalties({1.6, 0.5, 0.8}, Small::vocab_size), LogitBias({{3, 0.7}}, Small::vocab_size));
  const auto exact = exact_small_by([&](std::span<const index_t> text, std::vector<double>& x) {
    for (index_t t = 0; t < Small::vocab_size; ++t) {
      double& logit = x[static_cast<std::size_t>(t)];
      if (std::count(text.begin(), text.end(), t) > 0) logit = logit > 0 ? logit / 1.6 : logit * 1.6;
      const auto times = std::count(text.begin() + 2, text.end(), t);
      if (times > 0) logit -= 0.5 + 0.8 * static_cast<double>(times);
      if (t == 3) logit += 0.7;
      logit /= 0.8;
    }
    softmax(x);
    auto order = x;
    std::sort(order.rbegin(), order.rend());
    std::size_t kept = 0;
    for (double mass = 0; kept < 7 && mass < 0.93 && order[kept] >= 0.02 * order[0]; ++kept) mass += order[kept];
    double total = 0;
    for (double& p : x) total += p = p >= order[kept - 1] ? p : 0;
    for (double& p : x) p /= total;
  });
  Parameters<Eagle3Draft<Small>, float> random;
  random.initialize(2, 0.3);
  SpeculativeDecoder<Small, Eagle3Session<Eagle3Draft<Small>, float>> decoder(
      small_target(), std::array<index_t, 3>{0, 1, 3}, {}, {random.weights(), {0, 1, 3, 4, 6, 8, 11}}, 8, o);
  const double p = small_p(decoder, 0.05, exact, 8000);
  CHECK_MESSAGE(p > 0.01, "p = ", p);
}

TEST_CASE("greedy decoding with penalties equals plain decoding with them, and allocates nothing on its way") {
  const auto trained = load_trained();
  DecodeOptions o = decode_options(5);
  index_t first = 0, last = 0;
  const auto count = [&](const TextSoFar& text, auto) {
    if (text.size() == 64) first = allocations();
    last = allocations();
  };
  o.logit_processor = in_turn(Penalties({.repetition = 1.1, .frequency = 0.3}, Config::vocab_size), count);
  o.stop_strings = {"no such text"}, o.token_bytes = byte_of_token;
  PlainDecoder<Config, float> plain(*tiny().target, 160, o);
  Decoder decoder(*tiny().target, aux_layers, {}, {trained.parameters.weights(), target_ids(trained.vocabulary)}, 160,
                  o);
  index_t accepted = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto wanted = plain.generate(Cpu{1}, tiny().prompt(i)).tokens;
    CHECK(wanted != tiny().continuation(i));
    CHECK(last == first);
    const auto result = decoder.generate(Cpu{1}, tiny().prompt(i));
    CHECK(result.tokens == wanted);
    accepted += result.accepted;
  }
  CHECK(accepted > 30);
  // At a temperature, too: from the second round on, for the prompt's ends with an allocation.
  o.temperature = 0.7;
  o.truncation = {20, 0.95, 0.01};
  o.logit_processor = in_turn(Penalties({.presence = 0.3}, Config::vocab_size), [&](const TextSoFar& text, auto) {
    if (text.size() == 65) first = allocations();
    last = allocations();
  });
  Decoder drawn(*tiny().target, aux_layers, {}, {trained.parameters.weights(), target_ids(trained.vocabulary)}, 160, o);
  CHECK(drawn.generate(Cpu{1}, tiny().prompt(0)).tokens.size() == 96);
  CHECK(last == first);
}

TEST_CASE("a target of NaNs is an error that names the position, with and without a draft") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Parameters<K3Target<Small>, float> one, all;
  one.initialize(1, 0.4);
  one.mutable_weights().norm(0) = nan;
  std::fill_n(all.all().data(), all.all().size(), nan);
  const FrozenTarget<Small, float> targets[] = {FrozenTarget<Small, float>(one.weights()),
                                                FrozenTarget<Small, float>(all.weights())};
  Parameters<Eagle3Draft<Small>, float> random;
  random.initialize(2, 0.3);
  for (const int run : {0, 1, 2, 3}) {
    DecodeOptions o = decode_options(2, 4);
    o.temperature = run % 2;
    const auto& target = targets[run / 2];
    PlainDecoder<Small, float> plain(target, 8, o);
    SpeculativeDecoder<Small, Eagle3Session<Eagle3Draft<Small>, float>> decoder(
        target, std::array<index_t, 3>{0, 1, 3}, {}, {random.weights(), {0, 1, 3, 4, 6, 8, 11}}, 8, o);
    const auto message =
        "target: logits of position 2: found NaN among them or no finite largest one, wanted a finite largest one to "
        "choose by";
    CHECK_THROWS_WITH_AS(plain.generate(Cpu{1}, small_prompt), message, Error);
    CHECK_THROWS_WITH_AS(decoder.generate(Cpu{1}, small_prompt), message, Error);
  }
}

TEST_CASE("one row without a finite largest logit is an error where the text comes to it, and only there") {
  const auto trained = load_trained();
  for (const double temperature : {0.0, 1e-6, 0.7}) {
    for (const index_t position : {64, 66, 75, 76}) {
      DecodeOptions o = decode_options(5, 40);
      o.temperature = temperature;
      o.logit_processor = [&](const TextSoFar& text, auto logits) {
        using S = typename decltype(logits)::value_type;
        if (text.size() == position) logits[5] = std::numeric_limits<S>::quiet_NaN();
        if (text.size() == position + 1) std::fill(logits.begin(), logits.end(), std::numeric_limits<S>::infinity());
      };
      const auto run = [&](const DecodeOptions& options) {
        Decoder decoder(*tiny().target, aux_layers, {}, {trained.parameters.weights(), target_ids(trained.vocabulary)},
                        160, options);
        return decoder.generate(Cpu{1}, tiny().prompt(2));
      };
      CHECK_THROWS_WITH_AS(
          run(o), doctest::Contains(("target: logits of position " + std::to_string(position) + ":").c_str()), Error);
      // A text that ends before it needs nothing of it.
      o.max_new_tokens = position - 64;
      const auto ended = run(o);
      CHECK(static_cast<index_t>(ended.tokens.size()) == position - 64);
      // Drawn tokens are others when a block is shorter, as at the end of a text.
      if (position == 64 || temperature > 0.1) continue;
      o.max_new_tokens = 40;
      o.stop_token_ids = {ended.tokens.back()};
      CHECK(run(o).finish == FinishReason::stop_token);
    }
  }
}

TEST_CASE("a broken draft costs speed only") {
  DecodeOptions o = decode_options(3, 20);
  const std::vector<index_t> ids{0, 1, 3, 4, 6, 8, 11};
  for (const double temperature : {0.0, 1.0}) {
    o.temperature = temperature;
    PlainDecoder<Small, float> plain(small_target(), 30, o);
    const auto wanted = plain.generate(Cpu{1}, small_prompt).tokens;
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (const bool all : {true, false}) {
        Parameters<Eagle3Draft<Small>, float> broken;
        broken.initialize(2, 0.3);
        const auto w = broken.all();
        if (all) std::fill_n(w.data(), w.size(), value);
        broken.mutable_weights().lm_head.weight(2, 3) = value;
        SpeculativeDecoder<Small, Eagle3Session<Eagle3Draft<Small>, float>> decoder(
            small_target(), std::array<index_t, 3>{0, 1, 3}, {}, {broken.weights(), ids}, 30, o);
        const auto result = decoder.generate(Cpu{1}, small_prompt);
        // Nothing is proposed, so that drawn tokens are plain decoding's, too.
        if (all || value != value) CHECK(result.drafted == 0);
        if (result.drafted == 0 || temperature == 0) CHECK(result.tokens == wanted);
        CHECK(result.tokens.size() == 20);
      }
    }
  }
}

TEST_CASE("what is drafted and does not stay breaks nothing: a state that is no number, a processor that throws") {
  static constexpr index_t bad = 7;
  Parameters<K3Target<Small>, float> parameters;
  parameters.initialize(1, 0.4);
  auto w = parameters.mutable_weights();
  for (index_t j = 0; j < Small::hidden_size; ++j) w.embed_tokens(bad, j) = std::numeric_limits<float>::quiet_NaN();
  const FrozenTarget<Small, float> target(parameters.weights());
  Parameters<Eagle3Draft<Small>, float> random;
  random.initialize(2, 0.3);
  auto head = random.mutable_weights().lm_head.weight;
  std::fill_n(head.data(), head.size(), 0.0F);
  DecodeOptions o = decode_options(3, 20);
  const LogitBias ban({{bad, -std::numeric_limits<double>::infinity()}}, Small::vocab_size);
  const auto refuse = [](const TextSoFar& text, auto) {
    const auto generated = text.generated();
    if (std::count(generated.begin(), generated.end(), bad) > 0) throw Error("text", "7", "none of it");
  };
  for (const bool throws : {false, true}) {
    o.logit_processor = throws ? in_turn(ban, refuse) : LogitProcessor(ban);
    PlainDecoder<Small, float> plain(target, 30, o);
    // All that is drafted is the bad token: the first of those whose logits are all alike.
    SpeculativeDecoder<Small, Eagle3Session<Eagle3Draft<Small>, float>> decoder(
        target, std::array<index_t, 3>{0, 1, 3}, {}, {random.weights(), std::vector<index_t>{bad, 0, 1, 2, 3, 4, 5}},
        30, o);
    const auto result = decoder.generate(Cpu{1}, small_prompt);
    CHECK(result.tokens == plain.generate(Cpu{1}, small_prompt).tokens);
    CHECK(result.tokens.size() == 20);
    CHECK(result.drafted > 40);
  }
}

TEST_CASE("a chain is as long as the draft's training unrolled it, unless told otherwise") {
  Parameters<Draft, float> random;
  const auto chain = [&](std::optional<index_t> ttt_steps, std::optional<index_t> asked) {
    DecodeOptions o;
    o.chain = asked;
    return Decoder(*tiny().target, aux_layers, {.ttt_steps = ttt_steps}, {random.weights(), tokens_from(0, 64)}, 100, o)
        .chain();
  };
  CHECK(chain(2, {}) == 2);
  CHECK(chain(7, 3) == 3);
  CHECK(chain(40, {}) == 16);
  CHECK(chain({}, {}) == 5);
}

TEST_CASE("plain decoding at temperature 1: 20,000 texts have the target's distribution") {
  DecodeOptions o = decode_options(2, 4);
  o.temperature = 1;
  PlainDecoder<Small, float> decoder(small_target(), 8, o);
  const double p = small_p(decoder, 0);
  CHECK_MESSAGE(p > 0.01, "p = ", p);
}

TEST_CASE("EAGLE-3 on k3-tiny at temperature 1: 20,000 drafted tokens have the target's distribution") {
  const auto trained = load_trained();
  Session session(*tiny().target, {trained.parameters.weights(), target_ids(trained.vocabulary)}, {16, 16, 1, true});
  const double p = tiny_p(session, Session::taps(aux_layers, Config::num_hidden_layers, {}), 0.3);
  CHECK_MESSAGE(p > 0.01, "p = ", p);
}

TEST_CASE("a seed's tokens are the same for any threads and chunks; another seed's are others") {
  const auto trained = load_trained();
  const auto decode = [&](std::uint64_t seed, int threads, index_t chunk) {
    DecodeOptions o = decode_options(4, 60);
    o.temperature = 0.8;
    o.seed = seed;
    o.prefill_chunk = chunk;
    Decoder decoder(*tiny().target, aux_layers, {}, {trained.parameters.weights(), target_ids(trained.vocabulary)}, 160,
                    o);
    return decoder.generate(Cpu{threads}, tiny().prompt(7)).tokens;
  };
  const auto tokens = decode(3, 1, 64);
  CHECK(tokens.size() == 60);
  CHECK(decode(3, 1, 64) == tokens);
  CHECK(decode(3, 2, 64) == tokens);
  CHECK(decode(3, 1, 5) == tokens);
  CHECK(decode(4, 1, 64) != tokens);
}

TEST_CASE("at a temperature near 0 the tokens are the greedy ones") {
  const auto trained = load_trained();
  DecodeOptions o = decode_options(4);
  o.temperature = 1e-6;
  Decoder cold(*tiny().target, aux_layers, {}, {trained.parameters.weights(), target_ids(trained.vocabulary)}, 160, o);
  PlainDecoder<Config, float> plain(*tiny().target, 160, decode_options(4)), cold_plain(*tiny().target, 160, o);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto wanted = plain.generate(Cpu{}, tiny().prompt(i)).tokens;
    CHECK(cold.generate(Cpu{}, tiny().prompt(i)).tokens == wanted);
    CHECK(cold_plain.generate(Cpu{}, tiny().prompt(i)).tokens == wanted);
  }
}

TEST_CASE("temperatures and confidences that are none are refused") {
  Parameters<Draft, float> random;
  const auto with = [&](double temperature, double min_confidence) {
    DecodeOptions o = decode_options(3);
    o.temperature = temperature;
    o.min_confidence = min_confidence;
    Decoder(*tiny().target, aux_layers, {}, {random.weights(), tokens_from(0, 64)}, 100, o);
  };
  const std::string temperature = "temperature, where it is not 0: found ";
  CHECK_THROWS_WITH_AS(with(-1, 0), (temperature + "-1, wanted 1e-06 to 1000000").c_str(), Error);
  CHECK_THROWS_WITH_AS(with(std::numeric_limits<double>::quiet_NaN(), 0),
                       (temperature + "nan, wanted 1e-06 to 1000000").c_str(), Error);
  CHECK_THROWS_WITH_AS(with(std::numeric_limits<double>::infinity(), 0),
                       (temperature + "inf, wanted 1e-06 to 1000000").c_str(), Error);
  CHECK_THROWS_WITH_AS(with(0, -0.5), "min_confidence: found -0.5, wanted 0 to 1", Error);
  CHECK_THROWS_WITH_AS(with(0, 1.5), "min_confidence: found 1.5, wanted 0 to 1", Error);
  CHECK_THROWS_WITH_AS(with(0, 0.5), "min_confidence: found 0.5, wanted 0: this draft has no confidence head", Error);
}

TEST_CASE("texts decoded together with EAGLE-3 get what each gets alone") {
  const auto trained = load_trained();
  check_several("EAGLE-3", [&](const DecodeOptions& o, index_t texts) {
    return Decoder(*tiny().target, aux_layers, {}, {trained.parameters.weights(), target_ids(trained.vocabulary)}, 160,
                   o, texts);
  });
}

TEST_CASE("texts decoded together without a draft get what plain decoding gives each") {
  using Plain = SpeculativeDecoder<Config, NoDraft<Config, float>>;
  check_several("no draft", [&](const DecodeOptions& o, index_t texts) {
    return Plain(*tiny().target, {}, {}, {}, 160, o, texts);
  });
  for (const double temperature : {0.0, 0.8}) {
    DecodeOptions o;
    o.max_new_tokens = 20;
    o.temperature = temperature;
    Plain several(*tiny().target, {}, {}, {}, 160, o, 2);
    PlainDecoder<Config, float> plain(*tiny().target, 160, o);
    std::vector<std::vector<index_t>> prompts;
    for (std::size_t i = 0; i < 3; ++i) prompts.emplace_back(tiny().prompt(i).begin(), tiny().prompt(i).end());
    const auto results = several.generate_all(Cpu{1}, prompts, std::array<std::uint64_t, 3>{7, 8, 9});
    for (std::size_t i = 0; i < 3; ++i) {
      plain.reseed(7 + i);
      CHECK(results[i].tokens == plain.generate(Cpu{1}, prompts[i]).tokens);
    }
  }
}

TEST_CASE("texts that are not there, too many, and prompts that are none are refused; the others go on") {
  using Plain = SpeculativeDecoder<Config, NoDraft<Config, float>>;
  DecodeOptions o;
  o.max_new_tokens = 8;
  CHECK_THROWS_WITH_AS(Plain(*tiny().target, {}, {}, {}, 100, o, 0), "texts: found 0, wanted 1 to 65536", Error);
  Plain decoder(*tiny().target, {}, {}, {}, 100, o, 2);
  const auto wanted = decoder.generate(Cpu{1}, tiny().prompt(0)).tokens;
  const char* none = "text: found 1, wanted one that was added and not taken";
  const index_t a = decoder.add(tiny().prompt(0));
  CHECK(a == 0);
  CHECK_THROWS_WITH_AS(decoder.take(1), none, Error);
  CHECK_THROWS_WITH_AS((void)decoder.is_finished(1), none, Error);
  CHECK_THROWS_WITH_AS(decoder.add({}), "prompt: found no token, wanted at least one", Error);
  CHECK_THROWS_WITH_AS(decoder.add(std::vector<index_t>{5, Config::vocab_size}),
                       "token id at row 1: found 260, wanted 0 to 259", Error);
  CHECK(decoder.add(tiny().prompt(1)) == 1);
  CHECK_FALSE(decoder.has_room());
  CHECK_THROWS_WITH_AS(decoder.add(tiny().prompt(2)), "texts decoded at a time: found 3, wanted at most 2", Error);
  CHECK_THROWS_WITH_AS(decoder.generate_all(Cpu{1}, std::vector<std::vector<index_t>>{{5}}),
                       "texts decoded at a time: found 3, wanted at most 2", Error);
  while (!decoder.is_finished(0)) decoder.step(Cpu{1});
  CHECK(decoder.take(0).tokens == wanted);
  const std::vector<std::vector<index_t>> prompts(2, std::vector<index_t>{5});
  CHECK_THROWS_WITH_AS(decoder.generate_all(Cpu{1}, prompts, std::array<std::uint64_t, 1>{7}),
                       "seeds: found 1, wanted 2, as many as prompts", Error);
}

TEST_CASE("what one text throws ends it alone") {
  DecodeOptions o;
  o.max_new_tokens = 12;
  o.logit_processor = [](const TextSoFar& text, auto) {
    if (text.prompt == 5 && text.generated().size() >= 4) throw Error("a text", "its fifth token", "no more than four");
  };
  const auto trained = load_trained();
  Decoder decoder(*tiny().target, aux_layers, {}, {trained.parameters.weights(), target_ids(trained.vocabulary)}, 160,
                  o, 3);
  const auto wanted = decoder.generate(Cpu{1}, tiny().prompt(0)).tokens;
  const index_t bad = decoder.add(tiny().prompt(1).first(5)), good = decoder.add(tiny().prompt(0));
  while (!decoder.is_finished(good)) decoder.step(Cpu{1});
  CHECK(decoder.take(good).tokens == wanted);
  CHECK(decoder.is_finished(bad));
  CHECK_THROWS_WITH_AS(decoder.take(bad), "a text: found its fifth token, wanted no more than four", Error);
  CHECK_THROWS_WITH_AS(decoder.take(bad), "text: found 0, wanted one that was added and not taken", Error);
  CHECK(decoder.generate(Cpu{1}, tiny().prompt(0)).tokens == wanted);
  std::vector<std::vector<index_t>> prompts(3, std::vector<index_t>(7, 65));
  prompts[1].resize(5);
  CHECK_THROWS_AS(decoder.generate_all(Cpu{1}, prompts), Error);
  for (int i = 0; i < 3; ++i) decoder.add(tiny().prompt(0));
}

TEST_CASE("a round with EAGLE-3 allocates nothing") {
  const auto trained = load_trained();
  Session session(*tiny().target, {trained.parameters.weights(), target_ids(trained.vocabulary)}, {40, 8, 3, true});
  const std::vector<float> aux(8 * 384, 0.1F);
  const std::vector<index_t> ids(8, 7);
  const auto round = [&](index_t n, const Sampling& sampling) {
    session.append(Cpu{1}, Matrix<const float>(aux.data(), n, 384), std::span(ids).first(static_cast<std::size_t>(n)));
    return session.draft(Cpu{1}, 3, sampling).size();
  };
  round(8, {});
  const auto before = allocations();
  round(3, {1, 5}), round(1, {}), round(8, {1, 6});
  CHECK(allocations() == before);
  Session greedy(*tiny().target, {trained.parameters.weights(), target_ids(trained.vocabulary)}, {40, 8, 3});
  CHECK_THROWS_WITH_AS(greedy.draft(Cpu{}, 1, {0.5, 0}), "draft: temperature: found 0.5, wanted 0, as planned", Error);
}

TEST_CASE("golden: 64 tokens without a draft, with a trained EAGLE-3 and with a random one") {
  check_golden_text("no draft",
                    [](const DecodeOptions& o) { return PlainDecoder<Config, float>(*tiny().target, 160, o); });
  const auto trained = load_trained();
  const auto ids = target_ids(trained.vocabulary);
  Parameters<Draft, float> random;
  random.initialize(3, 0.3);
  for (const bool is_trained : {true, false}) {
    check_golden_text(is_trained ? "trained" : "random", [&](const DecodeOptions& o) {
      return Decoder(*tiny().target, aux_layers, {}, {(is_trained ? trained.parameters : random).weights(), ids}, 160,
                     o);
    });
  }
}
