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
      : options_(options.checked(capacity, TargetConfig::vocab_size, Session::max_chain)),
        chain_(options.chain.value_or(Session::default_chain(conventions))),
        capacity_(capacity),
        text_(options),
        target_(target, Session::taps(layers, TargetConfig::num_hidden_layers, conventions), capacity + chain_, rows(),
                chain_ + 1, chain_ + 1),
        draft_(target, std::move(draft), {capacity, rows(), chain_, options.temperature != 0, options.min_confidence}),
        block_(static_cast<std::size_t>(chain_ + 1)) {}

  /// Tokens drafted per verification.
  index_t chain() const { return chain_; }

  /// What generate draws from now on; see DecodeOptions.
  void reseed(std::uint64_t seed) { options_.seed = seed; }

  /// Greedy: equals PlainDecoder::generate, token for token. At a temperature: equals it in distribution. So it is with
  /// a draft of NaNs, too, which proposes nothing that stays.
  /// \throws Error on an empty prompt or one that leaves no room, and on logits of the target without a finite largest
  ///         one for a token of the text, as plain decoding does
  DecodeResult generate(const Cpu& cpu, std::span<const index_t> prompt) {
    require_prompt(prompt, capacity_, options_);
    text_.begin(prompt, chain_);
    if (text_.ended()) return text_.take();
    text_.push(read_prompt(cpu, prompt));
    while (!text_.ended()) extend(cpu);
    return text_.take();
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
      if (end == n) next.push_back(choose_token(cpu, options_, target_.logits(), text_.text()));
      draft_.append(cpu, target_.tapped(count), next);
    });
    return next.back();
  }

  /// One round: draft, verify, keep, roll back.
  void extend(const Cpu& cpu) {
    // The target adds one token of its own.
    const Proposal<S> drafted = draft_.draft(cpu, std::min(chain_, text_.left() - 1), options_.draft_sampling());
    const auto top = run_target(cpu, drafted.tokens);
    const index_t position = text_.text().size(), sound = target_.sound();
    ++text_.result().target_forwards;
    text_.result().drafted += drafted.size();
    // A row that is not sound is an error only if the text comes to it.
    if (sound <= drafted.size()) fill_row(sound);
    const Proposal<S> proposal = drafted.first(std::min(drafted.size(), sound));
    const Verdict verdict = verify(cpu, proposal, top, position);
    target_.accept(verdict.accepted + 1);
    // What follows the first of the block: the kept tokens and the target's own.
    const auto fresh = std::span(block_).first(static_cast<std::size_t>(verdict.accepted + 1));
    std::copy_n(proposal.tokens.begin(), verdict.accepted, fresh.begin());
    fresh.back() = verdict.next;
    for (index_t i = 0; i <= verdict.accepted && !text_.ended(); ++i) {
      if (i == sound) throw_no_largest_logit(position + i);
      text_.push(fresh[static_cast<std::size_t>(i)]);
      if (i < verdict.accepted) ++text_.result().accepted;
    }
    if (!text_.ended()) draft_.append(cpu, target_.tapped(verdict.accepted + 1), fresh);
  }

  /// Runs the target on the newest token and the drafted ones, and processes its logits.
  /// \returns the likeliest token behind each
  std::span<const index_t> run_target(const Cpu& cpu, std::span<const index_t> drafted) {
    block_[0] = text_.last().front();
    std::copy(drafted.begin(), drafted.end(), block_.begin() + 1);
    const auto n = static_cast<index_t>(drafted.size());
    target_.forward(cpu, std::span(block_).first(drafted.size() + 1), n + 1);
    if (options_.logit_processor) {
      for (index_t i = 0; i <= n; ++i) {
        const auto row = target_.logits().rows(i, 1);
        options_.logit_processor(text_.text(drafted.first(static_cast<std::size_t>(i))),
                                 std::span<S>(row.data(), static_cast<std::size_t>(row.size())));
      }
    }
    return target_.top(cpu);
  }

  /// Makes a row of logits one that can be chosen from, though nothing is made of the choice.
  void fill_row(index_t i) {
    const auto row = target_.logits().rows(i, 1);
    std::fill_n(row.data(), row.size(), S(0));
  }

  /// Which of the proposed tokens stay. \param position  of the first
  Verdict verify(const Cpu& cpu, const Proposal<S>& proposal, std::span<const index_t> top, index_t position) {
    if (options_.sampling().is_greedy()) return verify_greedy(proposal.tokens, top);
    return verify_sampled(
        options_.verification, proposal, [&](index_t i) { return weigh(cpu, i); }, options_.sampling(), position);
  }

  /// The target's distribution after token i of the last forward.
  Distribution<S> weigh(const Cpu& cpu, index_t i) {
    const auto row = target_.logits().rows(i, 1);
    options_.sampling().weigh(cpu, row);
    return Distribution<S>({row.data(), static_cast<std::size_t>(row.extent(1))});
  }

  DecodeOptions options_;
  index_t chain_, capacity_;
  Continuation text_;
  TargetSession<TargetConfig, T> target_;
  Session draft_;
  std::vector<index_t> block_;
};

}  // namespace k3spec
