#pragma once
/// \file
/// The rounds of speculative decoding: a draft proposes tokens behind every text that runs, one target forward checks
/// them, those that stay are kept and the target's own next token is added (decode/verify.hpp). The target's state, its
/// recurrent layers included, is then exactly that of the kept tokens.
/// defines: Rounds

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <k3spec/decode/drafting.hpp>
#include <k3spec/decode/next_token.hpp>
#include <k3spec/decode/running_texts.hpp>
#include <k3spec/decode/session_sizes.hpp>
#include <k3spec/decode/target_rows.hpp>

namespace K3SPEC_NAMESPACE {

/// Target and draft, and the texts that they extend.
/// \tparam Engine   see TargetEngine
/// \tparam Session  see SpeculativeDecoder
template <class Engine, class Session, Device D>
class Rounds {
  using T = typename Session::value_type;
  using Plain = accumulate_t<T>;
  using S = accumulate_t<element_t<D, T>>;
  using OfTarget = TargetRows<Engine, D>;

 public:
  /// No texts at first.
  /// \param options  that DecodeOptions::checked has passed
  /// \param chain    the most tokens drafted at a time for a text
  Rounds(const typename Engine::Target& target, const std::vector<Tap>& taps, typename Session::Source draft,
         const DecodeOptions& options, index_t chain, const DecoderSize& size, const D& device)
      : options_(options),
        chain_(chain),
        capacity_(size.capacity),
        texts_(options, size.texts),
        target_(target, taps, target_size(options, chain, size), device),
        draft_(target, std::move(draft), options, chain, size, device),
        next_token_(device, Engine::vocabulary),
        verifier_(device, verified_texts(options, size), verified_texts(options, size) * chain),
        ids_(at(draft_size(options, chain, size).rows)),
        next_(ids_.size()),
        counts_(at(size.texts)),
        choices_(counts_.size()),
        round_(counts_.size()) {
    statistics_.depths.resize(at(chain));
  }

  /// Bytes that rounds hold, as far as they depend on what is given here.
  static std::size_t bytes(const DecodeOptions& options, index_t chain, const DecoderSize& size) {
    const index_t texts = verified_texts(options, size);
    return OfTarget::bytes(Session::states / Engine::hidden, target_size(options, chain, size)) +
           Drafting<Session, D>::bytes(options, chain, size) + NextToken<D, Plain>::bytes(Engine::vocabulary) +
           Verifier<D, Plain>::bytes(texts, texts * chain) + sizeof(DepthStatistics) * at(chain);
  }

  index_t chain() const { return chain_; }
  void reseed(std::uint64_t seed) { options_.seed = seed; }
  const DecodeStatistics& statistics() const { return statistics_; }
  void reset_statistics() {
    statistics_ = {};
    statistics_.depths.resize(at(chain_));
  }
  RunningTexts& texts() { return texts_; }
  const RunningTexts& texts() const { return texts_; }

  /// See SpeculativeDecoder::add.
  index_t add(std::span<const index_t> prompt, std::optional<std::uint64_t> seed) {
    const index_t text =
        texts_.add(prompt, options_, seed.value_or(options_.seed), capacity_, Engine::vocabulary, chain_);
    target_.reset(text), draft_.reset(text, texts_[text].sampling.seed);
    return text;
  }

  /// Reads up to prefill_chunk tokens of prompts that are not read yet, those first that came first.
  void read_prompts(const D& device) {
    if (!texts_.share(options_.prefill_chunk, counts_)) return;
    Laps laps(options_.clock);
    index_t n = 0;
    for (index_t b = 0; b < texts_.places(); ++b) {
      RunningText& t = texts_[b];
      const index_t count = counts_[at(b)];
      choices_[at(b)] = count > 0 && count == t.unread() ? 1 : 0;
      if (count == 0) continue;
      const auto prompt = t.text.text().tokens.begin() + t.read;
      std::copy_n(prompt, count, ids_.begin() + n);
      std::copy_n(prompt + 1, count - choices_[at(b)], next_.begin() + n);
      n += count, t.read += count;
    }
    target_.forward(device, first(ids_, n), counts_, choices_);
    n = 0;
    for (index_t b = 0; b < texts_.places(); ++b) {
      n += counts_[at(b)];
      if (choices_[at(b)] == 0) continue;
      next_[at(n - 1)] = 0;
      texts_[b].guarded([&] { next_[at(n - 1)] = begin(device, b); });
    }
    draft_.append(device, target_.tapped(n), first(next_, n), counts_);
    ++statistics_.prefills, statistics_.prefill_seconds += laps.next();
  }

  /// One round of every text that has begun and not ended: draft, verify, keep, roll back.
  void extend_texts(const D& device) {
    const auto running = texts_.running();
    if (running.empty()) return;
    Laps laps(options_.clock);
    std::fill(counts_.begin(), counts_.end(), 0);
    // The target adds one token of its own.
    for (const index_t b : running) counts_[at(b)] = std::min(chain_, texts_[b].text.left() - 1);
    draft_.draft(device, counts_);
    const double drafting = laps.next();
    run_target(device, running);
    verify(device, running);
    const double verifying = laps.next();
    keep_all(device, running);
    const double keeping = laps.next();
    draft_.end_round(drafting, verifying, keeping);
    ++statistics_.passes, statistics_.draft_seconds += drafting;
    statistics_.verify_seconds += verifying, statistics_.keep_seconds += keeping;
  }

 private:
  /// What stays of every text's proposal, and the draft's cache with it.
  void keep_all(const D& device, std::span<const index_t> running) {
    index_t n = 0;
    for (const index_t b : running) {
      RunningText& t = texts_[b];
      counts_[at(b)] = 0;
      t.guarded([&] { counts_[at(b)] = keep(b, std::span(next_).subspan(at(n))); });
      if (t.is_finished()) counts_[at(b)] = 0;
      n += counts_[at(b)];
    }
    if (n > 0) draft_.append(device, target_.gather_tapped(device, counts_), first(next_, n), counts_);
  }

  /// A text in this round.
  struct Round {
    index_t position = 0;            ///< of the first drafted token
    index_t sound = 0;               ///< rows of the target's logits that can be chosen from, the first ones
    std::optional<index_t> drawn{};  ///< the place among the verifier's verdicts
    Verdict verdict{};
  };

  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }
  /// The first n of a vector.
  static std::span<index_t> first(std::vector<index_t>& v, index_t n) { return std::span(v).first(at(n)); }
  static index_t verified_texts(const DecodeOptions& options, const DecoderSize& size) {
    return options.temperature == 0 ? 0 : size.texts;
  }

  /// \returns a text's first token
  index_t begin(const D& device, index_t b) {
    RunningText& t = texts_[b];
    const index_t token = next_token_.choose(device, options_, t.sampling, target_.logits_of(b), t.text.text());
    t.text.push(token);
    return token;
  }

  /// Runs the target on the newest token of each text that goes on and the proposed ones, and processes its logits.
  void run_target(const D& device, std::span<const index_t> running) {
    index_t n = 0;
    std::fill(counts_.begin(), counts_.end(), 0);
    for (const index_t b : running) {
      const Proposal<S> proposal = draft_.proposal(b);
      ids_[at(n)] = texts_[b].text.last().front();
      std::copy(proposal.tokens.begin(), proposal.tokens.end(), ids_.begin() + n + 1);
      counts_[at(b)] = proposal.size() + 1;
      n += counts_[at(b)];
    }
    target_.forward(device, first(ids_, n), counts_, counts_);
    if (options_.logit_processor) {
      for (const index_t b : running) process_logits(device, b);
    }
    target_.top(device);
  }

  /// The row that the processor throws for becomes one that is not sound: plain decoding may never come to it.
  void process_logits(const D& device, index_t b) {
    RunningText& t = texts_[b];
    const auto drafted = draft_.proposal(b).tokens;
    t.row_failure = nullptr;
    for (t.failed_row = 0; t.failed_row <= static_cast<index_t>(drafted.size()); ++t.failed_row) {
      try {
        next_token_.process(device, options_.logit_processor, t.text.text(drafted.first(at(t.failed_row))),
                            target_.logits_of(b).rows(t.failed_row, 1));
      } catch (...) {
        t.row_failure = std::current_exception();
        return fill_row(device, b, t.failed_row, std::numeric_limits<double>::quiet_NaN());
      }
    }
  }

  /// Which of the proposed tokens stay, of every text.
  void verify(const D& device, std::span<const index_t> running) {
    verifier_.clear();
    for (const index_t b : running) {
      texts_[b].guarded([&] { judge(device, b); });
    }
    const auto verdicts = verifier_.verify(device, options_.verification);
    for (const index_t b : running) {
      Round& round = round_[at(b)];
      if (!round.drawn) continue;
      round.verdict = verdicts[at(*round.drawn)];
      if (round.verdict.accepted >= 0) continue;
      texts_[b].guarded([] { throw Error("token weights: sum", "another", "positive and finite"); });
    }
  }

  /// Verifies a greedy text, or hands another one to the verifier.
  void judge(const D& device, index_t b) {
    RunningText& t = texts_[b];
    const Proposal<S> drafted = draft_.proposal(b);
    Round& round = round_[at(b)] = {t.text.text().size(), target_.sound(b), std::nullopt, {}};
    ++t.text.result().target_forwards;
    t.text.result().drafted += drafted.size();
    // A text's rows may end before those that the target ran.
    const Proposal<S> proposal = drafted.first(std::min(drafted.size(), round.sound));
    const index_t rows = proposal.size() + 1;
    if (options_.sampler) {
      round.verdict = sample(device, b, proposal.tokens, round.sound);
      return;
    }
    if (t.sampling.is_greedy()) {
      round.verdict = verify_greedy(proposal.tokens, target_.top_of(b).first(at(rows)));
      return;
    }
    // A row that is not sound is an error only if the text comes to it.
    if (round.sound < rows) fill_row(device, b, round.sound, 0);
    round.drawn = verifier_.add(proposal, target_.logits_of(b).rows(0, rows), t.sampling, round.position);
  }

  /// What stays by the sampler's own choices. A row that it throws for becomes one that is not sound.
  Verdict sample(const D& device, index_t b, std::span<const index_t> drafted, index_t& sound) {
    RunningText& t = texts_[b];
    for (index_t i = 0; i < sound; ++i) {
      try {
        const index_t token = next_token_.sample(device, options_.sampler, t.text.text(drafted.first(at(i))),
                                                 target_.logits_of(b).rows(i, 1));
        if (at(i) == drafted.size() || token != drafted[at(i)]) return {i, token};
      } catch (...) {
        t.row_failure = std::current_exception();
        t.failed_row = sound = i;
      }
    }
    return {sound, 0};
  }

  /// Keeps what stays of a text's proposal.
  /// \param fresh  gets what follows the first of the tokens that the target ran: those kept and the target's own
  /// \returns how many these are
  /// \throws Error when the text comes to logits without a finite largest one; there, what processor or sampler threw
  index_t keep(index_t b, std::span<index_t> fresh) {
    RunningText& t = texts_[b];
    if (t.is_finished()) return 0;
    const auto [position, sound, drawn, verdict] = round_[at(b)];
    const index_t drafted = draft_.proposal(b).size(), verified = std::min(drafted, sound);
    statistics_.count(drafted, verified, verdict.accepted);
    draft_.verified(b, verified, verdict.accepted);
    target_.accept(b, verdict.accepted + 1);
    std::copy_n(draft_.proposal(b).tokens.begin(), verdict.accepted, fresh.begin());
    fresh[at(verdict.accepted)] = verdict.next;
    for (index_t i = 0; i <= verdict.accepted && !t.text.ended(); ++i) {
      if (i == sound) throw_unsound(t, i, position + i);
      t.text.push(fresh[at(i)]);
      if (i < verdict.accepted) ++t.text.result().accepted;
    }
    return verdict.accepted + 1;
  }

  [[noreturn]] static void throw_unsound(const RunningText& t, index_t row, index_t position) {
    if (t.row_failure && t.failed_row == row) std::rethrow_exception(t.row_failure);
    throw_no_largest_logit(position);
  }

  /// Makes a row of logits one that can be chosen from, though nothing is made of the choice, or one that cannot.
  void fill_row(const D& device, index_t b, index_t i, double x) {
    evaluate(device, expr::as_expression(x), target_.logits_of(b).rows(i, 1));
  }

  DecodeOptions options_;
  index_t chain_, capacity_;
  RunningTexts texts_;
  OfTarget target_;
  Drafting<Session, D> draft_;
  NextToken<D, Plain> next_token_;
  Verifier<D, Plain> verifier_;
  // Of one forward: what goes into it, the tokens one position later, and per text how many, and how many to choose.
  std::vector<index_t> ids_, next_, counts_, choices_;
  std::vector<Round> round_;  // of each text
  DecodeStatistics statistics_;
};

}  // namespace K3SPEC_NAMESPACE
