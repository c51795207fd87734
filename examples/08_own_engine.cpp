// A target of one's own (trigram_engine.hpp) behind the speculative decoder, with a draft of one's own: the same tokens
// as its plain decoding, in fewer forwards.
#include <k3spec/decode/speculative.hpp>

#include "trigram_engine.hpp"

using namespace k3spec;

int main() {
  const Trigrams model("the cat sat on the mat and the rat sat on the cat that sat on the hat of the rat ");
  const DecodeOptions options{.max_new_tokens = 60};
  PlainDecoder<TrigramEngine, float> plain(model, /*capacity=*/100, options);
  SpeculativeDecoder<TrigramEngine, LookupDraft> speculative(model, {}, {}, {}, /*capacity=*/100, options);

  const std::vector<index_t> prompt = Trigrams::tokens("the cat ");
  const DecodeResult wanted = plain.generate(Cpu{}, prompt), found = speculative.generate(Cpu{}, prompt);
  for (const index_t t : found.tokens) fmt::print("{}", t == 0 ? ' ' : static_cast<char>('`' + t));
  fmt::print("\n{} forwards, {} without a draft\n", found.target_forwards, wanted.target_forwards);
  return found.tokens == wanted.tokens && found.target_forwards < wanted.target_forwards ? 0 : 1;
}
