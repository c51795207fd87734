// A sampler of one's own: the next token by the Gumbel-max trick, from a noise that belongs to the place in the text.
// With a draft it says the same tokens, one for one.
#include <k3spec/decode/speculative.hpp>

#include "trigram_engine.hpp"

using namespace k3spec;

/// argmax of logit / temperature - log(-log u): a draw from softmax(logits / temperature).
struct GumbelMax {
  double temperature = 0.5;
  std::uint64_t seed = 1;

  template <class S>
  index_t operator()(const TextSoFar& text, std::span<const S> logits) const {
    const Philox noise(seed, static_cast<std::uint64_t>(text.size()));
    const auto score = [&](std::size_t t) {
      return static_cast<double>(logits[t]) / temperature - std::log(-std::log(noise.uniform(t)));
    };
    std::size_t best = 0;
    for (std::size_t t = 1; t < logits.size(); ++t) best = score(t) > score(best) ? t : best;
    return static_cast<index_t>(best);
  }
};
static_assert(Sampler<GumbelMax>);

int main() {
  const Trigrams model("the cat sat on the mat and the rat sat on the cat that sat on the hat of the rat ");
  DecodeOptions options{.max_new_tokens = 60};
  options.sampler = GumbelMax{};
  PlainDecoder<TrigramEngine, float> plain(model, /*capacity=*/100, options);
  SpeculativeDecoder<TrigramEngine, LookupDraft> speculative(model, {}, {}, {}, /*capacity=*/100, options);

  const std::vector<index_t> prompt = Trigrams::tokens("the cat ");
  const DecodeResult wanted = plain.generate(Cpu{}, prompt), found = speculative.generate(Cpu{}, prompt);
  fmt::print("{} of {} drafted tokens stayed\n", found.accepted, found.drafted);
  return found.tokens == wanted.tokens && found.accepted > 0 ? 0 : 1;
}
