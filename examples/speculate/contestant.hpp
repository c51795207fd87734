#pragma once
/// \file
/// A way to decode, whatever the draft behind it.
/// defines: Target, load_target, Contestant, plain_decoding, Entry, model_bytes, make_entry, enter

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <k3spec/decode/speculative.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/target/load.hpp>

#include "../common/compiled_in.hpp"
#include "work.hpp"

namespace k3spec::examples {

using Target = FrozenTarget<TargetConfig, float>;

/// Straight from a folder's files. Defined in target.cpp.
LoadedTarget<TargetConfig, float> load_target(const Cpu& cpu, const std::filesystem::path& folder, KeepWeights keep);

struct Contestant {
  std::string name;
  index_t chain;  ///< tokens drafted for one target forward; 0: none
  std::function<DecodeResult(const Cpu&, std::span<const index_t>)> generate;
  /// Of what was generated since the last call.
  std::function<DecodeStatistics()> take_statistics = [] { return DecodeStatistics{}; };
  std::filesystem::path folder = {};  ///< of the draft
  Work draft = {};                    ///< of a whole chain
  bool adaptive = false;              ///< see DecodeOptions::adaptive_length
};

/// Without a draft. The target must outlive it. Defined in target.cpp.
Contestant plain_decoding(const Target& target, index_t capacity, const DecodeOptions& options);

/// One whose draft is still to be loaded.
struct Entry {
  std::uint64_t bytes;  ///< of the draft and all that its decoder holds
  std::function<Contestant(const Target&)> load;
};

/// Bytes of a draft's parameters, as they are read and as they are laid out to run, at most.
template <class Model>
constexpr std::uint64_t model_bytes = 2 * sizeof(float) * static_cast<std::uint64_t>(parameter_count<Model>);

/// A draft with its decoder. \param source  (loaded draft) -> the session's source
template <class Draft, class Session, class F>
Entry make_entry(const std::filesystem::path& folder, index_t capacity, const DecodeOptions& options, F source) {
  using Decoder = SpeculativeDecoder<TargetConfig, Session>;
  struct Both {
    LoadedDraft<Draft, float> draft;
    Decoder decoder;

    Both(const Target& target, LoadedDraft<Draft, float> loaded, index_t capacity, const DecodeOptions& options, F& f)
        : draft(std::move(loaded)), decoder(target, draft.layer_ids, draft.conventions, f(draft), capacity, options) {}
  };
  auto load = [=](const Target& target) mutable -> Contestant {
    const auto both = std::make_shared<Both>(target, load_draft<Draft, float>(folder), capacity, options, source);
    const auto take = [both] {
      DecodeStatistics taken = both->decoder.statistics();
      both->decoder.reset_statistics();
      return taken;
    };
    const index_t chain = both->decoder.chain();
    const std::string kind(names_of<DraftKind>[static_cast<std::size_t>(Draft::kind)]);
    return {options.adaptive_length ? kind + ", adaptive" : kind,
            chain,
            [both](const Cpu& cpu, std::span<const index_t> prompt) { return both->decoder.generate(cpu, prompt); },
            take,
            folder,
            draft_work<Draft>(chain, both->draft.parameters.weights(), target.head().bytes()),
            options.adaptive_length};
  };
  const auto file = folder / draft_config_name;
  const auto conventions = io::draft_conventions<Draft::kind>(io::read_json(file), file.string());
  return {model_bytes<Draft> + Decoder::bytes(conventions, capacity, options), std::move(load)};
}

/// A draft of this type. Defined in draft.hpp, for each type in a unit of its own: together they would take a compiler
/// minutes. The target must outlive the contestant.
template <class Config>
Entry enter(const std::filesystem::path& folder, index_t capacity, const DecodeOptions& options);

}  // namespace k3spec::examples
