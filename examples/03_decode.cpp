// Decodes with the draft that 01_train.cpp saved: the same tokens as without it, in fewer forwards of the target. To be
// run where the project is, with the draft's folder.
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/plain.hpp>
#include <k3spec/decode/speculative.hpp>
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/target/load.hpp>

using namespace k3spec;
using Config = configs::KimiK3Tiny;
using Draft = Eagle3Draft<Config>;

int main(int argc, char** argv) {
  const auto loaded = load_frozen_target<Config, float>(Cpu{}, "examples/data/k3-tiny");
  const auto draft = load_draft<Draft, float>(CheckpointDirectory::resolve(argc > 1 ? argv[1] : "build/first_draft"));
  const auto ids = draft.vocabulary.target_ids();
  const DecodeOptions options{.max_new_tokens = 40};
  PlainDecoder<Config, float> plain(loaded.target, /*capacity=*/100, options);
  SpeculativeDecoder<Config, Eagle3Session<Draft, float>> speculative(
      loaded.target, draft.layer_ids, draft.conventions,
      {draft.parameters.weights(), {ids.data(), ids.data() + ids.size()}}, /*capacity=*/100, options);

  const std::string_view text = "The cat sat on the ";
  const std::vector<index_t> prompt(text.begin(), text.end());
  const DecodeResult wanted = plain.generate(Cpu{}, prompt), found = speculative.generate(Cpu{}, prompt);
  for (const index_t token : found.tokens) fmt::print("{}", static_cast<char>(token));
  fmt::print("\n{} forwards, {} without a draft\n", found.target_forwards, wanted.target_forwards);
  return found.tokens == wanted.tokens && found.target_forwards < wanted.target_forwards ? 0 : 1;
}
