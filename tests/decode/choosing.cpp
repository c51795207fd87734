// How a token is chosen from a row of logits, and where a text ends: truncation, processors, stop tokens and strings.
#include <doctest/doctest.h>

#include <numeric>

#include <k3spec/config/check.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/config/stop_tokens.hpp>
#include <k3spec/decode/continuation.hpp>

#include "examples/speculate/spread.hpp"
#include "tests/backend/allocations.hpp"

using namespace k3spec;

namespace {

template <class S>
std::vector<S> truncated(std::vector<S> weights, const Truncation& t) {
  truncate_row(t, std::span<S>(weights));
  return weights;
}

/// Shares of what is left.
std::vector<double> renormalised(const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> p;
  for (const double w : weights) p.push_back(w / total);
  return p;
}

/// By sorting, as the rules are written down.
template <class S>
std::vector<S> by_sorting(const std::vector<S>& weights, const Truncation& t) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return weights[a] > weights[b]; });
  double total = 0;
  for (const S w : weights) total += static_cast<double>(w);
  std::vector<S> kept(weights.size());
  double mass = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double w = static_cast<double>(weights[order[i]]);
    if (w < t.min_p * static_cast<double>(weights[order[0]])) break;
    if (t.top_k > 0 && static_cast<index_t>(i) >= t.top_k) break;
    if (t.top_p < 1 && mass >= t.top_p * total) break;
    mass += w;
    kept[order[i]] = weights[order[i]];
  }
  return kept;
}

/// Weights in steps of 1/64, whose sums are exact, many of them equal and some of them 0; the largest is 1.
template <class S>
std::vector<S> steps(std::size_t n, std::uint64_t seed) {
  const Philox random(seed, 3);
  std::vector<S> w;
  for (std::size_t i = 0; i < n; ++i) w.push_back(static_cast<S>(random.below(i, 17)) / S(64));
  w[random.below(n, n)] = 1;
  return w;
}

const float inf = std::numeric_limits<float>::infinity(), not_a_number = std::numeric_limits<float>::quiet_NaN();

std::vector<float> processed(const LogitProcessor& processor, const std::vector<index_t>& text, index_t prompt,
                             std::vector<float> logits) {
  processor({text, prompt}, std::span<float>(logits));
  return logits;
}

struct Masked : configs::KimiK3DFlash {
  static constexpr std::optional<index_t> mask_token_id = 163585;
};

DecodeResult push_all(const DecodeOptions& o, const std::vector<index_t>& tokens) {
  Continuation text(o);
  text.begin(std::vector<index_t>{'x', 'y'});
  for (const index_t t : tokens) {
    if (text.ended()) break;
    text.push(t);
  }
  CHECK(text.ended());
  return text.take();
}

}  // namespace

TEST_CASE("top-p is of all the probability, and top-k of what it keeps") {
  std::vector<double> p{.03, .25, .03, .05, .35, .03, .20, .03, .03};
  const auto q = renormalised(truncated(p, {.top_k = 4, .top_p = .82}));
  const std::vector<double> wanted{0, .2941, 0, .0588, .4118, 0, .2353, 0, 0};
  for (std::size_t i = 0; i < q.size(); ++i) CHECK(std::abs(q[i] - wanted[i]) < 5e-5);
  // Of equal tokens the first ones.
  CHECK(truncated<double>({1, 2, 1, 1, 2}, {.top_k = 3}) == std::vector<double>{1, 2, 0, 0, 2});
  CHECK(truncated<double>({1, 1, 1, 1}, {.top_p = .5}) == std::vector<double>{1, 1, 0, 0});
  CHECK(truncated<double>({1, 1, 1, 1}, {.top_p = .51}) == std::vector<double>{1, 1, 1, 0});
  CHECK(truncated<double>({2, 1, 1}, {.top_p = .5}) == std::vector<double>{2, 0, 0});
  // Min-p is a share of the likeliest's, and takes nothing from what top-p counts.
  CHECK(truncated<double>({4, 2, 1, 1}, {.min_p = .5}) == std::vector<double>{4, 2, 0, 0});
  CHECK(truncated<double>({4, 2, 1, 1}, {.top_p = .7, .min_p = .5}) == std::vector<double>{4, 2, 0, 0});
  CHECK(truncated<double>({4, 2, 2, 1}, {.top_p = .4, .min_p = .5}) == std::vector<double>{4, 0, 0, 0});
  // One token is always left.
  CHECK(truncated<double>({0, 3, 0}, {.top_k = 1, .top_p = 1e-300, .min_p = 1}) == std::vector<double>{0, 3, 0});
}

TEST_CASE("truncation keeps what sorting keeps") {
  for (const std::size_t n : {1U, 2U, 13U, 260U, 1001U}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const auto single = steps<float>(n, seed);
      const auto wide = steps<double>(n, seed);
      for (const index_t k : {0, 1, 2, 5, 200, 5000}) {
        for (const double p : {1 / 64.0, 0.25, 0.5, 61 / 64.0, 1.0}) {
          for (const double least : {0.0, 3 / 64.0, 0.25, 1.0}) {
            const Truncation t{k, p, least};
            REQUIRE(truncated(single, t) == by_sorting(single, t));
            REQUIRE(truncated(wide, t) == by_sorting(wide, t));
          }
        }
      }
    }
  }
  auto w = steps<float>(1001, 9);
  const auto before = allocations();
  truncate_row(Truncation{40, 0.9, 0.01}, std::span<float>(w));
  CHECK(allocations() == before);
}

TEST_CASE("what no truncation can be is refused") {
  CHECK_THROWS_WITH_AS((Truncation{.top_k = -1}.check()), "top_k: found -1, wanted at least 0 (0: all)", Error);
  CHECK_THROWS_WITH_AS((Truncation{.top_p = 0}.check()), "top_p: found 0, wanted more than 0, at most 1", Error);
  CHECK_THROWS_WITH_AS((Truncation{.top_p = not_a_number}.check()), "top_p: found nan, wanted more than 0, at most 1",
                       Error);
  CHECK_THROWS_WITH_AS((Truncation{.min_p = 1.5}.check()), "min_p: found 1.5, wanted 0 to 1", Error);
  DecodeOptions o;
  o.draft_truncation = Truncation{.min_p = -1};
  CHECK_THROWS_WITH_AS(o.checked(10, 12), "min_p: found -1, wanted 0 to 1", Error);
}

TEST_CASE("argmax: the first largest; a NaN is larger than all") {
  const auto of = [](std::vector<float> x) { return argmax_row(x.data(), static_cast<index_t>(x.size())); };
  CHECK(of({3}) == 0);
  CHECK(of({1, 3, 3, 2}) == 1);
  CHECK(of({-inf, -inf}) == 0);
  CHECK(of({1, inf, inf}) == 1);
  CHECK(of({inf, not_a_number, 1, not_a_number}) == 1);
  CHECK(of({not_a_number, inf}) == 0);
}

TEST_CASE("a token is chosen only from logits with a finite largest one and no NaN") {
  for (const double temperature : {0.0, 1.0}) {
    const auto choose = [&](std::vector<float> x) {
      return choose_row(Cpu{1}, {0, {temperature, 1}, Decision::token, 5}, Matrix<float>(x.data(), 1, 3));
    };
    CHECK(choose({-inf, 2, -inf}) == 1);
    for (const std::vector<float>& x : {std::vector<float>{not_a_number, not_a_number, not_a_number},
                                        {1, not_a_number, 2},
                                        {5, 2, not_a_number},
                                        {1, inf, 2},
                                        {-inf, -inf, -inf}}) {
      CHECK(choose(x) == std::nullopt);
    }
  }
}

TEST_CASE("stop strings end where a search of the whole text finds them, however it is cut") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Philox random(seed, 5);
    std::uint64_t drawn = 0;
    const auto letters = [&](std::uint64_t n) {
      std::string s;
      for (std::uint64_t i = 0; i < n; ++i) s += random.below(drawn++, 2) == 0 ? 'a' : 'b';
      return s;
    };
    std::vector<std::string> strings;
    for (std::uint64_t i = 0, n = 1 + random.below(drawn++, 3); i < n; ++i) strings.push_back(letters(3 + 2 * i));
    const std::string text = letters(40);
    std::size_t wanted = std::string::npos;
    for (const auto& s : strings) {
      if (const auto at = text.find(s); at != std::string::npos) wanted = std::min(wanted, at + s.size());
    }
    StopStrings stops(strings);
    for (int round = 0; round < 2; ++round) {
      std::size_t begin = 0, found = std::string::npos;
      while (begin < text.size() && found == std::string::npos) {
        const auto piece = std::string_view(text).substr(begin, random.below(drawn++, 5));
        if (const auto end = stops.feed(piece)) found = begin + *end;
        begin += piece.size();
      }
      REQUIRE(found == wanted);
      stops.reset();
    }
  }
  // The string begins again inside what it began with: the two ends of "aabaaa" share "aa".
  CHECK(StopStrings({"aabaaac"}).feed("aabaaabaaac") == 11);
  CHECK_THROWS_WITH_AS(
      StopStrings({"a", ""}),
      "stop string: found an empty one, wanted at least one byte: it would end a text before it begins", Error);
}

TEST_CASE("a text ends with a stop token, a stop string or its length, and says with which") {
  DecodeOptions o;
  o.max_new_tokens = 4;
  o.stop_token_ids = {7, 300};
  o.stop_strings = {"yab", "bca"};
  o.token_bytes = byte_of_token;
  using enum FinishReason;
  const auto ends = [&](const std::vector<index_t>& tokens, std::size_t n, FinishReason reason) {
    const auto r = push_all(o, tokens);
    CHECK(r.tokens == std::vector<index_t>(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)));
    CHECK(r.finish == reason);
    CHECK(r.bytes_after_stop == 0);
  };
  ends({1, 2, 3, 4, 5}, 4, length);
  ends({1, 300, 3}, 2, stop_token);
  ends({1, 2, 3, 7}, 4, stop_token);
  // The prompt's y is no part of it; a token without bytes does not part a string.
  ends({'a', 'b', 'c', 'a', 0}, 4, stop_string);
  ends({'b', 'c', 259, 'a', 0}, 4, stop_string);
  // A token of several bytes may go on behind the string.
  o.token_bytes = [](index_t t) -> std::string_view { return t == 1 ? "xb" : "cabca"; };
  const auto r = push_all(o, {1, 2, 3});
  CHECK(r.tokens == std::vector<index_t>{1, 2});
  CHECK(r.finish == stop_string);
  CHECK(r.bytes_after_stop == 3);
  o.token_bytes = {};
  CHECK_THROWS_WITH_AS(o.checked(10, 301), "token_bytes: found nothing, wanted the tokens' bytes, to find stop_strings",
                       Error);
  CHECK_THROWS_WITH_AS(o.checked(10, 300), "stop_token_ids: found 300, wanted 0 to 299", Error);
  o.stop_strings = {""};
  CHECK_THROWS_WITH_AS(o.checked(10, 301), doctest::Contains("stop string: found an empty one"), Error);
  o.stop_strings = {}, o.stop_token_ids = {-1};
  CHECK_THROWS_WITH_AS(o.checked(10, 300), "stop_token_ids: found -1, wanted 0 to 299", Error);
}

TEST_CASE("accept length is emitted tokens over forwards, the prompt's token left out") {
  DecodeResult r;
  CHECK(r.accept_length() == 0);
  r.tokens = {1, 2, 3, 4, 5, 6, 7};
  r.target_forwards = 3, r.drafted = 12, r.accepted = 6;  // the end inside a block: 1 + 6 / 3 would be 3
  CHECK(r.accept_length() == 2);
  CHECK(r.tokens_after_first() == 6);
}

TEST_CASE("a ratio of times is told only where they differ by more than their spread") {
  using examples::ratio_text, examples::Spread;
  const auto s = Spread::of({4, 1, 3, 2, 10});
  CHECK(s.low == 2);
  CHECK(s.median == 3);
  CHECK(s.high == 4);
  CHECK(s.text() == "3.000 (2.000-4.000)");
  CHECK(Spread::of({4, 1}).median == 2.5);
  CHECK(Spread::of({4, 1}).low == 1.75);
  CHECK(Spread::of({}).median == 0);
  CHECK(ratio_text(s, Spread::of({1.1, 1.1, 1.1})) == "within spread");
  CHECK(ratio_text(s, Spread::of({1, 1, 1})) == "3.00");
  CHECK(ratio_text(s, Spread::of({0.9, 0.9, 0.9})) == "3.33");
  CHECK(ratio_text(Spread::of({1, 1, 1}), Spread::of({1.9, 2, 2.1})) == "0.50");
  CHECK(ratio_text(Spread::of({1.1, 1.1, 1.1}), s) == "within spread");
  CHECK(ratio_text(Spread::of({5, 5}), Spread::of({1, 1, 1})) == "too few runs");
  CHECK(ratio_text(Spread::of({5, 5, 5}), Spread::of({1})) == "too few runs");
}

TEST_CASE("stop tokens of configs, and masks that are none of them") {
  CHECK(stop_token_ids<configs::KimiK3>() == std::vector<index_t>{163586, 163585});
  CHECK(stop_token_ids<configs::KimiK3Tiny>() == std::vector<index_t>{257});
  CHECK(stop_token_ids<configs::DeepSeekV3>() == std::vector<index_t>{1});
  CHECK_THROWS_WITH_AS(check_mask_token<Masked>(),
                       "mask_token_id: found 163585, wanted another token than those that end a text", Error);
}

TEST_CASE("logit bias and penalties") {
  const LogitProcessor bias = LogitBias({{2, 1.5}, {0, -HUGE_VAL}}, 4);
  CHECK(processed(bias, {}, 0, {1, 2, 3, 4}) == std::vector<float>{-inf, 2, 4.5F, 4});
  CHECK_THROWS_WITH_AS(LogitBias({{4, 0}}, 4), "logit bias: token: found 4, wanted 0 to 3", Error);
  CHECK_THROWS_WITH_AS(LogitBias({{1, HUGE_VAL}}, 4), "logit bias: found inf, wanted a number or -inf", Error);

  // Repetition: once for each token of the text; presence and frequency: of those that were generated.
  const std::vector<index_t> text{3, 3, 1, 0, 1};
  const std::vector<float> logits{-1, 2, 3, 4};
  const LogitProcessor repetition = Penalties({.repetition = 2}, 4), presence = Penalties({.presence = 0.5}, 4),
                       frequency = Penalties({.frequency = 0.5}, 4);
  CHECK(processed(repetition, text, 2, logits) == std::vector<float>{-2, 1, 3, 2});
  CHECK(processed(presence, text, 2, logits) == std::vector<float>{-1.5F, 1.5F, 3, 4});
  CHECK(processed(frequency, text, 2, logits) == std::vector<float>{-1.5F, 1, 3, 4});
  CHECK(processed(frequency, text, 2, logits) == std::vector<float>{-1.5F, 1, 3, 4});
  CHECK(processed(in_turn(Penalties({2, 0.25, 0.5}, 4), LogitBias({{1, 8}}, 4)), text, 2, logits) ==
        std::vector<float>{-2.75F, 7.75F, 3, 2});
  CHECK(processed({}, text, 2, logits) == logits);
  CHECK_THROWS_WITH_AS(Penalties({.repetition = 0}, 4), "repetition penalty: found 0, wanted a number > 0", Error);
  CHECK_THROWS_WITH_AS(Penalties({.presence = not_a_number}, 4), "presence penalty: found nan, wanted a finite number",
                       Error);
}
