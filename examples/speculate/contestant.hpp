#pragma once
/// \file
/// A way to decode, whatever the draft behind it.
/// defines: Target, Contestant, make_eagle3_kimi_k3, make_eagle3_deepseek_v3, make_dflash, make_dspark

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/decode/speculative.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/target/load.hpp>

#include "../common/eagle3_form.hpp"

namespace k3spec::examples {

using Target = FrozenTarget<TargetConfig, float>;

struct Contestant {
  std::string name;
  index_t chain;  ///< tokens drafted for one target forward; 0: none
  std::function<DecodeResult(const Cpu&, std::span<const index_t>)> generate;
};

/// A loaded draft with its decoder. \param source  (loaded draft) -> the session's source
template <class Draft, class Session, class F>
Contestant make_contestant(const Target& target, const std::filesystem::path& folder, index_t capacity,
                           const DecodeOptions& options, F&& source) {
  struct Both {
    LoadedDraft<Draft, float> draft;
    SpeculativeDecoder<TargetConfig, Session> decoder;

    Both(const Target& target, LoadedDraft<Draft, float> loaded, index_t capacity, const DecodeOptions& options, F& f)
        : draft(std::move(loaded)), decoder(target, draft.layer_ids, draft.conventions, f(draft), capacity, options) {}
  };
  const auto both = std::make_shared<Both>(target, load_draft<Draft, float>(folder), capacity, options, source);
  return {std::string(names_of<DraftKind>[static_cast<std::size_t>(Draft::kind)]), both->decoder.chain(),
          [both](const Cpu& cpu, std::span<const index_t> prompt) { return both->decoder.generate(cpu, prompt); }};
}

// One file each: together they would take a compiler minutes. The target must outlive the contestant.
Contestant make_eagle3_kimi_k3(const std::string& version, const Target& target, const std::filesystem::path& folder,
                               index_t capacity, const DecodeOptions& options);
Contestant make_eagle3_deepseek_v3(const std::string& version, const Target& target,
                                   const std::filesystem::path& folder, index_t capacity, const DecodeOptions& options);
Contestant make_dflash(const Target& target, const std::filesystem::path& folder, index_t capacity,
                       const DecodeOptions& options);
Contestant make_dspark(const Target& target, const std::filesystem::path& folder, index_t capacity,
                       const DecodeOptions& options);

}  // namespace k3spec::examples
