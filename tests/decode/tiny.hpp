#pragma once
/// \file
/// k3-tiny, its stored prompts, and drafts for it.
/// defines: test::Tiny, test::tiny, test::decode_options, test::add_golden, test::check_golden_text

#include <filesystem>
#include <memory>
#include <vector>

#include <tests/support/golden_check.hpp>
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

/// A text's tokens, and how it came to them.
template <class Generated>
void add_golden(BitHash& bits, const Generated& g) {
  bits.numbers(g.tokens).number(static_cast<double>(g.drafted)).number(static_cast<double>(g.accepted));
  bits.number(static_cast<double>(g.target_forwards));
}

/// 64 tokens after each of four prompts, greedy and drawn at temperature 1.
/// \param make  (options) -> a decoder
template <class Make>
void check_golden_text(const std::string& name, const Make& make) {
  for (const double temperature : {0.0, 1.0}) {
    DecodeOptions o = decode_options(4, 64);
    o.temperature = temperature;
    auto decoder = make(o);
    BitHash bits;
    for (std::size_t i = 0; i < 4; ++i) add_golden(bits, decoder.generate(Cpu{1}, tiny().prompt(i)));
    check_golden(bits, fmt::format("{}, temperature {}", name, temperature));
  }
}

}  // namespace k3spec::test
