#pragma once
/// \file
/// Lossless speculative decoding: a draft proposes tokens, one target forward checks them, those that stay are kept and
/// the target's own next token is added (decode/verify.hpp). The target's state, its recurrent layers included, is then
/// exactly that of the kept tokens.
/// defines: SpeculativeDecoder

#include <k3spec/decode/draft_session.hpp>
#include <k3spec/decode/plain.hpp>

namespace k3spec {

/// Target and draft may be of different configs as long as the widths agree.
/// \tparam Session  Eagle3Session<Draft, T> or BlockSession<Draft, T>
template <class TargetConfig, DraftSession Session>
class SpeculativeDecoder {
  static_assert(Session::target_hidden == TargetConfig::hidden_size,
                "SpeculativeDecoder: the draft's target_hidden_size must be the target's hidden_size");
  static_assert(Session::vocabulary == TargetConfig::vocab_size,
                "SpeculativeDecoder: draft and target must share one vocabulary");

 public:
  using T = typename Session::value_type;
  using Target = FrozenTarget<TargetConfig, T>;

  /// \param layers       the target layers whose states the draft reads, as the conventions count them, in fc's order
  /// \param conventions  what the draft was trained with: LoadedDraft has them
  /// \param draft        what the session is made of, see there
  /// \param capacity     the most positions of prompt and generated tokens together
  /// \throws Error on options out of range, another number of layers, or what the session refuses
  SpeculativeDecoder(const Target& target, std::span<const index_t> layers,
                     const typename Session::Conventions& conventions, typename Session::Source draft, index_t capacity,
                     const DecodeOptions& options)
      : options_(options.checked(capacity, Session::max_chain)),
        chain_(options.chain.value_or(Session::default_chain)),
        capacity_(capacity),
        target_(target, Session::taps(layers, TargetConfig::num_hidden_layers, conventions), capacity + chain_, rows(),
                chain_ + 1, chain_ + 1),
        draft_(target, std::move(draft), {capacity, rows(), chain_, options.temperature != 0, options.min_confidence}),
        block_(static_cast<std::size_t>(chain_ + 1)) {}

  /// Tokens drafted per verification.
  index_t chain() const { return chain_; }

  /// What generate draws from now on; see DecodeOptions.
  void reseed(std::uint64_t seed) { options_.seed = seed; }

  /// Greedy: equals PlainDecoder::generate, token for token. At a temperature: equals it in distribution.
  /// \throws Error on an empty prompt or one that leaves no room
  DecodeResult generate(const Cpu& cpu, std::span<const index_t> prompt) {
    require_prompt(prompt, capacity_, options_);
    DecodeResult result;
    if (options_.max_new_tokens == 0) return result;
    result.tokens.reserve(static_cast<std::size_t>(options_.max_new_tokens));
    result.tokens.push_back(read_prompt(cpu, prompt));
    while (!options_.is_complete(result)) extend(cpu, result);
    return result;
  }

 private:
  using S = accumulate_t<T>;

  index_t rows() const { return std::max(std::min(options_.prefill_chunk, capacity_), chain_ + 1); }

  /// \returns the first generated token
  index_t read_prompt(const Cpu& cpu, std::span<const index_t> prompt) {
    draft_.reset();
    const auto n = static_cast<index_t>(prompt.size());
    std::vector<index_t> next;
    prefill(cpu, target_, prompt, options_.prefill_chunk, [&](index_t begin, index_t count) {
      const index_t end = begin + count;
      next.assign(prompt.begin() + begin + 1, prompt.begin() + std::min(end + 1, n));
      if (end == n) next.push_back(options_.sampling().choose(cpu, target_.logits(), Decision::token, n));
      draft_.append(cpu, target_.tapped(count), next);
    });
    return next.back();
  }

  /// One round: draft, verify, keep, roll back.
  void extend(const Cpu& cpu, DecodeResult& result) {
    const index_t left = options_.max_new_tokens - static_cast<index_t>(result.tokens.size());
    // The target adds one token of its own.
    const Proposal<S> proposal = draft_.draft(cpu, std::min(chain_, left - 1), options_.sampling());
    const Verdict verdict = verify(cpu, result.tokens.back(), proposal);
    ++result.target_forwards;
    result.drafted += proposal.size();
    // What follows the first of the block: the kept tokens and the target's own.
    const auto fresh = std::span(block_).first(static_cast<std::size_t>(verdict.accepted + 1));
    std::copy_n(proposal.tokens.begin(), verdict.accepted, fresh.begin());
    fresh.back() = verdict.next;
    for (index_t i = 0; i <= verdict.accepted && !options_.is_complete(result); ++i) {
      result.tokens.push_back(fresh[static_cast<std::size_t>(i)]);
      if (i < verdict.accepted) ++result.accepted;
    }
    if (!options_.is_complete(result)) draft_.append(cpu, target_.tapped(verdict.accepted + 1), fresh);
  }

  /// Runs the target on `last` and the proposed tokens, and keeps those that stay.
  Verdict verify(const Cpu& cpu, index_t last, const Proposal<S>& proposal) {
    const index_t n = proposal.size(), position = target_.length() + 1;
    block_[0] = last;
    std::copy(proposal.tokens.begin(), proposal.tokens.end(), block_.begin() + 1);
    target_.forward(cpu, std::span(block_).first(static_cast<std::size_t>(n + 1)), n + 1);
    const Verdict verdict = options_.sampling().is_greedy()
                                ? verify_greedy(proposal.tokens, target_.top(cpu))
                                : verify_sampled(
                                      options_.verification, proposal, [&](index_t i) { return weigh(cpu, i); },
                                      options_.sampling(), position);
    target_.accept(verdict.accepted + 1);
    return verdict;
  }

  /// The target's distribution after token i of the last forward.
  Distribution<S> weigh(const Cpu& cpu, index_t i) {
    const auto row = target_.logits().rows(i, 1);
    options_.sampling().weigh(cpu, row);
    return Distribution<S>({row.data(), static_cast<std::size_t>(row.extent(1))});
  }

  DecodeOptions options_;
  index_t chain_, capacity_;
  TargetSession<TargetConfig, T> target_;
  Session draft_;
  std::vector<index_t> block_;
};

}  // namespace k3spec
