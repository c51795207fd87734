// What a decoder tells its draft's session, and what it makes of proposals that are right, wrong, short or none.
#include <doctest/doctest.h>

#include "tests/decode/tiny.hpp"
#include "tests/support/same_bits.hpp"

using namespace k3spec;
using namespace k3spec::test;

namespace {

constexpr std::array<index_t, 3> layers{0, 3, 6};

/// Knows the text that is to come: proposes it, now and then with a wrong token or fewer of them than asked, and keeps
/// all it is told.
class Oracle {
 public:
  using value_type = float;
  static constexpr index_t states = 3 * Config::hidden_size, target_hidden = Config::hidden_size;
  static constexpr index_t vocabulary = Config::vocab_size, max_chain = 32;

  struct Log {
    std::vector<index_t> text;  ///< of the prompt and greedy decoding
    std::vector<float> states = {};
    std::vector<index_t> next = {};
    std::uint64_t stream = 0;          ///< of what is proposed
    std::array<index_t, 33> depths{};  ///< how often so many tokens were right
  };
  struct Source {
    Log* log;
  };
  using Conventions = Eagle3Conventions;
  static index_t default_chain(const Conventions&) { return 6; }
  static std::vector<Tap> taps(std::span<const index_t> ids, index_t n, const Conventions& conventions) {
    return eagle3_taps(ids, n, conventions);
  }
  static std::size_t bytes(const SessionSize&) { return 0; }

  template <class Target>
  Oracle(const Target&, Source source, const SessionSize&) : log_(*source.log) {}

  void reset(index_t) { log_.states.clear(), log_.next.clear(); }
  void append(const Cpu&, const Matrix<const float>& rows, std::span<const index_t> ids,
              std::span<const index_t> counts) {
    REQUIRE(rows.extent(0) == static_cast<index_t>(ids.size()));
    REQUIRE((counts.size() == 1 && counts[0] == rows.extent(0)));
    log_.states.insert(log_.states.end(), rows.data(), rows.data() + rows.size());
    log_.next.insert(log_.next.end(), ids.begin(), ids.end());
  }
  void draft(const Cpu&, std::span<const index_t> counts, std::span<const Sampling>) {
    const Philox random(17, log_.stream);
    const auto at = log_.next.size() + 1;
    proposed_.clear();
    const auto asked = static_cast<std::uint64_t>(counts[0]);
    const auto n = random.uniform(2 * at) < 0.3 ? random.below(2 * at + 1, asked + 1) : asked;
    index_t right = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const bool spoilt = random.uniform(1000 * at + i) < 0.1;
      if (!spoilt && right == static_cast<index_t>(i)) ++right;
      proposed_.push_back(spoilt ? (log_.text[at + i] + 1) % vocabulary : log_.text[at + i]);
    }
    ++log_.depths[static_cast<std::size_t>(right)];
  }
  Proposal<float> proposal(index_t) const { return {proposed_}; }

 private:
  Log& log_;
  std::vector<index_t> proposed_;
};

/// The target's states over a whole text.
std::vector<float> states_of(std::span<const index_t> text, std::span<const index_t> ids = layers,
                             const Eagle3Conventions& conventions = {}) {
  const auto n = static_cast<index_t>(text.size());
  const auto taps = Oracle::taps(ids, Config::num_hidden_layers, conventions);
  TargetSession<Config, float> session(*tiny().target, taps, {n, n, 0, 0});
  session.forward(Cpu{}, text, 0);
  const auto rows = session.tapped(n);
  return {rows.data(), rows.data() + rows.size()};
}

}  // namespace

TEST_CASE("a session is told each position once, in order, with the target's own states and the token behind it") {
  PlainDecoder<Config, float> plain(*tiny().target, 160, decode_options(1));
  for (const index_t chain : {1, 3, 6, 20}) {
    Oracle::Log log;
    DecodeOptions o = decode_options(chain, 60);
    o.prefill_chunk = 25;
    SpeculativeDecoder<Config, Oracle> decoder(*tiny().target, layers, {}, Oracle::Source{&log}, 160, o);
    for (std::size_t i = 0; i < 10; ++i) {
      log.stream = i;
      const auto prompt = tiny().prompt(i);
      const auto greedy = plain.generate(Cpu{}, prompt).tokens;
      log.text.assign(prompt.begin(), prompt.end());
      log.text.insert(log.text.end(), greedy.begin(), greedy.end());
      const auto result = decoder.generate(Cpu{}, prompt);
      CHECK(result.tokens == std::vector<index_t>(greedy.begin(), greedy.begin() + 60));
      const auto told = log.next.size();
      CHECK(told >= 64);
      CHECK(told < 64 + 60);
      CHECK(log.next ==
            std::vector<index_t>(log.text.begin() + 1, log.text.begin() + 1 + static_cast<std::ptrdiff_t>(told)));
      CHECK(same_bits(log.states, states_of(std::span(log.text).first(told))));
      CHECK(result.accepted + result.target_forwards + 1 == 60);
    }
    // Rounds of every depth up to the chain's.
    for (index_t d = 0; d <= std::min<index_t>(chain, 6); ++d) CHECK(log.depths[static_cast<std::size_t>(d)] > 0);
  }
}

TEST_CASE("the fewest target forwards: an oracle's rounds are as deep as its proposals") {
  Oracle::Log log;
  SpeculativeDecoder<Config, Oracle> decoder(*tiny().target, layers, {}, Oracle::Source{&log}, 160, [] {
    DecodeOptions o;
    o.max_new_tokens = 40;
    return o;
  }());
  CHECK(decoder.chain() == 6);
  const auto prompt = tiny().prompt(0);
  log.text.assign(prompt.begin(), prompt.end());
  for (const auto t : tiny().continuation(0)) log.text.push_back(t);
  const auto result = decoder.generate(Cpu{}, prompt);
  index_t forwards = 0, right = 0;
  for (std::size_t d = 0; d < log.depths.size(); ++d) {
    forwards += log.depths[d];
    right += log.depths[d] * static_cast<index_t>(d);
  }
  CHECK(result.target_forwards == forwards);
  CHECK(result.accepted == right);
}

TEST_CASE("a session is told the states that its draft's conventions name") {
  const auto told = [](const std::array<index_t, 3>& ids, const Eagle3Conventions& conventions) {
    Oracle::Log log;
    SpeculativeDecoder<Config, Oracle> decoder(*tiny().target, ids, conventions, Oracle::Source{&log}, 160,
                                               decode_options(6, 30));
    const auto prompt = tiny().prompt(0);
    log.text.assign(prompt.begin(), prompt.end());
    for (const auto t : tiny().continuation(0)) log.text.push_back(t);
    (void)decoder.generate(Cpu{}, prompt);
    CHECK(same_bits(log.states, states_of(std::span(log.text).first(log.next.size()), ids, conventions)));
    return log.states;
  };
  const Eagle3Conventions executed{.layer_ids = LayerIds::layers_executed};
  const Eagle3Conventions mixture{.aux_stream = AuxStream::residual_mixture};
  const auto sums = told({1, 3, 6}, {});
  CHECK(same_bits(told({2, 4, 7}, executed), sums));
  CHECK_FALSE(same_bits(told({1, 3, 6}, executed), sums));
  CHECK_FALSE(same_bits(told({1, 3, 6}, mixture), sums));
}

TEST_CASE("what a target session says of a sequence is of its newest forward") {
  TargetSession<Config, float> session(*tiny().target, {}, {20, 8, 4, 4, 2});
  TargetRows<TargetSession<Config, float>> rows(*tiny().target, {}, {20, 8, 4, 4, 2});
  const auto forward = [&](index_t first, std::array<index_t, 2> counts, std::array<index_t, 2> choices) {
    const auto n = static_cast<std::size_t>(counts[0] + counts[1]);
    session.forward(Cpu{1}, tiny().prompt(0).subspan(static_cast<std::size_t>(first), n), counts, choices);
    rows.forward(Cpu{1}, tiny().prompt(0).subspan(static_cast<std::size_t>(first), n), counts, choices);
  };
  forward(0, {4, 2}, {1, 2});
  rows.top(Cpu{1});
  CHECK(rows.top_of(0).size() == 1);
  CHECK(rows.top_of(1).size() == 2);
  CHECK(rows.sound(1) == 2);
  CHECK(session.length(0) == 4);
  CHECK(session.length(1) == 2);
  // Emptied when the target runs next, and empty for all who ask before.
  session.reset(1);
  CHECK(session.length(1) == 0);
  CHECK(session.length(0) == 4);
  forward(6, {1, 3}, {1, 1});
  CHECK(session.length(0) == 5);
  CHECK(session.length(1) == 3);
  // Nobody has chosen from these logits yet.
  CHECK(rows.top_of(0).empty());
  CHECK(rows.top_of(1).empty());
  CHECK(rows.sound(0) == 0);
}
