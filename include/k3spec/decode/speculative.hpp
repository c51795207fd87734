#pragma once
/// \file
/// Lossless speculative decoding: a draft proposes tokens, one target forward checks them, those that stay are kept and
/// the target's own next token is added (decode/rounds.hpp).
///
/// Several texts are decoded together: a round is one pass of the draft and one of the target over all of them, so that
/// weights are read once for all. Each has its own length, draws and end, may come and go between rounds, and gets the
/// bits that it gets alone.
/// defines: SpeculativeDecoder

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <k3spec/decode/rounds.hpp>

namespace K3SPEC_NAMESPACE {

/// Target and draft may be of different configs as long as the widths agree.
/// \tparam Given    the config of a Kimi K3 target, or an engine (TargetEngine) of any other
/// \tparam Session  Eagle3Session<Draft, T>, BlockSession<Draft, T>, or NoDraft<Given, T>, each of the device
template <ForEngine Given, class Session, Device D = Cpu>
  requires DraftSession<Session, D>
class SpeculativeDecoder {
  using Engine = target_engine_t<Given, typename Session::value_type, D>;
  static_assert(Session::target_hidden == Engine::hidden,
                "SpeculativeDecoder: the draft's target_hidden_size must be the target's hidden_size");
  static_assert(Session::vocabulary == Engine::vocabulary,
                "SpeculativeDecoder: draft and target must share one vocabulary");

 public:
  using T = typename Session::value_type;
  using Target = typename Engine::Target;
  using Conventions = typename Session::Conventions;

  /// A decoder without texts.
  /// \param layers       the target layers whose states the draft reads, as the conventions count them, in fc's order
  /// \param conventions  what the draft was trained with: LoadedDraft has them
  /// \param draft        what the session is made of, see there
  /// \throws Error on options out of range, another number of layers, or what the session refuses
  SpeculativeDecoder(const Target& target, std::span<const index_t> layers, const Conventions& conventions,
                     typename Session::Source draft, const DecoderSize& size, const DecodeOptions& options,
                     const D& device)
      : rounds_(target, Session::taps(layers, Engine::num_hidden_layers, conventions), std::move(draft),
                checked(options, size.capacity), chain_of(options, conventions), size, device) {}
  /// On the host.
  /// \param capacity  the most positions of prompt and generated tokens together, of each text
  /// \param texts     the most that are decoded at a time
  SpeculativeDecoder(const Target& target, std::span<const index_t> layers, const Conventions& conventions,
                     typename Session::Source draft, index_t capacity, const DecodeOptions& options, index_t texts = 1)
      : SpeculativeDecoder(target, layers, conventions, std::move(draft), DecoderSize{capacity, texts}, options, D{}) {}

  /// Bytes that a decoder holds beside the target and the draft's weights, as far as they depend on what is given here.
  /// \throws Error on options out of range
  static std::size_t bytes(const Conventions& conventions, index_t capacity, const DecodeOptions& options,
                           index_t texts = 1) {
    return Rounds<Engine, Session, D>::bytes(checked(options, capacity), chain_of(options, conventions),
                                             {capacity, texts});
  }

  /// Tokens drafted per verification.
  index_t chain() const { return rounds_.chain(); }

  /// What texts added from now on draw, unless they are told otherwise; see DecodeOptions.
  void reseed(std::uint64_t seed) { rounds_.reseed(seed); }

  /// Of all texts, also those that are on their way or were taken, since the decoder was made or this was last reset.
  const DecodeStatistics& statistics() const { return rounds_.statistics(); }
  void reset_statistics() { rounds_.reset_statistics(); }

  // ---- One text, or a number of them

  /// Greedy: equals PlainDecoder::generate, token for token. At a temperature: equals it in distribution. So it is with
  /// a draft of NaNs, too, which proposes nothing that stays.
  /// \throws Error on an empty prompt, one that leaves no room, an id outside the vocabulary; on logits of the target
  ///         without a finite largest one for a token of the text, as plain decoding does
  DecodeResult generate(const D& device, std::span<const index_t> prompt) {
    const index_t text = add(prompt);
    while (!is_finished(text)) step(device);
    return take(text);
  }

  /// The same of any number of prompts, as many of them at a time as there is room for.
  /// \param seeds  of each prompt; none: the options'
  /// \throws Error as generate does, or where texts that were added have all places; then no prompt has a result, and
  ///         all places are free that it had
  std::vector<DecodeResult> generate_all(const D& device, std::span<const std::vector<index_t>> prompts,
                                         std::span<const std::uint64_t> seeds = {}) {
    if (!seeds.empty() && seeds.size() != prompts.size()) {
      throw Error("seeds", std::to_string(seeds.size()), std::to_string(prompts.size()) + ", as many as prompts");
    }
    std::vector<DecodeResult> results(prompts.size());
    PromptOf prompt_of(static_cast<std::size_t>(rounds_.texts().places()));
    try {
      for (std::size_t next = 0, done = 0; done < prompts.size();) {
        // Where none of these is decoded and other texts have all places, add says so.
        for (; next < prompts.size() && (has_room() || next == done); ++next) {
          const auto seed = seeds.empty() ? std::optional<std::uint64_t>() : seeds[next];
          prompt_of[static_cast<std::size_t>(add(prompts[next], seed))] = next;
        }
        step(device);
        done += take_finished(prompt_of, results);
      }
    } catch (...) {
      for (std::size_t text = 0; text < prompt_of.size(); ++text) {
        if (prompt_of[text]) rounds_.texts().drop(static_cast<index_t>(text));
      }
      throw;
    }
    return results;
  }

  // ---- Texts that come and go

  bool has_room() const { return rounds_.texts().has_room(); }
  /// Takes a text in.
  /// \returns what the text is called until it is taken
  /// \throws Error on an empty prompt, one that leaves no room, an id outside the vocabulary, or too many texts
  index_t add(std::span<const index_t> prompt, std::optional<std::uint64_t> seed = {}) {
    return rounds_.add(prompt, seed);
  }

  /// Reads up to prefill_chunk tokens of prompts that are not read yet, those first that came first. Then one round of
  /// every text that has begun and not ended.
  void step(const D& device) {
    rounds_.read_prompts(device);
    rounds_.extend_texts(device);
  }

  /// Has the text come to its end?
  /// \throws Error where there is no such text
  bool is_finished(index_t text) const { return rounds_.texts().is_finished(text); }

  /// A text's result, the part that there is where it has not come to its end. Its place is free then.
  /// \throws Error where there is no such text, or what ended it: the other texts go on
  DecodeResult take(index_t text) { return rounds_.texts().take(text); }

 private:
  /// Of each place, the prompt whose text is there.
  using PromptOf = std::vector<std::optional<std::size_t>>;

  static const DecodeOptions& checked(const DecodeOptions& options, index_t capacity) {
    return options.checked(capacity, Engine::vocabulary, Session::max_chain);
  }
  static index_t chain_of(const DecodeOptions& options, const Conventions& conventions) {
    return options.chain.value_or(Session::default_chain(conventions));
  }

  /// \returns how many
  std::size_t take_finished(PromptOf& prompt_of, std::vector<DecodeResult>& results) {
    std::size_t taken = 0;
    for (std::size_t text = 0; text < prompt_of.size(); ++text) {
      if (!prompt_of[text] || !is_finished(static_cast<index_t>(text))) continue;
      const std::size_t prompt = *std::exchange(prompt_of[text], std::nullopt);
      results[prompt] = take(static_cast<index_t>(text));
      ++taken;
    }
    return taken;
  }

  Rounds<Engine, Session, D> rounds_;
};

}  // namespace K3SPEC_NAMESPACE
