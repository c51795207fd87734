// The rejection rule on distributions small enough to know everything of them.
#include <doctest/doctest.h>

#include <array>
#include <string>

#include <k3spec/decode/verify.hpp>

#include "tests/decode/chi_square.hpp"
#include "tests/decode/exact_law.hpp"

using namespace k3spec;

namespace {

constexpr std::size_t tokens = 5, places = 3, cells = tokens * tokens * tokens;
using Row = std::array<float, tokens>;
/// What follows each token; the text begins after token 0.
using Model = std::array<Row, tokens>;

Model same_rows(Row row) { return {row, row, row, row, row}; }
/// Row i is `row` turned by i.
Model turned(Row row) {
  Model m;
  for (std::size_t i = 0; i < tokens; ++i) {
    for (std::size_t j = 0; j < tokens; ++j) m[i][(i + j) % tokens] = row[j];
  }
  return m;
}

struct Pair {
  const char* name;
  Model target, draft;
};
/// Weights are not normalised, as those from logits are not.
const std::array<Pair, 8> pairs{{
    {"strongly different", turned({8, 4, 2, 1, 1}), turned({1, 1, 2, 6, 20})},
    {"a little different", turned({8, 4, 2, 1, 1}), turned({9, 3, 2, 2, 0.5F})},
    {"disjoint", turned({3, 1, 0, 0, 0}), turned({0, 0, 1, 2, 3})},
    {"the same", turned({8, 4, 2, 1, 1}), turned({8, 4, 2, 1, 1})},
    {"the same but for the scale", turned({8, 4, 2, 1, 1}), turned({0.8F, 0.4F, 0.2F, 0.1F, 0.1F})},
    {"the draft is sure", turned({8, 4, 2, 1, 1}), turned({0, 0, 1, 0, 0})},
    {"the target is sure", turned({0, 1, 0, 0, 0}), turned({1, 2, 3, 2, 1})},
    {"zeros in both", turned({0, 3, 1, 0, 2}), same_rows({1, 0, 2, 0, 3})},
}};

Distribution<float> distribution(const Row& row) { return Distribution<float>(std::span<const float>(row)); }

/// Drafts `chain` tokens, verifies them, and goes on until there are three.
/// \param with_round  whether what is drafted is drawn anew in every round
template <class Rule>
std::array<index_t, places> decode(const Pair& pair, std::size_t chain, std::uint64_t seed, const Rule& rule,
                                   bool with_round = true) {
  const Sampling sampling{1, seed};
  std::vector<index_t> text{0};
  while (text.size() <= places) {
    std::vector<index_t> drafted;
    std::vector<float> weights;
    index_t last = text.back();
    for (std::size_t i = 0; i < chain; ++i) {
      const Row& q = pair.draft[static_cast<std::size_t>(last)];
      last = pick(distribution(q), sampling.uniform(Decision::draft, static_cast<index_t>(text.size() + i),
                                                    with_round ? static_cast<index_t>(text.size()) : 0));
      drafted.push_back(last);
      weights.insert(weights.end(), q.begin(), q.end());
    }
    const auto n = static_cast<index_t>(chain);
    const Proposal<float> proposal{drafted, Matrix<const float>(weights.data(), n, tokens)};
    const Verdict v = rule(
        proposal,
        [&](index_t i) {
          const index_t before = i == 0 ? text.back() : drafted[static_cast<std::size_t>(i - 1)];
          return distribution(pair.target[static_cast<std::size_t>(before)]);
        },
        sampling, static_cast<index_t>(text.size()));
    text.insert(text.end(), drafted.begin(), drafted.begin() + v.accepted);
    text.push_back(v.next);
  }
  return {text[1], text[2], text[3]};
}

/// Of the three tokens together.
std::vector<double> exact(const Model& target) {
  std::vector<double> p;
  for (std::size_t a = 0; a < tokens; ++a) {
    for (std::size_t b = 0; b < tokens; ++b) {
      for (std::size_t c = 0; c < tokens; ++c) {
        const auto share = [&](std::size_t from, std::size_t to) {
          return static_cast<double>(target[from][to]) / distribution(target[from]).total;
        };
        p.push_back(share(0, a) * share(a, b) * share(b, c));
      }
    }
  }
  return p;
}

template <class Rule>
double test_of(const Pair& pair, std::size_t chain, const Rule& rule, bool with_round = true) {
  std::vector<double> counts(cells);
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    const auto t = decode(pair, chain, seed, rule, with_round);
    ++counts[static_cast<std::size_t>((t[0] * 5 + t[1]) * 5 + t[2])];
  }
  return test::p_value(counts, exact(pair.target));
}

const auto by_token = [](const auto&... x) { return verify_sampled<float>(Verification::token, x...); };
const auto by_block = [](const auto&... x) { return verify_sampled<float>(Verification::block, x...); };

/// verify_sampled with other rules for a token and for what replaces it.
template <class Stays, class Replace>
auto wrong(const Stays& keep, const Replace& replacement) {
  return [=](const Proposal<float>& proposal, auto&& target, const Sampling& s, index_t position) -> Verdict {
    for (index_t i = 0; i < proposal.size(); ++i) {
      const auto p = target(i), q = proposal.distribution(i);
      if (keep(p, q, proposal.tokens[static_cast<std::size_t>(i)], s.uniform(Decision::accept, position + i))) continue;
      return {i, replacement(p, q, s.uniform(Decision::token, position + i))};
    }
    return {proposal.size(), pick(target(proposal.size()), s.uniform(Decision::token, position + proposal.size()))};
  };
}

const auto keep = [](const auto&... x) { return stays(x...); };
const auto replace = [](const auto&... x) { return pick_residual(x...); };

}  // namespace

TEST_CASE("chi-square: known values, and counts where nothing can be") {
  // Two cells of 60 and 40 for a fair coin: statistic 4, one degree of freedom.
  CHECK(test::p_value({60, 40}, {0.5, 0.5}) == doctest::Approx(0.04550026).epsilon(1e-6));
  // Statistic 10 of 10 degrees: 0.4404933.
  CHECK(test::upper_gamma(5, 5) == doctest::Approx(0.4404933).epsilon(1e-6));
  CHECK(test::upper_gamma(5, 20) == doctest::Approx(1.694474e-5).epsilon(1e-6));
  CHECK(test::p_value({50, 50, 1}, {0.5, 0.5, 0}) == 0);
}

TEST_CASE("both rules give the target's distribution at every place, whatever the draft's") {
  for (const Pair& pair : pairs) {
    for (std::size_t chain = 1; chain <= 3; ++chain) {
      const double token = test_of(pair, chain, by_token), block = test_of(pair, chain, by_block);
      CHECK_MESSAGE(token > 0.01, pair.name, ", by token, chain ", chain, ": p = ", token);
      CHECK_MESSAGE(block > 0.01, pair.name, ", by block, chain ", chain, ": p = ", block);
    }
  }
}

TEST_CASE("a round that draws what the last one rejected has not the target's distribution") {
  // By block, what was drafted has a say in how much of it stays, so that the rest is no fresh draw any more.
  CHECK(test_of(pairs[7], 3, by_block, false) < 1e-6);
  CHECK(test_of(pairs[7], 3, by_token, false) > 0.01);
}

TEST_CASE("other rules are found out") {
  const auto from_target = [](const auto& p, const auto&, double u) { return pick(p, u); };
  const auto always = [](const auto&...) { return true; };
  const auto by_target = [](const auto& p, const auto&, index_t x, double u) { return u * p.total < p[x]; };
  const auto unnormalised = [](const auto& p, const auto& q, index_t x, double u) { return u * q[x] < p[x]; };
  const auto likeliest = [](const auto& p, const auto&, double) { return argmax_row(p.weights.data(), p.size()); };
  for (std::size_t chain = 1; chain <= 3; chain += 2) {
    CHECK(test_of(pairs[0], chain, wrong(keep, from_target)) < 1e-6);
    CHECK(test_of(pairs[1], chain, wrong(keep, from_target)) < 1e-6);
    CHECK(test_of(pairs[0], chain, wrong(always, replace)) < 1e-6);
    CHECK(test_of(pairs[0], chain, wrong(by_target, replace)) < 1e-6);
    CHECK(test_of(pairs[0], chain, wrong(unnormalised, replace)) < 1e-6);
    CHECK(test_of(pairs[0], chain, wrong(keep, likeliest)) < 1e-6);
    // One number for all places of a chain, or for two decisions of a place.
    const auto reuse = [](bool all, const Proposal<float>& proposal, auto&& target, const Sampling& s,
                          index_t position) {
      for (index_t i = 0; i < proposal.size(); ++i) {
        const auto p = target(i), q = proposal.distribution(i);
        const double u = s.uniform(all ? Decision::accept : Decision::draft, position + (all ? 0 : i), position);
        if (stays(p, q, proposal.tokens[static_cast<std::size_t>(i)], u)) continue;
        return Verdict{i, pick_residual(p, q, s.uniform(Decision::token, position + i))};
      }
      const index_t n = proposal.size();
      return Verdict{n, pick(target(n), s.uniform(Decision::token, position + n))};
    };
    const auto place = [&](const auto&... x) { return reuse(true, x...); };
    const auto decision = [&](const auto&... x) { return reuse(false, x...); };
    if (chain > 1) CHECK(test_of(pairs[1], chain, place) < 1e-6);
    CHECK(test_of(pairs[1], chain, decision) < 1e-6);
    // The frame itself is right.
    CHECK(test_of(pairs[0], chain, wrong(keep, replace)) > 0.01);
  }
}

namespace {

const auto token_rule = [](const auto&... x) { return verify_tokens<double>(x...); };
const auto block_rule = [](const auto&... x) { return verify_block<double>(x...); };

/// verify_block with another probability for a prefix to stay and another weight of what replaces the rest.
template <class Stays, class Weight>
auto wrong_block(const Stays& keep_prefix, const Weight& weight) {
  return [=](const Proposal<double>& proposal, auto&& target, auto&& uniform) -> Verdict {
    const index_t n = proposal.size();
    index_t accepted = 0;
    double reach = 1, kept = 1;
    for (index_t i = 1; i <= n; ++i) {
      const auto p = target(i - 1), q = proposal.distribution(i - 1);
      const index_t x = proposal.tokens[static_cast<std::size_t>(i - 1)];
      reach = std::min(1.0, reach * (p[x] / p.total) / (q[x] / q.total));
      const double rest = i == n ? 0 : residual_total(target(i), proposal.distribution(i), reach);
      const double scale = i == n ? 1 : target(i).total * proposal.distribution(i).total;
      const double h = i == n ? reach : keep_prefix(rest / scale, reach);
      if (uniform(Decision::accept, i - 1) < h) accepted = i, kept = reach;
    }
    if (accepted == n) return {n, pick(target(n), uniform(Decision::token, n))};
    return {accepted, pick_residual(target(accepted), proposal.distribution(accepted),
                                    uniform(Decision::token, accepted), weight(kept))};
  };
}

}  // namespace

TEST_CASE("both rules give every text its very probability, over all rounds, blocks that end early, and empty ones") {
  struct Size {
    index_t vocabulary, chain;
    std::size_t length;
    std::uint64_t draws;
  };
  for (const Size& size :
       {Size{2, 1, 4, 4}, {2, 2, 4, 8}, {2, 3, 5, 8}, {3, 1, 3, 4}, {3, 2, 4, 4}, {3, 3, 4, 1}, {4, 2, 3, 2}}) {
    for (std::uint64_t seed = 0; seed < size.draws; ++seed) {
      const test::TinyTexts texts{seed, size.vocabulary, size.chain};
      const double token = test::law_of_texts(texts, size.length, token_rule, false);
      const double block = test::law_of_texts(texts, size.length, block_rule, true);
      CHECK_MESSAGE(token < 1e-12, size.vocabulary, " tokens, chain ", size.chain, ", by token: ", token);
      CHECK_MESSAGE(block < 1e-12, size.vocabulary, " tokens, chain ", size.chain, ", by block: ", block);
    }
  }
}

TEST_CASE("other block rules do not") {
  const auto right_stays = [](double rest, double reach) { return rest / (rest + 1 - reach); };
  const auto same = [](double reach) { return reach; };
  const auto error = [](const auto& rule) { return test::law_of_texts({5, 3, 2}, 3, rule, true); };
  CHECK(error(wrong_block(right_stays, same)) < 1e-12);  // the frame itself is right
  CHECK(error(wrong_block([](double, double reach) { return reach; }, same)) > 1e-3);
  CHECK(error(wrong_block([](double rest, double) { return rest; }, same)) > 1e-3);
  CHECK(error(wrong_block(right_stays, [](double) { return 1.0; })) > 1e-4);
}

TEST_CASE("by block no fewer tokens stay than one by one, mostly more") {
  int longer = 0, pairs_tried = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const test::TinyTexts texts{seed, 2 + static_cast<index_t>(seed % 3), 2 + static_cast<index_t>(seed % 2)};
    if (texts.vocabulary == 4 && texts.chain == 3) continue;
    const double token = test::expected_length(texts, token_rule, false);
    const double block = test::expected_length(texts, block_rule, true);
    CHECK(block > token - 1e-12);
    longer += block > token + 1e-6 ? 1 : 0, ++pairs_tried;
    // One token: there is nothing to take together.
    const test::TinyTexts one{seed, texts.vocabulary, 1};
    CHECK(test::expected_length(one, block_rule, true) ==
          doctest::Approx(test::expected_length(one, token_rule, false)).epsilon(1e-12));
  }
  CHECK(longer * 3 > pairs_tried);
}

TEST_CASE("known lengths: [1/3 2/3] drafted by [2/3 1/3], two tokens: 10/9 one by one, 11/9 by block") {
  const std::vector<double> p{1, 2}, q{4, 2};  // not normalised
  const auto expected = [&](Verification rule) {
    double sum = 0;
    for (index_t a = 0; a < 2; ++a) {
      for (index_t b = 0; b < 2; ++b) {
        const std::vector<index_t> drafted{a, b};
        const std::vector<double> both{4, 2, 4, 2};
        const Proposal<double> proposal{drafted, Matrix<const double>(both.data(), 2, 2)};
        // Numbers in the middle of 36 x 36 cells: all bounds here are multiples of 1 / 36.
        for (int i = 0; i < 36; ++i) {
          for (int j = 0; j < 36; ++j) {
            const auto target = [&](index_t) { return Distribution<double>(std::span<const double>(p)); };
            const auto uniform = [&](Decision, index_t at) { return ((at == 0 ? i : j) + 0.5) / 36; };
            const Verdict v = rule == Verification::block ? verify_block(proposal, target, uniform)
                                                          : verify_tokens(proposal, target, uniform);
            sum += test::share(q, a) * test::share(q, b) * static_cast<double>(v.accepted) / (36 * 36);
          }
        }
      }
    }
    return sum;
  };
  CHECK(expected(Verification::token) == doctest::Approx(10.0 / 9).epsilon(1e-12));
  CHECK(expected(Verification::block) == doctest::Approx(11.0 / 9).epsilon(1e-12));
}

TEST_CASE("equal distributions keep every token, disjoint ones none") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto count = [&](const Pair& pair, index_t wanted) {
      for (const Verification rule : {Verification::token, Verification::block}) {
        decode(pair, 2, seed, [&](const auto&... x) {
          const Verdict v = verify_sampled<float>(rule, x...);
          CHECK(v.accepted == wanted);
          return v;
        });
      }
    };
    count(pairs[3], 2);
    count(pairs[2], 0);
  }
  const Row p{3, 1, 0, 0, 0}, q{0, 0, 1, 2, 3};
  CHECK_FALSE(stays(distribution(p), distribution(q), 2, 0.0));  // the least that is ever drawn
}

TEST_CASE("a random number belongs to its seed, its decision and its position") {
  const Sampling a{1, 7}, b{1, 8};
  CHECK(a.uniform(Decision::token, 3) == a.uniform(Decision::token, 3));
  CHECK(a.uniform(Decision::token, 3) != a.uniform(Decision::token, 4));
  CHECK(a.uniform(Decision::token, 3) != a.uniform(Decision::accept, 3));
  CHECK(a.uniform(Decision::draft, 3) != a.uniform(Decision::accept, 3));
  CHECK(a.uniform(Decision::draft, 3, 2) != a.uniform(Decision::draft, 3, 3));
  CHECK(a.uniform(Decision::draft, 3, 2) != a.uniform(Decision::accept, 3, 3));
  CHECK(a.uniform(Decision::token, 3) != b.uniform(Decision::token, 3));
}

TEST_CASE("a token of weight 0 is never picked, at the ends of [0, 1) neither") {
  const std::array<float, 5> w{0, 3, 0, 1e-30F, 0};
  const Distribution<float> p{std::span<const float>(w)};
  CHECK(pick(p, 0) == 1);
  CHECK(pick(p, 1 - 0x1p-53) == 1);
  const std::array<float, 4> thirds{0, 1 / 3.0F, 1 / 3.0F, 0};
  CHECK(pick(Distribution<float>(std::span<const float>(thirds)), 1 - 0x1p-53) == 2);
}

TEST_CASE("rounding is no residual: when nothing of it is left, the target's distribution is taken") {
  const std::array<float, 3> w{1, 2, 1}, twice{2, 4, 2};
  const Distribution<float> p{std::span<const float>(w)}, q{std::span<const float>(twice)};
  CHECK(pick_residual(p, q, 0.5) == pick(p, 0.5));
}

TEST_CASE("logits become weights: hot, cold, and no numbers") {
  std::vector<float> x{1, 3, -2, 3, 0.5F};
  const Matrix<float> row(x.data(), 1, 5);
  weigh_row(Cpu{}, Sampling{2, 0}, row);
  CHECK(x[1] == 1.0F);
  CHECK(x[0] == doctest::Approx(std::exp(-1.0)));
  CHECK(x[2] == doctest::Approx(std::exp(-2.5)));
  x = {1, 3, -2, 2.9F, 0.5F};
  weigh_row(Cpu{}, Sampling{1e-6, 0}, row);
  CHECK(x == std::vector<float>{0, 1, 0, 0, 0});
  x.assign(5, std::numeric_limits<float>::quiet_NaN());
  weigh_row(Cpu{}, Sampling{1, 0}, row);
  CHECK_THROWS_WITH_AS((Distribution<float>(std::span<const float>(x))),
                       "token weights: sum: found nan, wanted positive and finite", Error);
}

TEST_CASE("greedy verification keeps the common prefix") {
  const std::vector<index_t> top{4, 5, 6};
  const auto verdict = [&](std::vector<index_t> drafted) {
    const Verdict v = verify_greedy(drafted, std::span(top).first(drafted.size() + 1));
    return std::array<index_t, 2>{v.accepted, v.next};
  };
  CHECK(verdict({}) == std::array<index_t, 2>{0, 4});
  CHECK(verdict({4, 5}) == std::array<index_t, 2>{2, 6});
  CHECK(verdict({4, 6}) == std::array<index_t, 2>{1, 5});
  CHECK(verdict({5, 5}) == std::array<index_t, 2>{0, 4});
}
