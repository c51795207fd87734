// Decoding with a target that is none of the library's, and with a sampler that is not.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <tests/refusals/models.hpp>
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/no_draft.hpp>
#include <k3spec/decode/speculative.hpp>

using namespace k3spec;

namespace {

constexpr std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

/// A recurrent model: h' = tanh(h / 2 turned by one place + e(token)), logits = Σ h u(token).
struct Recurrent {
  static constexpr index_t hidden = 8, vocabulary = 23;
  index_t broken = -1;  ///< a token after which logits are NaN

  static float weight(std::uint64_t stream, index_t token, index_t i) {
    return static_cast<float>(Philox(3, stream).normal(static_cast<std::uint64_t>(token * hidden + i)));
  }
  static void step(const float* h, index_t token, float* out) {
    for (index_t i = 0; i < hidden; ++i) out[i] = std::tanh(h[(i + 1) % hidden] / 2 + weight(0, token, i));
  }
  void logits(const float* h, index_t newest, float* out) const {
    for (index_t t = 0; t < vocabulary; ++t) {
      out[t] = newest == broken ? std::numeric_limits<float>::quiet_NaN() : 0;
      for (index_t i = 0; i < hidden; ++i) out[t] += h[i] * weight(1, t, i);
    }
  }
};

/// Keeps the state after every token of a sequence; a layer's tap is it, turned by as many places.
class RecurrentEngine {
 public:
  using value_type = float;
  using Target = Recurrent;
  static constexpr index_t hidden = Recurrent::hidden, vocabulary = Recurrent::vocabulary, num_hidden_layers = 4;
  static std::size_t bytes(index_t, const TargetSessionSize&) { return 0; }

  RecurrentEngine(const Recurrent& model, const std::vector<Tap>& taps, const TargetSessionSize& size, const Cpu& = {})
      : model_(model),
        taps_(taps),
        size_(size),
        ends_(at(size.sequences)),
        counted_(ends_.size()),
        states_(at(size.sequences * (size.capacity + 1) * hidden)),
        tapped_(at(size.rows * static_cast<index_t>(taps.size()) * hidden)),
        logits_(at(size.choices * vocabulary)) {}

  void reset(index_t b) { ends_[at(b)] = 0; }
  void accept(index_t b, index_t n) {
    REQUIRE(n <= counted_[at(b)]);
    REQUIRE(counted_[at(b)] - n <= size_.rollback);
    ends_[at(b)] -= counted_[at(b)] - n;
    counted_[at(b)] = n;
  }
  void forward(const Cpu&, std::span<const index_t> ids, std::span<const index_t> counts,
               std::span<const index_t> choices) {
    require_forward(ids, counts, choices, size_);
    choices_ = 0, ran_ = static_cast<index_t>(ids.size());
    std::size_t row = 0;
    for (index_t b = 0; b < size_.sequences; ++b) {
      if (counts[at(b)] > 0) counted_[at(b)] = counts[at(b)];
      for (index_t i = 0; i < counts[at(b)]; ++i, ++row) {
        REQUIRE(ends_[at(b)] < size_.capacity);
        const float* before = state(b, ends_[at(b)]);
        Recurrent::step(before, ids[row], state(b, ++ends_[at(b)]));
        const float* h = state(b, ends_[at(b)]);
        for (std::size_t t = 0; t < taps_.size(); ++t) {
          for (std::size_t j = 0; j < at(hidden); ++j)
            tapped_[(row * taps_.size() + t) * at(hidden) + j] = h[(j + at(taps_[t].layer)) % at(hidden)];
        }
        if (i >= counts[at(b)] - choices[at(b)]) model_.logits(h, ids[row], &logits_[at(choices_++ * vocabulary)]);
      }
    }
  }
  Matrix<float> logits() { return Matrix<float>(logits_.data(), choices_, vocabulary); }
  Matrix<const float> tapped(index_t n) const {
    REQUIRE(n <= ran_);
    return Matrix<const float>(tapped_.data(), n, static_cast<index_t>(taps_.size()) * hidden);
  }

 private:
  float* state(index_t b, index_t t) { return &states_[at((b * (size_.capacity + 1) + t) * hidden)]; }

  const Recurrent& model_;
  std::vector<Tap> taps_;
  TargetSessionSize size_;
  std::vector<index_t> ends_, counted_;
  std::vector<float> states_, tapped_, logits_;
  index_t choices_ = 0, ran_ = 0;
};
static_assert(TargetEngine<RecurrentEngine>);
static_assert(TargetEngine<TargetSession<refusals::Target, float>>);
static_assert(!TargetEngine<refusals::Target>);

using Draft = Eagle3Draft<refusals::Eagle3>;
using Session = Eagle3Session<Draft, float>;
using Decoder = SpeculativeDecoder<RecurrentEngine, Session>;

/// A draft of random weights that says what a sixth of the vocabulary is for.
Session::Source draft(std::uint64_t seed) {
  static Parameters<Draft, float> random;
  random.initialize(seed, 0.5);
  return {random.weights(), {0, 1, 3, 8, 13, 22}};
}

/// The model by itself, token for token. \param choose  (text, logits) -> token
template <class F>
std::vector<index_t> written(const Recurrent& model, std::vector<index_t> text, index_t count, const F& choose) {
  std::array<float, 8> h{}, next{};
  std::array<float, 23> logits{};
  std::vector<index_t> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    Recurrent::step(h.data(), text[i], next.data());
    h = next;
    if (i + 1 < text.size()) continue;
    model.logits(h.data(), text[i], logits.data());
    out.push_back(choose(text, logits));
    if (static_cast<index_t>(out.size()) == count) return out;
    text.push_back(out.back());
  }
  return out;
}
index_t likeliest(const std::vector<index_t>&, const std::array<float, 23>& x) {
  return std::max_element(x.begin(), x.end()) - x.begin();
}

DecodeOptions options(index_t tokens, index_t chain, index_t chunk) {
  DecodeOptions o;
  o.max_new_tokens = tokens, o.chain = chain, o.prefill_chunk = chunk;
  return o;
}

const std::vector<std::vector<index_t>> prompts{{5}, {0, 22, 7, 7, 1}, {3, 3, 3, 9, 14, 2, 8}, {13, 1}};

/// Draws by the place in the text.
struct ByPlace {
  template <class S>
  index_t operator()(const TextSoFar& text, std::span<const S> logits) const {
    return of(text.size(), {logits.begin(), logits.end()});
  }
  /// One of the two likeliest.
  static index_t of(index_t place, std::vector<double> x) {
    const auto first = std::max_element(x.begin(), x.end());
    const index_t a = first - x.begin();
    *first = -HUGE_VAL;
    const index_t b = std::max_element(x.begin(), x.end()) - x.begin();
    return Philox(11).uniform(static_cast<std::uint64_t>(place)) < 0.7 ? a : b;
  }
};

}  // namespace

TEST_CASE("an engine of one's own: plain and speculative decoding give what its model says") {
  const Recurrent model;
  for (const index_t chunk : {1, 3, 64}) {
    PlainDecoder<RecurrentEngine, float> plain(model, 40, options(30, 1, chunk));
    SpeculativeDecoder<RecurrentEngine, NoDraft<RecurrentEngine, float>> none(model, {}, {}, {}, 40,
                                                                              options(30, 4, chunk), 2);
    Decoder one(model, std::array<index_t, 2>{0, 2}, {}, draft(2), 40, options(30, 4, chunk));
    Decoder several(model, std::array<index_t, 2>{0, 2}, {}, draft(2), 40, options(30, 4, chunk), 3);
    const auto together = several.generate_all(Cpu{}, prompts), undrafted = none.generate_all(Cpu{}, prompts);
    index_t accepted = 0, drafted = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto wanted = written(model, prompts[i], 30, likeliest);
      CHECK(plain.generate(Cpu{}, prompts[i]).tokens == wanted);
      const auto alone = one.generate(Cpu{}, prompts[i]);
      CHECK(alone.tokens == wanted);
      CHECK(together[i].tokens == wanted);
      CHECK(undrafted[i].tokens == wanted);
      // The draft read the same states alone and beside others.
      CHECK(together[i].accepted == alone.accepted);
      accepted += alone.accepted, drafted += alone.drafted;
    }
    CHECK(accepted > 0);
    CHECK(accepted < drafted);
  }
}

TEST_CASE("an engine's tapped states reach the draft") {
  const Recurrent model;
  const auto accepted = [&](index_t first, index_t second) {
    Decoder decoder(model, std::array<index_t, 2>{first, second}, {}, draft(2), 40, options(30, 4, 64));
    std::vector<index_t> out;
    for (const auto& prompt : prompts) out.push_back(decoder.generate(Cpu{}, prompt).accepted);
    return out;
  };
  CHECK(accepted(0, 2) != accepted(3, 1));
}

TEST_CASE("what an engine refuses before it runs") {
  const Recurrent model;
  RecurrentEngine engine(model, {}, {9, 4, 3, 2, 2});
  const auto run = [&](std::vector<index_t> ids, std::vector<index_t> counts, std::vector<index_t> choices) {
    engine.forward(Cpu{}, ids, counts, choices);
  };
  CHECK_THROWS_WITH_AS(run({1, 2, 3, 4, 5}, {3, 2}, {1, 1}), "target session: ids: found 5 from 0, wanted some of 4",
                       Error);
  CHECK_THROWS_WITH_AS(run({1, 2}, {2}, {1, 1}), "target session: counts: found 1, wanted 2 sequences", Error);
  CHECK_THROWS_WITH_AS(run({1, 2}, {1, 1}, {1}), "target session: choices: found 1, wanted 2 sequences", Error);
  CHECK_THROWS_WITH_AS(run({1, 2}, {2, 1}, {1, 1}), "target session: counts: found 1 from 0, wanted some of 0", Error);
  CHECK_THROWS_WITH_AS(run({1, 2}, {1, 1}, {1, 2}), "target session: choices: found 2 from 0, wanted some of 1", Error);
  CHECK_THROWS_WITH_AS(run({1, 2, 3}, {1, 1}, {1, 1}), "target session: counts in all: found 2, wanted 3 ids", Error);
}

TEST_CASE("a sampler of one's own: drafted tokens stay where they are its choice") {
  const Recurrent model;
  DecodeOptions o = options(30, 4, 3);
  o.sampler = ByPlace{};
  PlainDecoder<RecurrentEngine, float> plain(model, 40, o);
  Decoder decoder(model, std::array<index_t, 2>{0, 2}, {}, draft(2), 40, o, 3);
  const auto together = decoder.generate_all(Cpu{}, prompts);
  index_t accepted = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto wanted =
        written(model, prompts[i], 30, [](const std::vector<index_t>& text, const std::array<float, 23>& x) {
          return ByPlace::of(static_cast<index_t>(text.size()), {x.begin(), x.end()});
        });
    CHECK(wanted != written(model, prompts[i], 30, likeliest));
    CHECK(plain.generate(Cpu{}, prompts[i]).tokens == wanted);
    CHECK(together[i].tokens == wanted);
    accepted += together[i].accepted;
  }
  CHECK(accepted > 0);
}

TEST_CASE("a sampler sees processed logits, and what it throws ends the text that comes to it") {
  const Recurrent model;
  const auto wanted = written(model, prompts[1], 30, likeliest);
  DecodeOptions o = options(30, 4, 3);
  // The sampler fails behind the twelfth generated token; texts that end before it never know.
  o.sampler = [](const TextSoFar& text, auto logits) -> index_t {
    if (text.generated().size() == 12) throw Error("sampler", "the twelfth token", "fewer");
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  };
  Decoder fails(model, std::array<index_t, 2>{0, 2}, {}, draft(2), 40, o, 2);
  CHECK_THROWS_WITH_AS((void)fails.generate(Cpu{}, prompts[1]), "sampler: found the twelfth token, wanted fewer",
                       Error);
  o.max_new_tokens = 12;
  Decoder ends(model, std::array<index_t, 2>{0, 2}, {}, draft(2), 40, o, 2);
  CHECK(ends.generate(Cpu{}, prompts[1]).tokens == std::vector(wanted.begin(), wanted.begin() + 12));
  o.max_new_tokens = 30, o.stop_token_ids = {wanted[7]};
  Decoder stops(model, std::array<index_t, 2>{0, 2}, {}, draft(2), 40, o, 2);
  PlainDecoder<RecurrentEngine, float> plain(model, 40, o);
  CHECK(stops.generate(Cpu{}, prompts[1]).tokens == plain.generate(Cpu{}, prompts[1]).tokens);
  o.stop_token_ids = {};

  o.logit_processor = LogitBias({{4, 1000}}, 23);
  o.sampler = [](const TextSoFar&, auto logits) -> index_t { return logits[4] > 900 ? 4 : 5; };
  Decoder biased(model, std::array<index_t, 2>{0, 2}, {}, draft(2), 40, o);
  CHECK(biased.generate(Cpu{}, prompts[1]).tokens == std::vector<index_t>(30, 4));
}

TEST_CASE("what is refused of a sampler") {
  const Recurrent model;
  DecodeOptions o = options(4, 2, 3);
  o.sampler = [](const TextSoFar&, auto logits) { return static_cast<index_t>(logits.size()); };
  for (const auto& prompt : prompts) {
    CHECK_THROWS_WITH_AS((void)(PlainDecoder<RecurrentEngine, float>(model, 40, o).generate(Cpu{}, prompt)),
                         "sampler: token: found 23, wanted 0 to 22", Error);
    Decoder decoder(model, std::array<index_t, 2>{0, 2}, {}, draft(2), 40, o);
    CHECK_THROWS_WITH_AS((void)decoder.generate(Cpu{}, prompt), "sampler: token: found 23, wanted 0 to 22", Error);
  }
  o.temperature = 0.5;
  CHECK_THROWS_WITH_AS((PlainDecoder<RecurrentEngine, float>(model, 40, o)),
                       "sampler: found beside temperature 0.5, wanted temperature 0: a sampler has its own", Error);
  // Logits that nothing can be chosen from are the target's fault, with a sampler, too.
  const Recurrent broken{.broken = 5};
  o.temperature = 0, o.sampler = ByPlace{};
  Decoder decoder(broken, std::array<index_t, 2>{0, 2}, {}, draft(2), 40, o);
  CHECK_THROWS_WITH_AS((void)decoder.generate(Cpu{}, std::vector<index_t>{1, 5}),
                       "target: logits of position 2: found NaN among them or no finite largest one, wanted a finite "
                       "largest one to choose by",
                       Error);
}
