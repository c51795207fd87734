#pragma once
/// \file
/// Everything that decoding with a draft can do on a vocabulary so small that all of it can be gone through: which
/// texts come out, each with its exact probability. A rule of verification is not trusted with its own formulas: the
/// random numbers at which its verdict changes are found by bisection.
/// defines: test::TinyTexts, test::law_of_round, test::law_of_texts, test::expected_length

#include <array>
#include <cmath>
#include <map>
#include <vector>

#include <k3spec/decode/verify.hpp>

namespace k3spec::test {

using Text = std::vector<index_t>;

inline Text joined(Text text, index_t token) {
  text.push_back(token);
  return text;
}

/// What a target and a draft say after any text: weights made from the text, a few of them 0. Drafts end where the text
/// says so, at once now and then, and after `chain` tokens.
struct TinyTexts {
  std::uint64_t seed;
  index_t vocabulary, chain;
  bool ends_early = true;

  double number(const Text& text, std::uint64_t what) const {
    std::uint64_t at = 1;
    for (const index_t x : text) at = at * 7 + static_cast<std::uint64_t>(x) + 1;
    return Philox(seed, what).uniform(at);
  }
  std::vector<double> weights(const Text& text, std::uint64_t what) const {
    std::vector<double> w;
    for (index_t j = 0; j < vocabulary; ++j) {
      const double u = number(text, what + 2 * static_cast<std::uint64_t>(j));
      w.push_back(u < 0.15 ? 0 : 3 * u * u);
    }
    w[static_cast<std::size_t>(number(text, what + 100) * static_cast<double>(vocabulary))] += 0.3;
    return w;
  }
  std::vector<double> target(const Text& text) const { return weights(text, 10); }
  std::vector<double> draft(const Text& text) const { return weights(text, 11); }
  bool ends(const Text& text) const { return ends_early && number(text, 7) < 0.2; }
};

inline double share(const std::vector<double>& w, index_t token) {
  double total = 0;
  for (const double x : w) total += x;
  return w[static_cast<std::size_t>(token)] / total;
}

/// The u in [0, 1] below which `holds(u)` is true, false from there on.
template <class F>
double bound_of(F&& holds) {
  constexpr double last = 1 - 0x1p-53;
  if (!holds(0.0)) return 0;
  if (holds(last)) return 1;
  double below = 0, above = last;
  for (int i = 0; i < 60; ++i) {
    const double u = (below + above) / 2;
    (holds(u) ? below : above) = u;
  }
  return above;
}

/// One drafted block and what a rule makes of it.
template <class Rule>
class BlockLaw {
 public:
  /// \param by_block  the longest prefix stays whose number is low enough, not only the first ones all of which are
  BlockLaw(const TinyTexts& texts, const Text& text, const Text& drafted, const Rule& rule, bool by_block)
      : drafted_(drafted), rule_(rule), by_block_(by_block), numbers_(drafted.size() + 1) {
    Text before = text;
    for (const index_t x : drafted) {
      for (const double w : texts.draft(before)) q_.push_back(w);
      target_.push_back(texts.target(before));
      before.push_back(x);
    }
    target_.push_back(texts.target(before));
  }

  /// f(tokens accepted, the one after them, probability)
  template <class F>
  void for_each(F&& f) {
    const auto n = static_cast<index_t>(drafted_.size());
    std::vector<double> stays(drafted_.size() + 1, 1.0);
    for (index_t i = 1; i <= n; ++i) {
      set(i, i);
      stays[at(i)] = bound_of([&](double u) {
        numbers_[at(i - 1)] = u;
        return verdict(0).accepted >= i;
      });
    }
    for (index_t i = 0; i <= n; ++i) {
      const double p = probability(stays, i);
      if (p <= 0) continue;
      set(i, n + 1);
      double before = 0;
      for (index_t x = 0; x < static_cast<index_t>(target_[0].size()); ++x) {
        const double bound = bound_of([&](double u) { return verdict(u).next <= x; });
        f(i, x, p * (bound - before));
        before = bound;
      }
    }
  }

 private:
  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

  /// That the first i tokens stay and no more.
  double probability(const std::vector<double>& stays, index_t i) const {
    const auto n = static_cast<index_t>(drafted_.size());
    double p = by_block_ ? stays[at(i)] : i == n ? 1 : 1 - stays[at(i + 1)];
    for (index_t j = 1; j <= n; ++j) {
      if (by_block_ && j > i) p *= 1 - stays[at(j)];
      if (!by_block_ && j <= i) p *= stays[at(j)];
    }
    return p;
  }

  /// Numbers for which the first `low` tokens stay, token `asked` is what is asked for, and no others do.
  void set(index_t low, index_t asked) {
    for (index_t i = 1; i <= static_cast<index_t>(drafted_.size()); ++i) {
      numbers_[at(i - 1)] = i <= low && i != asked ? 0 : 1 - 0x1p-53;
    }
  }

  Verdict verdict(double u) const {
    const Proposal<double> proposal{drafted_, Matrix<const double>(q_.data(), static_cast<index_t>(drafted_.size()),
                                                                   static_cast<index_t>(target_[0].size()))};
    return rule_(
        proposal, [&](index_t i) { return Distribution<double>(std::span<const double>(target_[at(i)])); },
        [&](Decision d, index_t i) { return d == Decision::token ? u : numbers_[at(i)]; });
  }

  Text drafted_;
  const Rule& rule_;
  bool by_block_;
  std::vector<double> q_, numbers_;
  std::vector<std::vector<double>> target_;
};

/// f(text after the round, tokens accepted, probability) for every round that may follow a text.
template <class Rule, class F>
void law_of_round(const TinyTexts& texts, const Text& text, const Rule& rule, bool by_block, F&& f) {
  const auto go = [&](const auto& self, const Text& drafted, double p) -> void {
    Text so_far = text;
    so_far.insert(so_far.end(), drafted.begin(), drafted.end());
    if (static_cast<index_t>(drafted.size()) == texts.chain || texts.ends(so_far)) {
      BlockLaw<Rule>(texts, text, drafted, rule, by_block).for_each([&](index_t accepted, index_t next, double share) {
        Text after(so_far.begin(), so_far.end() - (static_cast<index_t>(drafted.size()) - accepted));
        f(joined(after, next), accepted, p * share);
      });
      return;
    }
    const auto q = texts.draft(so_far);
    for (index_t x = 0; x < texts.vocabulary; ++x) {
      if (share(q, x) > 0) self(self, joined(drafted, x), p * share(q, x));
    }
  };
  go(go, {}, 1);
}

/// The largest difference, over all texts of `length` tokens, of the probability that decoding gives it, in as many
/// rounds as that takes, from the target's own.
template <class Rule>
double law_of_texts(const TinyTexts& texts, std::size_t length, const Rule& rule, bool by_block) {
  std::map<std::pair<std::size_t, Text>, double> open{{{0, {}}, 1.0}};
  std::map<Text, double> law, exact;
  while (!open.empty()) {
    const auto [key, p] = *open.begin();
    open.erase(open.begin());
    law_of_round(texts, key.second, rule, by_block, [&, p = p](Text text, index_t, double share) {
      if (text.size() >= length) {
        text.resize(length);
        law[text] += p * share;
      } else {
        open[{text.size(), text}] += p * share;
      }
    });
  }
  const auto go = [&](const auto& self, const Text& text, double p) -> void {
    if (text.size() == length) {
      exact[text] = p;
      return;
    }
    for (index_t x = 0; x < texts.vocabulary; ++x) self(self, joined(text, x), p * share(texts.target(text), x));
  };
  go(go, {}, 1);
  double worst = 0;
  for (const auto& [text, p] : exact) worst = std::max(worst, std::abs(law[text] - p));
  return worst;
}

/// Tokens that a round after nothing accepts, on average.
template <class Rule>
double expected_length(const TinyTexts& texts, const Rule& rule, bool by_block) {
  double sum = 0;
  law_of_round(texts, {}, rule, by_block,
               [&](const Text&, index_t accepted, double p) { sum += p * static_cast<double>(accepted); });
  return sum;
}

}  // namespace k3spec::test
