#pragma once
/// \file
/// Lossless speculative decoding: a draft proposes tokens, one target forward checks them, those that stay are kept and
/// the target's own next token is added (decode/verify.hpp). The target's state, its recurrent layers included, is then
/// exactly that of the kept tokens.
///
/// Several texts are decoded together: a round is one pass of the draft and one of the target over all of them, so that
/// weights are read once for all. Each has its own length, draws and end, may come and go between rounds, and gets the
/// bits that it gets alone.
/// defines: SpeculativeDecoder

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <k3spec/config/complete.hpp>
#include <k3spec/decode/running_texts.hpp>
#include <k3spec/decode/session_sizes.hpp>

namespace K3SPEC_NAMESPACE {

/// Target and draft may be of different configs as long as the widths agree.
/// \tparam Session  Eagle3Session<Draft, T>, BlockSession<Draft, T>, or NoDraft<TargetConfig, T>
template <ForTarget GivenTarget, DraftSession Session>
class SpeculativeDecoder {
  using TargetConfig = complete_target_t<GivenTarget>;
  static_assert(Session::target_hidden == TargetConfig::hidden_size,
                "SpeculativeDecoder: the draft's target_hidden_size must be the target's hidden_size");
  static_assert(Session::vocabulary == TargetConfig::vocab_size,
                "SpeculativeDecoder: draft and target must share one vocabulary");

 public:
  using T = typename Session::value_type;
  using Target = FrozenTarget<GivenTarget, T>;

  /// A decoder without texts.
  /// \param layers       the target layers whose states the draft reads, as the conventions count them, in fc's order
  /// \param conventions  what the draft was trained with: LoadedDraft has them
  /// \param draft        what the session is made of, see there
  /// \param capacity     the most positions of prompt and generated tokens together, of each text
  /// \param texts        the most that are decoded at a time
  /// \throws Error on options out of range, another number of layers, or what the session refuses
  SpeculativeDecoder(const Target& target, std::span<const index_t> layers,
                     const typename Session::Conventions& conventions, typename Session::Source draft, index_t capacity,
                     const DecodeOptions& options, index_t texts = 1)
      : options_(options.checked(capacity, TargetConfig::vocab_size, Session::max_chain)),
        chain_(chain_of(options, conventions)),
        capacity_(capacity),
        texts_(options, texts),
        target_(target, Session::taps(layers, TargetConfig::num_hidden_layers, conventions),
                target_size(options, chain_, capacity, texts)),
        draft_(target, std::move(draft), draft_size(options, chain_, capacity, texts)),
        ids_(at(draft_size(options, chain_, capacity, texts).rows)),
        next_(ids_.size()),
        counts_(at(texts)),
        choices_(counts_.size()),
        samplings_(counts_.size()) {}

  /// Bytes that a decoder holds beside the target and the draft's weights, as far as they depend on what is given here.
  /// \throws Error on options out of range
  static std::size_t bytes(const typename Session::Conventions& conventions, index_t capacity,
                           const DecodeOptions& options, index_t texts = 1) {
    options.checked(capacity, TargetConfig::vocab_size, Session::max_chain);
    const index_t chain = chain_of(options, conventions), taps = Session::states / TargetConfig::hidden_size;
    return TargetSession<GivenTarget, T>::bytes(taps, target_size(options, chain, capacity, texts)) +
           Session::bytes(draft_size(options, chain, capacity, texts));
  }

  /// Tokens drafted per verification.
  index_t chain() const { return chain_; }

  /// What texts added from now on draw, unless they are told otherwise; see DecodeOptions.
  void reseed(std::uint64_t seed) { options_.seed = seed; }

  // ---- One text, or a number of them

  /// Greedy: equals PlainDecoder::generate, token for token. At a temperature: equals it in distribution. So it is with
  /// a draft of NaNs, too, which proposes nothing that stays.
  /// \throws Error on an empty prompt, one that leaves no room, an id outside the vocabulary; on logits of the target
  ///         without a finite largest one for a token of the text, as plain decoding does
  DecodeResult generate(const Cpu& cpu, std::span<const index_t> prompt) {
    const index_t text = add(prompt);
    while (!is_finished(text)) step(cpu);
    return take(text);
  }

  /// The same of any number of prompts, as many of them at a time as there is room for.
  /// \param seeds  of each prompt; none: the options'
  /// \throws Error as generate does, or where texts that were added have all places; then no prompt has a result, and
  ///         all places are free that it had
  std::vector<DecodeResult> generate_all(const Cpu& cpu, std::span<const std::vector<index_t>> prompts,
                                         std::span<const std::uint64_t> seeds = {}) {
    if (!seeds.empty() && seeds.size() != prompts.size()) {
      throw Error("seeds", std::to_string(seeds.size()), std::to_string(prompts.size()) + ", as many as prompts");
    }
    std::vector<DecodeResult> results(prompts.size());
    std::vector<std::optional<std::size_t>> prompt_of(counts_.size());
    try {
      for (std::size_t next = 0, done = 0; done < prompts.size();) {
        // Where none of these is decoded and other texts have all places, add says so.
        for (; next < prompts.size() && (has_room() || next == done); ++next) {
          const auto seed = seeds.empty() ? std::optional<std::uint64_t>() : seeds[next];
          prompt_of[at(add(prompts[next], seed))] = next;
        }
        step(cpu);
        for (std::size_t text = 0; text < prompt_of.size(); ++text) {
          if (!prompt_of[text] || !is_finished(static_cast<index_t>(text))) continue;
          const std::size_t prompt = *std::exchange(prompt_of[text], std::nullopt);
          results[prompt] = take(static_cast<index_t>(text));
          ++done;
        }
      }
    } catch (...) {
      for (std::size_t text = 0; text < prompt_of.size(); ++text) {
        if (prompt_of[text]) texts_.drop(static_cast<index_t>(text));
      }
      throw;
    }
    return results;
  }

  // ---- Texts that come and go

  bool has_room() const { return texts_.has_room(); }
  /// Takes a text in.
  /// \returns what the text is called until it is taken
  /// \throws Error on an empty prompt, one that leaves no room, an id outside the vocabulary, or too many texts
  index_t add(std::span<const index_t> prompt, std::optional<std::uint64_t> seed = {}) {
    const index_t text =
        texts_.add(prompt, options_, seed.value_or(options_.seed), capacity_, TargetConfig::vocab_size, chain_);
    target_.reset(text), draft_.reset(text);
    samplings_[at(text)] = options_.draft_sampling();
    samplings_[at(text)].seed = texts_[text].sampling.seed;
    return text;
  }

  /// Reads up to prefill_chunk tokens of prompts that are not read yet, those first that came first. Then one round of
  /// every text that has begun and not ended.
  void step(const Cpu& cpu) {
    read_prompts(cpu);
    extend_texts(cpu);
  }

  /// Has the text come to its end?
  /// \throws Error where there is no such text
  bool is_finished(index_t text) const { return texts_.is_finished(text); }

  /// A text's result, the part that there is where it has not come to its end. Its place is free then.
  /// \throws Error where there is no such text, or what ended it: the other texts go on
  DecodeResult take(index_t text) { return texts_.take(text); }

 private:
  using S = accumulate_t<T>;
  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

  static index_t chain_of(const DecodeOptions& options, const typename Session::Conventions& conventions) {
    return options.chain.value_or(Session::default_chain(conventions));
  }

  /// The first n of a vector.
  static std::span<index_t> first(std::vector<index_t>& v, index_t n) { return std::span(v).first(at(n)); }

  void read_prompts(const Cpu& cpu) {
    if (!texts_.share(options_.prefill_chunk, counts_)) return;
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
    target_.forward(cpu, first(ids_, n), counts_, choices_);
    n = 0;
    for (index_t b = 0; b < texts_.places(); ++b) {
      n += counts_[at(b)];
      if (choices_[at(b)] == 0) continue;
      next_[at(n - 1)] = 0;
      texts_[b].guarded([&] { next_[at(n - 1)] = begin(cpu, b); });
    }
    draft_.append(cpu, target_.tapped(n), first(next_, n), counts_);
  }

  /// \returns a text's first token
  index_t begin(const Cpu& cpu, index_t b) {
    RunningText& t = texts_[b];
    const index_t token = choose_token(cpu, options_, t.sampling, target_.logits_of(b), t.text.text());
    t.text.push(token);
    return token;
  }

  /// One round: draft, verify, keep, roll back.
  void extend_texts(const Cpu& cpu) {
    const auto running = texts_.running();
    if (running.empty()) return;
    std::fill(counts_.begin(), counts_.end(), 0);
    // The target adds one token of its own.
    for (const index_t b : running) counts_[at(b)] = std::min(chain_, texts_[b].text.left() - 1);
    draft_.draft(cpu, counts_, samplings_);
    run_target(cpu, running);
    index_t n = 0;
    for (const index_t b : running) {
      RunningText& t = texts_[b];
      counts_[at(b)] = 0;
      t.guarded([&] { counts_[at(b)] = extend(cpu, b, std::span(next_).subspan(at(n))); });
      if (t.is_finished()) counts_[at(b)] = 0;
      n += counts_[at(b)];
    }
    if (n > 0) draft_.append(cpu, target_.gather_tapped(counts_), first(next_, n), counts_);
  }

  /// Runs the target on the newest token of each text that goes on and the proposed ones, and processes its logits.
  void run_target(const Cpu& cpu, std::span<const index_t> running) {
    index_t n = 0;
    std::fill(counts_.begin(), counts_.end(), 0);
    for (const index_t b : running) {
      const Proposal<S> proposal = draft_.proposal(b);
      ids_[at(n)] = texts_[b].text.last().front();
      std::copy(proposal.tokens.begin(), proposal.tokens.end(), ids_.begin() + n + 1);
      counts_[at(b)] = proposal.size() + 1;
      n += counts_[at(b)];
    }
    target_.forward(cpu, first(ids_, n), counts_, counts_);
    if (options_.logit_processor) {
      for (const index_t b : running) process_logits(b);
    }
    target_.top(cpu);
  }

  /// The row that the processor throws for becomes one that is not sound: plain decoding may never come to it.
  void process_logits(index_t b) {
    RunningText& t = texts_[b];
    const auto drafted = draft_.proposal(b).tokens;
    t.row_failure = nullptr;
    for (t.failed_row = 0; t.failed_row <= static_cast<index_t>(drafted.size()); ++t.failed_row) {
      const auto row = target_.logits_of(b).rows(t.failed_row, 1);
      try {
        options_.logit_processor(t.text.text(drafted.first(at(t.failed_row))),
                                 std::span<S>(row.data(), at(row.size())));
      } catch (...) {
        t.row_failure = std::current_exception();
        return fill_row(b, t.failed_row, std::numeric_limits<S>::quiet_NaN());
      }
    }
  }

  /// Keeps what stays of a text's proposal.
  /// \param fresh  gets what follows the first of the tokens that the target ran: those kept and the target's own
  /// \returns how many these are
  /// \throws Error when the text comes to logits without a finite largest one; there, what the processor threw
  index_t extend(const Cpu& cpu, index_t b, std::span<index_t> fresh) {
    RunningText& t = texts_[b];
    if (t.is_finished()) return 0;
    const Proposal<S> drafted = draft_.proposal(b);
    const index_t position = t.text.text().size(), sound = target_.sound(b);
    ++t.text.result().target_forwards;
    t.text.result().drafted += drafted.size();
    // A row that is not sound is an error only if the text comes to it.
    if (sound <= drafted.size()) fill_row(b, sound, 0);
    const Proposal<S> proposal = drafted.first(std::min(drafted.size(), sound));
    const Verdict verdict = verify(cpu, b, proposal, position);
    target_.accept(b, verdict.accepted + 1);
    std::copy_n(proposal.tokens.begin(), verdict.accepted, fresh.begin());
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
  void fill_row(index_t b, index_t i, S x) {
    const auto row = target_.logits_of(b).rows(i, 1);
    std::fill_n(row.data(), row.size(), x);
  }

  /// Which of the proposed tokens stay. \param position  of the first
  Verdict verify(const Cpu& cpu, index_t b, const Proposal<S>& proposal, index_t position) {
    const Sampling& sampling = texts_[b].sampling;
    // A text's rows may end before those that the target ran.
    if (sampling.is_greedy())
      return verify_greedy(proposal.tokens, target_.top_of(b).first(proposal.tokens.size() + 1));
    const auto weigh = [&](index_t i) {
      const auto row = target_.logits_of(b).rows(i, 1);
      sampling.weigh(cpu, row);
      return Distribution<S>({row.data(), at(row.extent(1))});
    };
    return verify_sampled(options_.verification, proposal, weigh, sampling, position);
  }

  DecodeOptions options_;
  index_t chain_, capacity_;
  RunningTexts texts_;
  TargetSession<GivenTarget, T> target_;
  Session draft_;
  // Of one forward: what goes into it, the tokens one position later, and per text how many, and how many to choose.
  std::vector<index_t> ids_, next_, counts_, choices_;
  std::vector<Sampling> samplings_;  // by which each text is drafted
};

}  // namespace K3SPEC_NAMESPACE
