#pragma once
/// \file
/// Do tokens drawn with a draft have the target's distribution? On a target so small that all of it is known, and on
/// k3-tiny.
/// defines: test::Small, test::small_target, test::distributions, test::exact_small_by, test::exact_small, test::small_p, test::tiny_p

#include <doctest/doctest.h>

#include <map>

#include "tests/decode/chi_square.hpp"
#include "tests/decode/tiny.hpp"

namespace k3spec::test {

struct Small : configs::KimiK3Tiny {
  static constexpr index_t vocab_size = 12, draft_vocab_size = 7;
  static constexpr index_t hidden_size = 16, target_hidden_size = 16;
  static constexpr index_t intermediate_size = 24;
  static constexpr index_t num_hidden_layers = 4;
  static constexpr std::optional<index_t> bos_token_id = 8, eos_token_id = 9, pad_token_id = 10;
  static constexpr index_t num_attention_heads = 2, num_key_value_heads = 2;
  static constexpr std::optional<index_t> q_lora_rank = 8;
  static constexpr index_t kv_lora_rank = 8, qk_nope_head_dim = 8, qk_rope_head_dim = 4, v_head_dim = 8;
  static constexpr index_t kda_num_heads = 2, kda_head_dim = 8;
  static constexpr auto full_attn_layers = configs::detail::every_fourth_and_last<4>();
  static constexpr index_t num_experts = 4, moe_intermediate_size = 16, routed_expert_hidden_size = 16;
};

inline const FrozenTarget<Small, float>& small_target() {
  static const auto made = [] {
    auto p = std::make_unique<Parameters<K3Target<Small>, float>>();
    p->initialize(1, 0.4);
    return p;
  }();
  static const FrozenTarget<Small, float> target(made->weights());
  return target;
}

inline void softmax(std::span<double> x) {
  double total = 0;
  for (double& v : x) total += v = std::exp(v);
  for (double& v : x) v /= total;
}

/// Logits become probabilities, whatever the text.
struct Plainly {
  void operator()(std::span<const index_t>, std::vector<double>& x) const { softmax(x); }
};

/// The target's distribution after each of the last `choices` tokens of a text. \param choose  (text, logits -> p)
template <class Config, class Choose = Plainly>
std::vector<std::vector<double>> distributions(const FrozenTarget<Config, float>& target, std::vector<index_t> text,
                                               index_t choices, const Choose& choose = {}) {
  const auto n = static_cast<index_t>(text.size());
  TargetSession<Config, float> session(target, {}, {n, n, choices, 0});
  session.forward(Cpu{}, text, choices);
  std::vector<std::vector<double>> all;
  for (index_t r = 0; r < choices; ++r) {
    const float* x = session.logits().row(r);
    std::vector<double> p(x, x + Config::vocab_size);
    choose(std::span(text).first(static_cast<std::size_t>(n - choices + r + 1)), p);
    all.push_back(std::move(p));
  }
  return all;
}

/// Of the four tokens after small_prompt: tokens 1 to 3 together, and tokens 3 and 4 together.
struct ExactSmall {
  static constexpr auto n = static_cast<std::size_t>(Small::vocab_size);
  std::vector<double> first = std::vector<double>(n * n * n), last = std::vector<double>(n * n);
};
inline const std::vector<index_t> small_prompt{5, 2};

template <class Choose = Plainly>
ExactSmall exact_small_by(const Choose& choose = {}) {
  ExactSmall e;
  constexpr std::size_t n = ExactSmall::n;
  for (std::size_t i = 0; i < n * n * n; ++i) {
    const std::array<std::size_t, 3> t{i / n / n, i / n % n, i % n};
    std::vector<index_t> text = small_prompt;
    for (const std::size_t x : t) text.push_back(static_cast<index_t>(x));
    const auto p = distributions(small_target(), text, 4, choose);
    e.first[i] = p[0][t[0]] * p[1][t[1]] * p[2][t[2]];
    for (std::size_t x = 0; x < n; ++x) e.last[t[2] * n + x] += e.first[i] * p[3][x];
  }
  return e;
}

inline const ExactSmall& exact_small() {
  static const ExactSmall exact = exact_small_by();
  return exact;
}

/// The p of two tests together of 20,000 texts, or as many as said, of four tokens by a decoder for the small target,
/// of which the draft gave a good part: twice the lesser one, for one of two is below x with probability 2 x. The first
/// token is the prompt's own, the second and third are drafted, the fourth is the target's own when both stay.
template <class Decoder>
double small_p(Decoder& decoder, double least_accepted = 0.1, const ExactSmall& exact = exact_small(),
               std::uint64_t texts = 20000) {
  constexpr std::size_t n = ExactSmall::n;
  ExactSmall counts;
  index_t drafted = 0, accepted = 0;
  for (std::uint64_t seed = 0; seed < texts; ++seed) {
    decoder.reseed(seed);
    const auto result = decoder.generate(Cpu{1}, small_prompt);
    const auto at = [&](std::size_t i) { return static_cast<std::size_t>(result.tokens[i]); };
    ++counts.first[(at(0) * n + at(1)) * n + at(2)];
    ++counts.last[at(2) * n + at(3)];
    drafted += result.drafted, accepted += result.accepted;
  }
  MESSAGE(accepted, " of ", drafted, " drafted tokens accepted");
  CHECK(static_cast<double>(accepted) >= least_accepted * static_cast<double>(drafted));
  const double first = p_value(counts.first, exact.first), last = p_value(counts.last, exact.last);
  return std::min(1.0, 2 * std::min(first, last));
}

/// The test's p for 20,000 second tokens after a prompt of k3-tiny, whatever the first: each went through the rule. The
/// target runs once for each first token, the draft every time.
template <class Session>
double tiny_p(Session& session, std::vector<Tap> taps, double least_accepted) {
  const std::vector<index_t> prompt{84, 104, 101, 32};  // "The "
  const auto n = static_cast<index_t>(prompt.size());
  const auto first = distributions(*tiny().target, prompt, 1)[0];
  std::map<index_t, std::vector<std::uint64_t>> seeds;
  for (std::uint64_t seed = 0; seed < 20000; ++seed) {
    const double u = Sampling{1, seed}.uniform(Decision::token, n);
    seeds[pick(Config::vocab_size, 1.0, u, [&](index_t j) { return first[static_cast<std::size_t>(j)]; })].push_back(
        seed);
  }
  std::vector<double> counts(Config::vocab_size), exact(Config::vocab_size);
  double accepted = 0;
  TargetSession<Config, float> target(*tiny().target, taps, {16, 16, 1, 0});
  for (index_t x = 0; x < Config::vocab_size; ++x) {
    std::vector<index_t> text = prompt, next(prompt.begin() + 1, prompt.end());
    text.push_back(x), next.push_back(x);
    target.reset();
    target.forward(Cpu{}, text, 1);
    session.reset();
    session.append(Cpu{}, target.tapped(n), next);
    weigh_row(Cpu{}, Sampling{1, 0}, target.logits());
    const Distribution<float> p({target.logits().data(), static_cast<std::size_t>(Config::vocab_size)});
    for (index_t y = 0; y < Config::vocab_size; ++y) {
      exact[static_cast<std::size_t>(y)] += first[static_cast<std::size_t>(x)] * p[y] / p.total;
    }
    for (const std::uint64_t seed : seeds[x]) {
      const Sampling sampling{1, seed};
      const auto proposal = session.draft(Cpu{}, 1, sampling);
      const index_t drafted = proposal.tokens[0];
      const Verdict v = verify_sampled(
          Verification::token, proposal, [&](index_t) { return p; }, sampling, n + 1);
      ++counts[static_cast<std::size_t>(v.accepted == 1 ? drafted : v.next)];
      accepted += static_cast<double>(v.accepted);
    }
  }
  MESSAGE((accepted / 20000), " of the drafted tokens accepted");
  CHECK(accepted >= least_accepted * 20000);
  return p_value(counts, exact);
}

}  // namespace k3spec::test
