// Decoding with DFlash and DSpark drafts gives the target's own tokens, and at a temperature its distribution.
#include <doctest/doctest.h>

#include <k3spec/io/draft_checkpoint.hpp>

#include "tests/decode/block_drafts.hpp"
#include "tests/decode/several.hpp"

using namespace k3spec;
using namespace k3spec::test;

namespace {

template <class Draft>
using TinyDecoder = SpeculativeDecoder<Config, BlockSession<Draft, float>>;

const std::vector<std::vector<index_t>>& plain_tokens() {
  static const auto tokens = [] {
    PlainDecoder<Config, float> plain(*tiny().target, 160, decode_options(1));
    std::vector<std::vector<index_t>> all;
    for (std::size_t i = 0; i < 32; ++i) all.push_back(plain.generate(Cpu{}, tiny().prompt(i)).tokens);
    return all;
  }();
  return tokens;
}

/// Tokens per forward over the stored prompts, every token compared.
template <class Draft>
double check_lossless(const typename Draft::template Weights<const float>& weights, std::span<const index_t> layers,
                      const DecodeOptions& o, std::size_t prompts = 32, int threads = 1) {
  TinyDecoder<Draft> decoder(*tiny().target, layers, {}, {weights}, 160, o);
  index_t forwards = 0, tokens = 0;
  for (std::size_t i = 0; i < prompts; ++i) {
    const auto result = decoder.generate(Cpu{threads}, tiny().prompt(i));
    const auto& wanted = plain_tokens()[i];
    CHECK(result.tokens == std::vector<index_t>(wanted.begin(), wanted.begin() + o.max_new_tokens));
    CHECK(result.drafted >= result.accepted);
    CHECK(result.accepted + result.target_forwards + 1 == static_cast<index_t>(result.tokens.size()));
    forwards += result.target_forwards;
    tokens += static_cast<index_t>(result.tokens.size()) - 1;
  }
  return static_cast<double>(tokens) / static_cast<double>(forwards);
}

template <class Draft>
constexpr index_t chain_of(index_t block_size) {
  return Draft::kind == DraftKind::dflash ? block_size - 1 : block_size;
}

/// Drafts that training wrote.
template <class Draft, class F>
void with_trained(const char* name, F&& f) {
  f(load_draft<Draft, float>(root / "tests/data/drafts" / name));
}
template <class F>
void for_each_trained(F&& f) {
  with_trained<DFlashDraft<configs::KimiK3TinyDFlash>>("dflash_k3_tiny", f);
  with_trained<DSparkDraft<configs::KimiK3TinyDSpark>>("dspark_k3_tiny", f);
}
template <class T>
struct DraftOf;
template <class Draft, class T>
struct DraftOf<LoadedDraft<Draft, T>> {
  using type = Draft;
};

template <class Draft>
double small_p_of(std::uint64_t seed, double min_confidence, double least_accepted,
                  Verification rule = Verification::block) {
  Parameters<Draft, float> random;
  random.initialize(seed, 0.3);
  DecodeOptions o = decode_options(2, 4);
  o.temperature = 1;
  o.min_confidence = min_confidence;
  o.verification = rule;
  SpeculativeDecoder<Small, BlockSession<Draft, float>> decoder(small_target(), small_layers, {}, {random.weights()}, 8,
                                                                o);
  return small_p(decoder, least_accepted);
}

}  // namespace

TEST_CASE("random block drafts: greedy decoding equals plain decoding, blocks of 2, 5, 8, 16") {
  for_each_draft<Config>([](const char* name, auto draft) {
    using Draft = typename decltype(draft)::type;
    Parameters<Draft, float> random;
    random.initialize(5);
    for (const index_t block_size : {2, 5, 8, 16}) {
      const double per_forward =
          check_lossless<Draft>(random.weights(), tiny_layers, decode_options(chain_of<Draft>(block_size), 16), 8);
      CHECK_MESSAGE(per_forward < 1.3, name, ": ", per_forward);
    }
  });
}

TEST_CASE("trained block drafts: greedy decoding equals plain decoding on all prompts, blocks of 2, 5, 8, 16") {
  for_each_trained([](const auto& trained) {
    using Draft = typename DraftOf<std::remove_cvref_t<decltype(trained)>>::type;
    for (const index_t block_size : {2, 5, 8, 16}) {
      const double per_forward =
          check_lossless<Draft>(trained.parameters.weights(), trained.layer_ids,
                                decode_options(chain_of<Draft>(block_size)), 32, block_size == 5 ? 2 : 1);
      MESSAGE("block size ", block_size, ": ", per_forward, " tokens per forward");
      CHECK(per_forward > 1.5);
      // What six minutes of training must reach with the block it was trained for.
      if (block_size == Draft::block_size) CHECK(per_forward >= (Draft::kind == DraftKind::dflash ? 1.6 : 2.3));
    }
  });
}

TEST_CASE("a broken block draft costs speed only") {
  for_each_trained([](const auto& trained) {
    using Draft = typename DraftOf<std::remove_cvref_t<decltype(trained)>>::type;
    Parameters<Draft, float> broken;
    std::fill_n(broken.all().data(), broken.all().size(), std::numeric_limits<float>::quiet_NaN());
    for (const double temperature : {0.0, 1.0}) {
      DecodeOptions o = decode_options(4, 12);
      o.temperature = temperature;
      PlainDecoder<Config, float> plain(*tiny().target, 160, o);
      TinyDecoder<Draft> decoder(*tiny().target, tiny_layers, {}, {broken.weights()}, 160, o);
      const auto result = decoder.generate(Cpu{1}, tiny().prompt(3));
      CHECK(result.drafted == 0);
      CHECK(result.tokens == plain.generate(Cpu{1}, tiny().prompt(3)).tokens);
    }
  });
}

TEST_CASE("a draft's own chain is what its block size gives") {
  DecodeOptions o;
  Parameters<DFlashDraft<configs::KimiK3TinyDFlash>, float> flash;
  Parameters<DSparkDraft<configs::KimiK3TinyDSpark>, float> spark;
  const TinyDecoder<DFlashDraft<configs::KimiK3TinyDFlash>> a(*tiny().target, tiny_layers, {}, {flash.weights()}, 160,
                                                              o);
  const TinyDecoder<DSparkDraft<configs::KimiK3TinyDSpark>> b(*tiny().target, tiny_layers, {}, {spark.weights()}, 160,
                                                              o);
  CHECK(a.chain() == 7);
  CHECK(b.chain() == 5);
}

TEST_CASE("block drafts: short prompts, prefill chunks, token limits and the end of a sequence change nothing") {
  const auto check = [](const char* name, const auto& make) {
    for (const index_t tokens : {0, 1, 2, 7}) {
      for (const index_t chunk : {1, 3, 64}) {
        DecodeOptions o = decode_options(4, tokens);
        o.prefill_chunk = chunk;
        PlainDecoder<Config, float> plain(*tiny().target, 160, o);
        auto decoder = make(o);
        for (const std::size_t length : {1U, 2U, 33U}) {
          const auto prompt = tiny().prompt(4).first(length);
          const auto wanted = plain.generate(Cpu{}, prompt).tokens;
          CHECK(static_cast<index_t>(wanted.size()) == tokens);
          CHECK_MESSAGE(decoder.generate(Cpu{}, prompt).tokens == wanted, name);
        }
      }
    }
    for (std::size_t i = 0; i < 3; ++i) {
      DecodeOptions o = decode_options(5);
      o.stop_token_ids = {tiny().continuation(i)[20]};
      PlainDecoder<Config, float> plain(*tiny().target, 160, o);
      const auto wanted = plain.generate(Cpu{}, tiny().prompt(i)).tokens;
      CHECK(wanted.back() == o.stop_token_ids[0]);
      CHECK_MESSAGE(make(o).generate(Cpu{}, tiny().prompt(i)).tokens == wanted, name);
    }
  };
  for_each_draft<Config>([&](const char* name, auto draft) {
    using Draft = typename decltype(draft)::type;
    Parameters<Draft, float> random;
    random.initialize(6, 0.05);
    check(name, [&](const DecodeOptions& o) {
      return TinyDecoder<Draft>(*tiny().target, tiny_layers, {}, {random.weights()}, 160, o);
    });
  });
  for_each_trained([&](const auto& trained) {
    using Draft = typename DraftOf<std::remove_cvref_t<decltype(trained)>>::type;
    check("trained", [&](const DecodeOptions& o) {
      return TinyDecoder<Draft>(*tiny().target, trained.layer_ids, trained.conventions, {trained.parameters.weights()},
                                160, o);
    });
  });
}

TEST_CASE("DSpark stays lossless whatever confidence it asks for, and drafts less the more that is") {
  using Draft = DSparkDraft<DSparkOf<Config>>;
  const auto check = [](const auto& weights, std::span<const index_t> layers, auto draft) {
    using Kind = typename decltype(draft)::type;
    double last = 100;
    for (const double least : {0.05, 0.5, 0.999}) {
      DecodeOptions o = decode_options(5, 32);
      o.min_confidence = least;
      const double per_forward = check_lossless<Kind>(weights, layers, o, 8);
      CHECK(per_forward <= last);
      last = per_forward;
    }
    CHECK(last == 1);  // so sure it never is: nothing is drafted
  };
  Parameters<Draft, float> random;
  random.initialize(5, 0.1);
  check(random.weights(), tiny_layers, std::type_identity<Draft>{});
  using Trained = DSparkDraft<configs::KimiK3TinyDSpark>;
  with_trained<Trained>("dspark_k3_tiny", [&](const auto& trained) {
    check(trained.parameters.weights(), trained.layer_ids, std::type_identity<Trained>{});
  });
}

TEST_CASE("block drafts at temperature 1: 20,000 texts have the target's distribution") {
  const auto check = [](const char* name, double p) { CHECK_MESSAGE(p > 0.01, name, ": p = ", p); };
  check("DFlash", small_p_of<DFlashDraft<DFlashOf<Small>>>(2, 0, 0.05));
  check("vanilla", small_p_of<DSparkDraft<DSparkOf<Small>>>(2, 0, 0.05));
  check("gated", small_p_of<DSparkDraft<DSparkOf<Small, MarkovHeadType::gated>>>(2, 0, 0.05));
  check("rnn", small_p_of<DSparkDraft<DSparkOf<Small, MarkovHeadType::rnn>>>(2, 0, 0.05));
  // Blocks that end early, where the draft is in doubt.
  check("min_confidence 0.3", small_p_of<DSparkDraft<DSparkOf<Small>>>(2, 0.3, 0.05));
  check("by token", small_p_of<DSparkDraft<DSparkOf<Small>>>(2, 0.3, 0.05, Verification::token));
}

TEST_CASE("block drafts on k3-tiny at temperature 1: 20,000 drafted tokens have the target's distribution") {
  const auto check = [](const char* name, auto draft, const auto& weights, std::span<const index_t> layers,
                        double least_accepted) {
    using Session = BlockSession<typename decltype(draft)::type, float>;
    Session session(*tiny().target, {weights}, {16, 16, 1, true});
    const double p = tiny_p(session, Session::taps(layers, Config::num_hidden_layers, {}), least_accepted);
    CHECK_MESSAGE(p > 0.01, name, ": p = ", p);
  };
  Parameters<DFlashDraft<DFlashOf<Config>>, float> flash;
  Parameters<DSparkDraft<DSparkOf<Config>>, float> spark;
  flash.initialize(8), spark.initialize(8);
  check("random DFlash", std::type_identity<DFlashDraft<DFlashOf<Config>>>{}, flash.weights(), tiny_layers, 0.001);
  check("random DSpark", std::type_identity<DSparkDraft<DSparkOf<Config>>>{}, spark.weights(), tiny_layers, 0.001);
  for_each_trained([&](const auto& trained) {
    using Draft = typename DraftOf<std::remove_cvref_t<decltype(trained)>>::type;
    check("trained", std::type_identity<Draft>{}, trained.parameters.weights(), trained.layer_ids, 0.1);
  });
}

TEST_CASE("block drafts: a seed's tokens are the same for any threads and chunks; another seed's are others") {
  for_each_draft<Config>([](const char* name, auto draft) {
    using Draft = typename decltype(draft)::type;
    Parameters<Draft, float> random;
    random.initialize(5);
    const auto decode = [&](std::uint64_t seed, int threads, index_t chunk) {
      DecodeOptions o = decode_options(4, 30);
      o.temperature = 0.8;
      o.seed = seed;
      o.prefill_chunk = chunk;
      TinyDecoder<Draft> decoder(*tiny().target, tiny_layers, {}, {random.weights()}, 160, o);
      return decoder.generate(Cpu{threads}, tiny().prompt(7)).tokens;
    };
    const auto tokens = decode(3, 1, 64);
    CHECK(tokens.size() == 30);
    CHECK_MESSAGE(decode(3, 2, 5) == tokens, name);
    CHECK_MESSAGE(decode(4, 1, 64) != tokens, name);
  });
}

TEST_CASE("texts decoded together with block drafts get what each gets alone") {
  for_each_trained([](const auto& trained) {
    using Draft = typename DraftOf<std::remove_cvref_t<decltype(trained)>>::type;
    constexpr bool spark = Draft::kind == DraftKind::dspark;
    check_several(
        spark ? "DSpark" : "DFlash",
        [&](const DecodeOptions& o, index_t texts) {
          return TinyDecoder<Draft>(*tiny().target, trained.layer_ids, trained.conventions,
                                    {trained.parameters.weights()}, 160, o, texts);
        },
        spark ? 0.3 : 0);
  });
  // States that pass from slot to slot.
  using Draft = DSparkDraft<DSparkOf<Config, MarkovHeadType::rnn>>;
  Parameters<Draft, float> random;
  random.initialize(5);
  check_several("DSpark, rnn", DecodeOptions{}, [&](const DecodeOptions& o, index_t texts) {
    return TinyDecoder<Draft>(*tiny().target, tiny_layers, {}, {random.weights()}, 160, o, texts);
  });
}

TEST_CASE("golden: 64 tokens with block drafts of every kind") {
  for_each_draft<Config>([](const char* name, auto draft) {
    using Draft = typename decltype(draft)::type;
    Parameters<Draft, float> random;
    random.initialize(5, 0.3);
    check_golden_text(name, [&](const DecodeOptions& o) {
      return TinyDecoder<Draft>(*tiny().target, tiny_layers, {}, {random.weights()}, 160, o);
    });
  });
  for_each_trained([](const auto& trained) {
    using Draft = typename DraftOf<std::remove_cvref_t<decltype(trained)>>::type;
    check_golden_text(Draft::kind == DraftKind::dspark ? "trained DSpark" : "trained DFlash", [&](DecodeOptions o) {
      o.min_confidence = Draft::kind == DraftKind::dspark ? 0.2 : 0;
      return TinyDecoder<Draft>(*tiny().target, trained.layer_ids, trained.conventions, {trained.parameters.weights()},
                                160, o);
    });
  });
}
