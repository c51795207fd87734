#pragma once
/// \file
/// A draft that follows a script: it knows the texts that are to come, and what it says of them takes as long as it is
/// told, by a clock that nothing else moves but the target's rows.
/// defines: test::Script, test::Scripted, test::ScriptedDecoder, test::scripted_options, test::add_text

#include <functional>

#include <k3spec/decode/draft_session.hpp>

#include "tests/decode/tiny.hpp"

namespace k3spec::test {

struct Script {
  std::vector<std::vector<index_t>> texts;  ///< of each place: the prompt and greedy decoding
  /// Whether the token drafted at a depth, that of a place of the text, is the right one.
  std::function<bool(index_t position, index_t depth)> right = [](index_t, index_t) { return true; };
  index_t most = 256;                                           ///< tokens that are drafted, where more are asked for
  double now = 0;                                               ///< seconds
  double draft_fixed = 0, draft_step = 0, append = 0, row = 0;  ///< seconds that things take
};

class Scripted {
 public:
  using value_type = float;
  static constexpr index_t states = 0, target_hidden = Config::hidden_size;
  static constexpr index_t vocabulary = Config::vocab_size, max_chain = 32;
  struct Source {
    Script* script;
  };
  using Conventions = Eagle3Conventions;
  static index_t default_chain(const Conventions&) { return 6; }
  static std::vector<Tap> taps(std::span<const index_t>, index_t, const Conventions&) { return {}; }
  static std::size_t bytes(const SessionSize&) { return 0; }

  template <class Target>
  Scripted(const Target&, Source source, const SessionSize& size)
      : script_(*source.script), lengths_(at(size.sequences)), proposed_(lengths_.size()) {
    for (auto& tokens : proposed_) tokens.reserve(at(size.chain));
  }

  void reset(index_t b) { lengths_[at(b)] = 0; }
  void append(const Cpu&, const Matrix<const float>&, std::span<const index_t>, std::span<const index_t> counts) {
    for (std::size_t b = 0; b < counts.size(); ++b) lengths_[b] += counts[b];
    script_.now += script_.append;
  }
  void draft(const Cpu&, std::span<const index_t> counts, std::span<const Sampling>) {
    script_.now += script_.draft_fixed;
    for (std::size_t b = 0; b < counts.size(); ++b) {
      proposed_[b].clear();
      for (index_t k = 0; k < std::min(counts[b], script_.most); ++k) add_token(b, k);
    }
  }
  Proposal<float> proposal(index_t b) const { return {proposed_[at(b)]}; }

 private:
  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  void add_token(std::size_t b, index_t k) {
    const index_t position = lengths_[b] + 1 + k, token = script_.texts[b][at(position)];
    proposed_[b].push_back(script_.right(position, k) ? token : (token + 1) % vocabulary);
    script_.now += script_.draft_step;
  }

  Script& script_;
  std::vector<index_t> lengths_;
  std::vector<std::vector<index_t>> proposed_;
};

using ScriptedDecoder = SpeculativeDecoder<Config, Scripted>;

/// By the script's clock, which each row of the target's moves on.
inline DecodeOptions scripted_options(Script& script, index_t chain, index_t tokens) {
  DecodeOptions o = decode_options(chain, tokens);
  o.clock = [&script] { return script.now; };
  o.logit_processor = [&script](const TextSoFar&, auto) { script.now += script.row; };
  return o;
}

/// Gives the next place a prompt of the miniature's, the first tokens of it. \returns the prompt
inline std::vector<index_t> add_text(Script& script, std::size_t i, std::size_t length = 64) {
  const auto prompt = tiny().prompt(i).first(length);
  PlainDecoder<Config, float> plain(*tiny().target, 200, decode_options(1, 120));
  script.texts.emplace_back(prompt.begin(), prompt.end());
  for (const index_t t : plain.generate(Cpu{1}, prompt).tokens) script.texts.back().push_back(t);
  return {prompt.begin(), prompt.end()};
}

}  // namespace k3spec::test
