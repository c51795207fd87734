#pragma once
/// \file
/// k3-tiny, its stored prompts, and drafts for it.
/// defines: test::Tiny, test::tiny, test::decode_options

#include <filesystem>
#include <memory>
#include <vector>

#include <k3spec/decode/speculative.hpp>
#include <k3spec/io/safetensors.hpp>
#include <k3spec/target/load.hpp>

namespace k3spec::test {

using Config = configs::KimiK3Tiny;
inline const std::filesystem::path root = K3SPEC_SOURCE_DIR;

struct Tiny {
  Parameters<K3Target<Config>, float> parameters;
  std::unique_ptr<FrozenTarget<Config, float>> target;
  std::vector<index_t> prompts, greedy;  // [32, 64], [32, 96]
  std::vector<double> gaps;

  Tiny() {
    load_target<Config>(root / "examples/data/k3-tiny", parameters);
    target = std::make_unique<FrozenTarget<Config, float>>(parameters.weights());
    const auto file = io::SafetensorsFile::open(root / "examples/data/k3-tiny/reference.safetensors");
    for (const auto x : file.read<std::int64_t>("input.prompts")) prompts.push_back(x);
    for (const auto x : file.read<std::int64_t>("output.greedy")) greedy.push_back(x);
    gaps = file.read<double>("output.greedy_gap");
  }
  std::span<const index_t> prompt(std::size_t i) const { return std::span(prompts).subspan(i * 64, 64); }
  std::vector<index_t> continuation(std::size_t i) const {
    return {greedy.begin() + static_cast<std::ptrdiff_t>(i * 96),
            greedy.begin() + static_cast<std::ptrdiff_t>(i * 96 + 96)};
  }
};

inline const Tiny& tiny() {
  static const Tiny instance;
  return instance;
}

inline DecodeOptions decode_options(index_t chain, index_t tokens = 96) {
  DecodeOptions o;
  o.max_new_tokens = tokens;
  o.chain = chain;
  return o;
}

}  // namespace k3spec::test
