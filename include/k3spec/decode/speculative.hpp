#pragma once
/// \file
/// Lossless speculative decoding (Leviathan et al., arXiv 2211.17192), greedy: the draft proposes a chain, one target
/// forward checks it, the right prefix is kept and the target's own next token is added. The target's state, its
/// recurrent layers included, is then exactly that of the kept tokens.
/// defines: SpeculativeDecoder

#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/greedy.hpp>

namespace k3spec {

/// TargetConfig and Draft may be of different configs as long as the widths agree.
template <class TargetConfig, class Draft, Element T>
class SpeculativeDecoder {
  static_assert(Draft::aux_size == TargetConfig::hidden_size,
                "SpeculativeDecoder: the draft's target_hidden_size must be the target's hidden_size");
  static_assert(Draft::vocabulary == TargetConfig::vocab_size,
                "SpeculativeDecoder: draft and target must share one vocabulary");

 public:
  /// \param aux_layers  the target layers whose states the draft reads (0-based, after the layer), in fc's order
  /// \param to_target   [draft vocabulary] the target's id of each draft token
  /// \param capacity    the most positions of prompt and generated tokens together
  /// \throws Error on options out of range, another number of layers or of draft tokens
  SpeculativeDecoder(const FrozenTarget<TargetConfig, T>& target, std::span<const index_t> aux_layers,
                     const typename Draft::template Weights<const T>& draft, std::vector<index_t> to_target,
                     index_t capacity, const DecodeOptions& options)
      : options_(options.checked(capacity, Draft::max_steps)),
        capacity_(capacity),
        target_(target, eagle3_taps(aux_layers, TargetConfig::num_hidden_layers), capacity + options.chain,
                rows(options, capacity), options.chain + 1),
        draft_(draft, std::move(to_target), capacity, rows(options, capacity), options.chain),
        block_(static_cast<std::size_t>(options.chain + 1)) {
    if (static_cast<index_t>(aux_layers.size()) != Draft::num_aux) {
      throw Error("aux layers", std::to_string(aux_layers.size()), std::to_string(Draft::num_aux));
    }
  }

  /// Equals GreedyDecoder::generate, token for token.
  /// \throws Error on an empty prompt or one that leaves no room
  DecodeResult generate(const Cpu& cpu, std::span<const index_t> prompt) {
    require_prompt(prompt, capacity_, options_);
    DecodeResult result;
    if (options_.max_new_tokens == 0) return result;
    result.tokens.reserve(static_cast<std::size_t>(options_.max_new_tokens));
    result.tokens.push_back(read_prompt(cpu, prompt));
    while (!done(result)) extend(cpu, result);
    return result;
  }

 private:
  static index_t rows(const DecodeOptions& o, index_t capacity) {
    return std::max(std::min(o.prefill_chunk, capacity), o.chain + 1);
  }

  index_t read_prompt(const Cpu& cpu, std::span<const index_t> prompt) {
    draft_.reset();
    const auto n = static_cast<index_t>(prompt.size());
    std::vector<index_t> next;
    return prefill(cpu, target_, prompt, options_.prefill_chunk, [&](index_t begin, index_t count) {
      const index_t end = begin + count;
      next.assign(prompt.begin() + begin + 1, prompt.begin() + std::min(end + 1, n));
      if (end == n) next.push_back(target_.top(1)[0]);
      draft_.append(cpu, target_.tapped(count), next);
    });
  }

  bool done(const DecodeResult& r) const {
    return static_cast<index_t>(r.tokens.size()) >= options_.max_new_tokens || r.tokens.back() == options_.eos_token_id;
  }

  /// One round: draft, verify, keep, roll back.
  void extend(const Cpu& cpu, DecodeResult& result) {
    const index_t left = options_.max_new_tokens - static_cast<index_t>(result.tokens.size());
    // The target adds one token of its own.
    const index_t chain = std::min(options_.chain, left - 1);
    block_[0] = result.tokens.back();
    const auto drafted = draft_.draft(cpu, chain);
    std::copy(drafted.begin(), drafted.end(), block_.begin() + 1);
    target_.forward(cpu, std::span(block_).first(static_cast<std::size_t>(chain + 1)), chain + 1);
    const auto top = target_.top(chain + 1);
    index_t kept = 0;
    while (kept < chain && drafted[static_cast<std::size_t>(kept)] == top[static_cast<std::size_t>(kept)]) ++kept;
    target_.accept(kept + 1);
    ++result.target_forwards;
    result.drafted += chain;
    for (index_t i = 0; i <= kept && !done(result); ++i) {
      result.tokens.push_back(top[static_cast<std::size_t>(i)]);
      if (i < kept) ++result.accepted;
    }
    if (!done(result)) draft_.append(cpu, target_.tapped(kept + 1), top.first(static_cast<std::size_t>(kept + 1)));
  }

  DecodeOptions options_;
  index_t capacity_;
  TargetSession<TargetConfig, T> target_;
  Eagle3Session<Draft, T> draft_;
  std::vector<index_t> block_;
};

}  // namespace k3spec
