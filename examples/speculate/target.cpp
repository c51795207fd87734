// The target, which is read and decodes by itself, in a unit that is optimised as those of the drafts are.

#include <memory>

#include <k3spec/decode/plain.hpp>

#include "contestant.hpp"

namespace k3spec::examples {

LoadedTarget<TargetConfig, float> load_target(const Cpu& cpu, const std::filesystem::path& folder, KeepWeights keep) {
  return load_frozen_target<TargetConfig, float>(cpu, folder, io::named({}), keep);
}

Contestant plain_decoding(const Target& target, index_t capacity, const DecodeOptions& options) {
  const auto decoder = std::make_shared<PlainDecoder<TargetConfig, float>>(target, capacity, options);
  return {"plain", 0,
          [decoder](const Cpu& cpu, std::span<const index_t> prompt) { return decoder->generate(cpu, prompt); }};
}

}  // namespace k3spec::examples
