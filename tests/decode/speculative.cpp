// Speculative decoding gives plain greedy decoding's tokens, whatever the draft, the chain or the thread count.
#include <doctest/doctest.h>

#include <filesystem>
#include <memory>

#include <k3spec/decode/speculative.hpp>
#include <k3spec/drafts/draft_checkpoint.hpp>
#include <k3spec/io/safetensors.hpp>
#include <k3spec/target/load.hpp>

using namespace k3spec;

namespace {

using Config = configs::KimiK3Tiny;
using Draft = Eagle3Draft<Config>;
const std::filesystem::path root = K3SPEC_SOURCE_DIR;
constexpr std::array<index_t, 3> aux_layers{1, 3, 4};

struct Tiny {
  Parameters<K3Target<Config>, float> parameters;
  std::unique_ptr<FrozenTarget<Config, float>> target;
  std::vector<index_t> prompts, greedy;  // [32, 64], [32, 96]
  std::vector<double> gaps;

  Tiny() {
    load_target<Config>(root / "examples/data/k3-tiny", parameters);
    target = std::make_unique<FrozenTarget<Config, float>>(parameters.weights());
    const auto file = io::SafetensorsFile::open(root / "examples/data/k3-tiny/reference.safetensors");
    for (const auto x : file.read<std::int64_t>("input.prompts")) prompts.push_back(x);
    for (const auto x : file.read<std::int64_t>("output.greedy")) greedy.push_back(x);
    gaps = file.read<double>("output.greedy_gap");
  }
  std::span<const index_t> prompt(std::size_t i) const { return std::span(prompts).subspan(i * 64, 64); }
  std::vector<index_t> continuation(std::size_t i) const {
    return {greedy.begin() + static_cast<std::ptrdiff_t>(i * 96),
            greedy.begin() + static_cast<std::ptrdiff_t>(i * 96 + 96)};
  }
};

const Tiny& tiny() {
  static const Tiny instance;
  return instance;
}

/// A draft that the main job trained; most of what it says is right.
LoadedDraft<Draft, float> load_trained() { return load_draft<Draft, float>(root / "tests/data/drafts/eagle3_k3_tiny"); }

std::vector<index_t> target_ids(const DraftVocabulary& v) {
  return {v.target_ids().data(), v.target_ids().data() + v.target_ids().size()};
}

DecodeOptions options(index_t chain, index_t tokens = 96) {
  DecodeOptions o;
  o.max_new_tokens = tokens;
  o.chain = chain;
  return o;
}

using Decoder = SpeculativeDecoder<Config, Draft, float>;

}  // namespace

TEST_CASE("plain greedy decoding gives the stored continuations") {
  GreedyDecoder<Config, float> decoder(*tiny().target, 160, options(1));
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
  GreedyDecoder<Config, float> plain(*tiny().target, 160, options(1));
  std::vector<std::vector<index_t>> wanted;
  for (std::size_t i = 0; i < 32; ++i) wanted.push_back(plain.generate(Cpu{}, tiny().prompt(i)).tokens);

  const auto trained = load_trained();
  const auto ids = target_ids(trained.vocabulary);
  Parameters<Draft, float> random;
  random.initialize(3);
  for (const bool is_trained : {true, false}) {
    for (index_t chain = 1; chain <= 7; ++chain) {
      Decoder decoder(*tiny().target, aux_layers, (is_trained ? trained.parameters : random).weights(), ids, 160,
                      options(chain));
      index_t forwards = 0, tokens = 0;
      for (std::size_t i = 0; i < 32; ++i) {
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
    DecodeOptions o = options(5);
    o.eos_token_id = tiny().continuation(i)[41];
    GreedyDecoder<Config, float> plain(*tiny().target, 160, o);
    Decoder decoder(*tiny().target, aux_layers, trained.parameters.weights(), ids, 160, o);
    const auto wanted = plain.generate(Cpu{}, tiny().prompt(i)).tokens;
    CHECK(wanted.back() == *o.eos_token_id);
    const auto result = decoder.generate(Cpu{}, tiny().prompt(i));
    CHECK(result.tokens == wanted);
    // Every forward adds its accepted tokens and one more, unless the end comes first.
    if (result.accepted + result.target_forwards + 1 > static_cast<index_t>(result.tokens.size())) ++inside;
  }
  CHECK(inside > 0);
}

TEST_CASE("short prompts, prefill chunks and token limits change nothing") {
  const auto trained = load_trained();
  const auto ids = target_ids(trained.vocabulary);
  for (const index_t tokens : {0, 1, 2, 7}) {
    for (const index_t chunk : {1, 3, 64}) {
      DecodeOptions o = options(3, tokens);
      o.prefill_chunk = chunk;
      GreedyDecoder<Config, float> plain(*tiny().target, 160, o);
      Decoder decoder(*tiny().target, aux_layers, trained.parameters.weights(), ids, 160, o);
      for (const std::size_t length : {1, 2, 33}) {
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
  const std::vector<index_t> ids(64, 0);
  const auto make = [&](index_t chain, std::span<const index_t> layers) {
    return Decoder(*tiny().target, layers, random.weights(), ids, 100, options(chain));
  };
  CHECK_THROWS_WITH_AS(make(0, aux_layers), "chain: found 0, wanted 1 to 16", Error);
  CHECK_THROWS_WITH_AS(make(17, aux_layers), "chain: found 17, wanted 1 to 16", Error);
  CHECK_THROWS_WITH_AS(make(3, std::span(aux_layers).first(2)), "aux layers: found 2, wanted 3", Error);
  auto decoder = make(3, aux_layers);
  CHECK_THROWS_WITH_AS(decoder.generate(Cpu{}, {}), "prompt: found no token, wanted at least one", Error);
  CHECK_THROWS_WITH_AS(decoder.generate(Cpu{}, tiny().prompt(0)),
                       "max_new_tokens: found 96, wanted 0 to 36 after this prompt", Error);

  const auto with = [&](DecodeOptions o, index_t capacity) {
    GreedyDecoder<Config, float> plain(*tiny().target, capacity, o);
    return Decoder(*tiny().target, aux_layers, random.weights(), ids, capacity, o);
  };
  DecodeOptions o = options(3);
  o.prefill_chunk = 0;
  CHECK_THROWS_WITH_AS(with(o, 100), "prefill_chunk: found 0, wanted 1 to 4294967296", Error);
  CHECK_THROWS_WITH_AS(with(options(3), index_t{1} << 61),
                       "capacity: found 2305843009213693952, wanted 1 to 4294967296", Error);
  CHECK_THROWS_WITH_AS(with(options(1000000000), 100), "chain: found 1000000000, wanted 1 to 16", Error);
  CHECK_THROWS_WITH_AS(with(options(3, -1), 100), "max_new_tokens: found -1, wanted 0 to 4294967296", Error);
}

TEST_CASE("a draft session refuses what was not planned for") {
  Parameters<Draft, float> random;
  Eagle3Session<Draft, float> session(random.weights(), std::vector<index_t>(64, 0), 10, 4, 3);
  const std::vector<float> aux(5 * 384);
  const std::vector<index_t> ids(5, 7);
  const auto append = [&](index_t rows, index_t columns, std::size_t n) {
    session.append(Cpu{}, Matrix<const float>(aux.data(), rows, columns), std::span(ids).first(n));
  };
  CHECK_THROWS_WITH_AS(session.draft(Cpu{}, 1), "draft cache: positions: found 0, wanted at least 1", Error);
  CHECK_THROWS_WITH_AS(append(5, 384, 5), "draft cache: rows: found 5, wanted 1 to 4", Error);
  CHECK_THROWS_WITH_AS(append(0, 384, 0), "draft cache: rows: found 0, wanted 1 to 4", Error);
  CHECK_THROWS_WITH_AS(append(2, 380, 2), "draft cache: aux: found 2 x 380, wanted 2 x 384, packed", Error);
  append(4, 384, 4);
  append(4, 384, 4);
  CHECK_THROWS_WITH_AS(append(4, 384, 4), "draft cache: positions: found 12, wanted at most 10", Error);
  CHECK_THROWS_WITH_AS(session.draft(Cpu{}, 4), "chain: found 4, wanted 0 to 3", Error);
  CHECK(session.draft(Cpu{}, 3).size() == 3);
}
