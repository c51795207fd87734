// A session of an EAGLE-3 draft gives what the draft's training unroll gives for the same tokens, with Kimi K3's block
// and with DeepSeek-V3's; and decoding with the latter is plain decoding, too.
#include <doctest/doctest.h>

#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/decode/eagle3_session.hpp>

#include "tests/decode/tiny.hpp"
#include "tests/support/case_configs.hpp"

using namespace k3spec;
using namespace k3spec::test;

namespace {

struct Plain : OddCases {
  static constexpr index_t draft_vocab_size = 17;
};
struct Rotated : DeepSeekOddCases {
  static constexpr index_t draft_vocab_size = 17;
};
/// All that EAGLE-3.1 and YaRN add.
struct Rotated31 : Rotated {
  static constexpr bool fc_norm = true, norm_output = true;
  static constexpr std::optional<Yarn> rope_scaling = yarn_of_cases;
  static constexpr SoftmaxMscale softmax_mscale = SoftmaxMscale::yarn_mscale_squared;
};

template <class Config, class T>
struct Setting {
  using Draft = Eagle3Draft<Config>;
  using S = accumulate_t<T>;
  Parameters<Draft, T> parameters;
  std::vector<T> aux = std::vector<T>(static_cast<std::size_t>(60 * Draft::aux_width));
  std::vector<index_t> to_target;

  Setting() {
    parameters.initialize(5, 0.3);
    for (std::size_t i = 0; i < aux.size(); ++i) aux[i] = T(static_cast<S>(Philox(12).normal(i)));
    for (index_t i = 0; i < Draft::draft_vocabulary; ++i) to_target.push_back(3 * i);
  }
  /// The token at a position, one before the draft reads it.
  static index_t id(index_t position) { return (position * position + 3) % Config::vocab_size; }

  void append(Eagle3Session<Draft, T>& session, index_t n) const {
    const index_t begin = session.length();
    std::vector<index_t> ids;
    for (index_t i = 0; i < n; ++i) ids.push_back(id(begin + i + 1));
    session.append(Cpu{2}, Matrix<const T>(aux.data() + begin * Draft::aux_width, n, Draft::aux_width), ids);
  }

  /// [drafted tokens, draft vocabulary] logits of a chain behind `length` positions: row length - 1 of every step of an
  /// unroll over them and the drafted tokens. Step 0's positions are `apart` from one another.
  std::vector<double> unroll(index_t length, std::span<const index_t> drafted, index_t apart = 1) const {
    const auto count = static_cast<index_t>(drafted.size()), rows = length + count - 1;
    std::vector<index_t> ids, positions;
    for (index_t t = 0; t < rows; ++t) {
      ids.push_back(t < length ? id(t + 1) : drafted[static_cast<std::size_t>(t - length)]);
      positions.push_back(t * apart);
    }
    Arena arena(1 << 23);
    const auto acts = Draft::template Activations<T>::allocate(arena, rows, count);
    Draft::template forward<T>(
        Cpu{}, parameters.weights(),
        typename Draft::template Inputs<T, CausalVisibility>{
            Vector<const index_t>(ids.data(), rows), rows, Rows<const T, Draft::aux_width>(aux.data(), rows),
            CausalVisibility{nullptr, rows}, RotaryPositions{positions.data()}},
        acts);
    Rows<T, Draft::hidden> x;
    Rows<S, Draft::draft_vocabulary> logits;
    take_rows(arena, 1, x), take_rows(arena, 1, logits);
    std::vector<double> all;
    for (index_t k = 0; k < count; ++k) {
      Draft::head_input(Cpu{}, parameters.weights(), acts.step(k).out.rows(length - 1, 1), x);
      Draft::compute_logits(Cpu{}, parameters.weights(), x, logits);
      all.insert(all.end(), logits.data(), logits.data() + Draft::draft_vocabulary);
    }
    return all;
  }

  /// Largest difference of a proposal's weights' logarithms from logits, the largest of each row being 0.
  double difference(const Proposal<S>& proposal, const std::vector<double>& logits) const {
    double worst = 0;
    for (index_t k = 0; k < proposal.size(); ++k) {
      const double* row = logits.data() + k * Draft::draft_vocabulary;
      const double most = *std::max_element(row, row + Draft::draft_vocabulary);
      for (std::size_t j = 0; j < to_target.size(); ++j) {
        const double e = std::abs(std::log(static_cast<double>(proposal.weights(k, to_target[j]))) - (row[j] - most));
        worst = std::isnan(e) ? e : std::max(worst, e);
      }
    }
    return worst;
  }
};

template <class Config, class T>
void check_against_training(double tolerance) {
  const Setting<Config, T> setting;
  for (const index_t chain : {1, 2, 5}) {
    Eagle3Session<Eagle3Draft<Config>, T> sampled(0, {setting.parameters.weights(), setting.to_target},
                                                  {30, 20, chain, true});
    Eagle3Session<Eagle3Draft<Config>, T> greedy(0, {setting.parameters.weights(), setting.to_target}, {30, 20, chain});
    for (const index_t n : {1, 1, 4, 9, 2}) {
      setting.append(sampled, n), setting.append(greedy, n);
      const index_t length = sampled.length();
      CAPTURE(length);
      CAPTURE(chain);
      const auto proposal = sampled.draft(Cpu{}, chain, {1, 5});
      CHECK(setting.difference(proposal, setting.unroll(length, proposal.tokens)) < tolerance);
      // Positions twice as far apart are nothing to Kimi K3's block, and the comparison sees them with the other.
      if (length > 1) {
        const double e = setting.difference(proposal, setting.unroll(length, proposal.tokens, 2));
        CHECK((Config::mla_use_nope ? e < tolerance : e > 10 * tolerance));
      }
      const auto tokens = greedy.draft(Cpu{}, chain, {}).tokens;
      const auto logits = setting.unroll(length, tokens);
      for (std::size_t k = 0; k < tokens.size(); ++k) {
        const auto row = logits.begin() + static_cast<std::ptrdiff_t>(k * setting.to_target.size());
        const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(setting.to_target.size())) - row;
        CHECK(tokens[k] == setting.to_target[static_cast<std::size_t>(best)]);
      }
    }
  }
}

}  // namespace

TEST_CASE("an EAGLE-3 session's logits and tokens are those of the training unroll") {
  check_against_training<Plain, double>(1e-11);
  check_against_training<Rotated, double>(1e-11);
  check_against_training<Rotated31, double>(1e-11);
  check_against_training<Rotated, float>(1e-4);
  check_against_training<Rotated31, float>(1e-4);
}

TEST_CASE("an append that is refused leaves a session as it was") {
  using Draft = Eagle3Draft<Rotated>;
  const Setting<Rotated, double> setting;
  Eagle3Session<Draft, double> session(0, {setting.parameters.weights(), setting.to_target}, {30, 20, 3, true});
  setting.append(session, 3);
  const auto drafted = [&] {
    const auto proposal = session.draft(Cpu{}, 3, {1, 5});
    const double* weights = proposal.weights.data();
    return std::vector<double>(weights, weights + proposal.weights.size());
  };
  const auto before = drafted();
  const auto refuse = [&](std::vector<index_t> ids, const char* message) {
    const Matrix<const double> aux(setting.aux.data() + 7 * Draft::aux_width, static_cast<index_t>(ids.size()),
                                   Draft::aux_width);
    CHECK_THROWS_WITH_AS(session.append(Cpu{}, aux, ids), doctest::Contains(message), Error);
    CHECK(session.length() == 3);
    CHECK(drafted() == before);
  };
  refuse({1, 2, Draft::vocabulary}, "found 51, wanted 0 to 50");
  refuse({-1}, "found -1, wanted 0 to 50");
  refuse({}, "draft cache: rows: found 0");
  refuse(std::vector<index_t>(21, 1), "draft cache: rows: found 21");
}

TEST_CASE("speculative decoding with a DeepSeek draft equals plain greedy decoding") {
  using Draft = Eagle3Draft<configs::DeepSeekV3Tiny>;
  Parameters<Draft, float> random;
  random.initialize(3);
  std::vector<index_t> ids;
  for (index_t i = 0; i < Draft::draft_vocabulary; ++i) ids.push_back(i + 60);
  PlainDecoder<Config, float> plain(*tiny().target, 160, decode_options(1));
  for (const index_t chain : {1, 3, 7}) {
    SpeculativeDecoder<Config, Eagle3Session<Draft, float>> decoder(
        *tiny().target, std::array<index_t, 3>{1, 3, 4}, {}, {random.weights(), ids}, 160, decode_options(chain));
    for (std::size_t i = 0; i < 8; ++i) {
      const auto result = decoder.generate(Cpu{chain == 3 ? 2 : 1}, tiny().prompt(i));
      CHECK(result.tokens == plain.generate(Cpu{}, tiny().prompt(i)).tokens);
      CHECK(result.drafted > 0);
    }
  }
}
