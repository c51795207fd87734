#pragma once
/// \file
/// A draft on disk: model.safetensors, with the names that its `visit` gives and d2t and t2d when it does not say every
/// token, and config.json.
/// defines: draft_config_name, save_draft, load_draft, LoadedDraft, LoadGiven

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/parameters.hpp>
#include <k3spec/drafts/draft_vocabulary.hpp>
#include <k3spec/drafts/engine_layout.hpp>
#include <k3spec/io/checkpoint.hpp>
#include <k3spec/io/draft_config.hpp>
#include <k3spec/io/json.hpp>
#include <k3spec/io/load_parameters.hpp>

namespace K3SPEC_NAMESPACE {

/// Writes both files, each at once; the weights first, with what else `metadata` says of them.
/// \throws Error naming the file; with nothing written, on a vocabulary of other sizes than the draft's
template <class Draft, Element T>
void save_draft(const std::filesystem::path& directory, const Parameters<Draft, T>& parameters,
                const DraftVocabulary& vocabulary, const io::json& config, io::Metadata metadata = {}) {
  vocabulary.require_sizes(Draft::draft_vocabulary, Draft::vocabulary);
  metadata["format"] = "pt";
  const auto weights = parameters.weights();
  std::vector<io::TensorSource> tensors = io::sources<Draft>(weights);
  for (io::TensorSource& t : vocabulary.sources()) tensors.push_back(std::move(t));
  io::write_safetensors(directory / io::Checkpoint::single_name, tensors, metadata);
  io::write_text(directory / draft_config_name, config.dump(2) + "\n");
}

/// Fills the parameters; config.json is not looked at. Rounds to T where the file is wider, and returns the
/// file's vocabulary.
/// \param path  a directory, safetensors file or index, as io::Checkpoint::open takes it
/// \throws Error with no parameter touched when a tensor is absent, unknown, of another shape or does not convert, or
///         the vocabulary is invalid
template <class Draft, Element T>
DraftVocabulary load_draft(const std::filesystem::path& path, Parameters<Draft, T>& parameters) {
  const auto checkpoint = io::Checkpoint::open(path);
  auto vocabulary = DraftVocabulary::read(checkpoint, Draft::draft_vocabulary, Draft::vocabulary);
  auto weights = parameters.mutable_weights();
  io::LoadOptions options;
  options.known = io::named({DraftVocabulary::d2t_name, DraftVocabulary::t2d_name});
  io::load_parameters(checkpoint, io::slots<Draft>(weights), options);
  return vocabulary;
}

/// A draft with all that its folder says of it.
template <class Draft, Element T>
struct LoadedDraft {
  Parameters<Draft, T> parameters;
  DraftVocabulary vocabulary;      ///< every token where the draft says them all
  std::vector<index_t> layer_ids;  ///< the target layers it reads, as `conventions` count them
  typename DraftForm<Draft::kind>::Conventions conventions;
};

/// What a draft's folder in the engines' layout need not say, from a caller who knows.
template <class Draft, Element T>
struct LoadGiven {
  /// [vocabulary, hidden], the target's: for a file without embed_tokens.
  Matrix<const T> embed_tokens = {};
  /// For a file that names none, as other engines write them. What a file names stays.
  std::optional<typename DraftForm<Draft::kind>::Conventions> conventions = {};
};

/// A draft's folder, config.json included, which must agree with the draft's config. It may be in the engines' layout
/// if the draft has DeepSeek-V3's backbone (drafts/engine_layout.hpp).
/// \throws Error naming the file; differences of config.json all at once, before anything is allocated; on conventions
///         or an embedding that neither file nor caller say
template <class Draft, Element T>
LoadedDraft<Draft, T> load_draft(const std::filesystem::path& folder, const LoadGiven<Draft, T>& given = {}) {
  using Config = typename Draft::config;
  const auto file = folder / draft_config_name;
  io::json config = io::read_json(file);
  const bool in_engine_layout = io::is_engine_config(config);
  if (in_engine_layout && given.conventions) config = io::with_conventions(std::move(config), *given.conventions);
  io::check_draft_config<Draft::kind, Config>(config, file.string());
  auto layers = io::draft_layer_ids<Draft::kind, Config>(config, file.string());
  const auto conventions = io::draft_conventions<Draft::kind>(config, file.string());
  Parameters<Draft, T> parameters;
  auto vocabulary = [&] {
    if constexpr (has_engine_layout<Draft>()) {
      if (in_engine_layout) return load_engine_draft(folder, parameters, given.embed_tokens);
    }
    return load_draft(folder, parameters);
  }();
  return {std::move(parameters), std::move(vocabulary), std::move(layers), conventions};
}

}  // namespace K3SPEC_NAMESPACE
