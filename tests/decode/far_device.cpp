// Decoding on a device whose memory the host cannot read: that it compiles is the first test, and its texts are Cpu's.
#include <doctest/doctest.h>

#include <k3spec/decode/block_session.hpp>
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/no_draft.hpp>
#include <k3spec/io/draft_checkpoint.hpp>

#include "tests/decode/tiny.hpp"
#include "tests/support/far_device.hpp"

using namespace k3spec;
using namespace k3spec::test;

namespace {

/// What is decoded behind two prompts, alone and together.
using Texts = std::vector<std::vector<index_t>>;

template <class D, class Make>
Texts texts_of(const D& device, Make&& make) {
  const FrozenTarget<Config, float, D> target(device, tiny().parameters.weights());
  auto decoder = make(target);
  Texts all{decoder.generate(device, tiny().prompt(0)).tokens};
  if constexpr (requires { decoder.chain(); }) {
    std::vector<std::vector<index_t>> prompts;
    for (const std::size_t i : {1U, 2U}) {
      const auto prompt = tiny().prompt(i).first(20 * i);
      prompts.emplace_back(prompt.begin(), prompt.end());
    }
    for (const auto& result : decoder.generate_all(device, prompts)) {
      all.push_back(result.tokens);
      all.push_back({result.drafted, result.accepted});
    }
  }
  return all;
}

/// A user's processor, which is the host's code.
void forbid_blanks(const TextSoFar&, std::span<float> logits) { logits[32] = -std::numeric_limits<float>::infinity(); }
void forbid_blanks(const TextSoFar&, std::span<double>) {}

/// Greedy and drawn, with all that a row goes through.
template <class F>
void for_options(F&& f) {
  for (const double temperature : {0.0, 1.0}) {
    DecodeOptions o = decode_options(3, 20);
    o.temperature = temperature;
    o.prefill_chunk = 25;
    f(o);
    o.truncation = {.top_k = 40, .top_p = 0.9};
    o.logit_processor = [](const TextSoFar& text, auto logits) { forbid_blanks(text, logits); };
    o.verification = Verification::token;
    f(o);
    o.adaptive_length = true;
    f(o);
  }
}

/// \param make  (target, options, device) -> a decoder of the target's device
template <class Make>
void check_far(const char* name, const Make& make) {
  for_options([&](const DecodeOptions& options) {
    const auto texts = [&](const auto& device) {
      DecodeOptions o = options;
      // The same durations on every device, so that lengths that adapt are the same.
      o.clock = [calls = std::uint64_t{0}, now = 0.0]() mutable { return now += Philox(3, 0).uniform(calls++); };
      return texts_of(device, [&](const auto& target) { return make(target, o, device); });
    };
    index_t calls = 0;
    const Texts far = texts(Far{&calls});
    CHECK_MESSAGE(far == texts(Cpu{2}), name);
    CHECK(calls > 1000);
    CHECK(far[0].size() == 20);
  });
}

/// \param rest  what the session's source has behind the weights
template <template <class, class> class Session, class Draft, class... Rest>
void check_draft(const char* name, const LoadedDraft<Draft, float>& draft, double min_confidence, const Rest&... rest) {
  check_far(name, [&]<class D>(const FrozenTarget<Config, float, D>& target, DecodeOptions o, const D& device) {
    o.min_confidence = min_confidence;
    return SpeculativeDecoder<Config, Session<Draft, D>, D>(target, draft.layer_ids, draft.conventions,
                                                            {draft.parameters.weights(), rest...}, DecoderSize{120, 2},
                                                            o, device);
  });
}

template <class Draft>
LoadedDraft<Draft, float> trained(const char* name) {
  return load_draft<Draft, float>(root / "tests/data/drafts" / name);
}
template <class Draft, class D>
using Eagle3On = Eagle3Session<Draft, float, D>;
template <class Draft, class D>
using BlockOn = BlockSession<Draft, float, D>;

}  // namespace

TEST_CASE("far: without a draft") {
  check_far("plain", []<class D>(const FrozenTarget<Config, float, D>& target, const DecodeOptions& o,
                                 const D& device) { return PlainDecoder<Config, float, D>(target, 120, o, device); });
  check_far("several",
            []<class D>(const FrozenTarget<Config, float, D>& target, const DecodeOptions& o, const D& device) {
              using Session = NoDraft<Config, float, D>;
              return SpeculativeDecoder<Config, Session, D>(target, {}, {}, {}, DecoderSize{120, 2}, o, device);
            });
}

TEST_CASE("far: with EAGLE-3") {
  const auto draft = trained<Eagle3Draft<Config>>("eagle3_k3_tiny");
  const auto ids = draft.vocabulary.target_ids();
  check_draft<Eagle3On>("EAGLE-3", draft, 0, std::vector<index_t>(ids.data(), ids.data() + ids.size()));
}

TEST_CASE("far: with DFlash") {
  check_draft<BlockOn>("DFlash", trained<DFlashDraft<configs::KimiK3TinyDFlash>>("dflash_k3_tiny"), 0);
}

TEST_CASE("far: with DSpark, and its confidences") {
  const auto draft = trained<DSparkDraft<configs::KimiK3TinyDSpark>>("dspark_k3_tiny");
  check_draft<BlockOn>("DSpark", draft, 0);
  check_draft<BlockOn>("DSpark, sure", draft, 0.3);
}
