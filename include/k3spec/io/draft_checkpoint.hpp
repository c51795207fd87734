#pragma once
/// \file
/// A draft on disk: model.safetensors, with the names that its `visit` gives and d2t and t2d when it does not say every
/// token, and config.json.
/// defines: save_draft, load_draft, LoadedDraft, LoadGiven

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/parameters.hpp>
#include <k3spec/io/draft_config.hpp>
#include <k3spec/io/draft_folder.hpp>
#include <k3spec/io/draft_vocabulary.hpp>
#include <k3spec/io/engine_layout.hpp>
#include <k3spec/io/json.hpp>
#include <k3spec/io/load_parameters.hpp>
#include <k3spec/io/model_tensors.hpp>
#include <k3spec/io/nemo_config.hpp>

namespace K3SPEC_NAMESPACE {

/// Writes both files, each at once; the weights first, with what else `metadata` says of them.
/// \throws Error naming the file; with nothing written, on a vocabulary of other sizes than the draft's
template <class Draft, class Weights>
void save_draft(const std::filesystem::path& directory, const Weights& weights, const DraftVocabulary& vocabulary,
                const io::json& config, io::Metadata metadata = {}) {
  vocabulary.require_sizes(Draft::draft_vocabulary, Draft::vocabulary);
  metadata["format"] = "pt";
  std::vector<io::TensorSource> tensors = io::sources<Draft>(weights);
  for (io::TensorSource& t : vocabulary.sources()) tensors.push_back(std::move(t));
  io::write_safetensors(directory / io::ModelTensors::single_name, tensors, metadata);
  io::write_text(directory / draft_config_name, config.dump(2) + "\n");
}

/// The same of parameters.
template <class Draft, Element T>
void save_draft(const std::filesystem::path& directory, const Parameters<Draft, T>& parameters,
                const DraftVocabulary& vocabulary, const io::json& config, io::Metadata metadata = {}) {
  save_draft<Draft>(directory, parameters.weights(), vocabulary, config, std::move(metadata));
}

/// Fills the parameters; config.json is not looked at. Rounds to T where the file is wider, and returns the
/// file's vocabulary.
/// \throws Error with no parameter touched when a tensor is absent, unknown, of another shape or does not convert, or
///         the vocabulary is invalid
template <class Draft, Element T>
DraftVocabulary load_draft(const io::ModelTensors& checkpoint, Parameters<Draft, T>& parameters) {
  auto vocabulary = DraftVocabulary::read(checkpoint, Draft::draft_vocabulary, Draft::vocabulary);
  auto weights = parameters.mutable_weights();
  io::LoadOptions options;
  options.known = io::named({DraftVocabulary::d2t_name, DraftVocabulary::t2d_name});
  io::load_parameters(checkpoint, io::slots<Draft>(weights), options);
  return vocabulary;
}

/// The same from a directory, safetensors file or index, as io::ModelTensors::open takes it.
template <class Draft, Element T>
DraftVocabulary load_draft(const std::filesystem::path& path, Parameters<Draft, T>& parameters) {
  return load_draft(io::ModelTensors::open(path), parameters);
}

/// A draft with all that its folder says of it.
template <class Draft, Element T>
struct LoadedDraft {
  Parameters<Draft, T> parameters;
  DraftVocabulary vocabulary;      ///< every token where the draft says them all
  std::vector<index_t> layer_ids;  ///< the target layers it reads, as `conventions` count them
  typename DraftForm<Draft::kind>::Conventions conventions;
  /// For the user, as messages may show them: what was assumed, fields of config.json that are not known here, and what
  /// is odd about the files but does not matter.
  std::vector<std::string> notes = {};
};

/// What a draft's folder need not say if other tools wrote it, from a caller who knows.
template <class Draft, Element T>
struct LoadGiven {
  /// [vocabulary, hidden], the target's: for a file without embed_tokens.
  Matrix<const T> embed_tokens = {};
  /// For a file that names none, as other tools write them. What a file names stays.
  std::optional<typename DraftForm<Draft::kind>::Conventions> conventions = {};
  /// nemo: a K3 draft of NeMo Automodel's, whose code fixes what its file does not say (io/nemo_config.hpp).
  WrittenBy from = WrittenBy::k3spec;
  /// The target layers of such an EAGLE-3 draft, counted as the conventions have it; empty: the default ones.
  std::vector<index_t> layer_ids = {};
};

namespace detail {

/// The file with what the caller says of it. \param notes  gets what was assumed
template <class Draft, Element T>
io::json with_given(io::json config, const LoadGiven<Draft, T>& given, const std::string& file,
                    std::vector<std::string>& notes) {
  if constexpr (Draft::config::backbone == Backbone::kimi_k3) {
    if (given.from == WrittenBy::nemo) {
      auto completed = io::complete_nemo_config<Draft::kind>(config, file, given.conventions, given.layer_ids);
      if (!completed.assumed.empty()) notes.push_back(std::move(completed.assumed));
      return std::move(completed.config);
    }
  } else {
    require(given.from == WrittenBy::k3spec, file, "a draft with DeepSeek-V3's backbone",
            "one of Kimi K3's: no others of NeMo Automodel's are read");
  }
  require(given.layer_ids.empty(), file, "layers given", "none: only NeMo Automodel's files do not say them");
  if (given.conventions && !io::nemo_kind(config)) return io::with_conventions(std::move(config), *given.conventions);
  return config;
}

}  // namespace detail

/// A draft's folder, or a run's (io/draft_folder.hpp), config.json included, which must agree with the draft's
/// config. It may be in the engines' layout
/// if the draft has DeepSeek-V3's backbone (io/engine_layout.hpp), or NeMo Automodel's if the caller says so.
/// \throws Error naming the file; differences of config.json all at once, before anything is allocated; on conventions
///         or an embedding that neither file nor caller say
template <class Draft, Element T>
LoadedDraft<Draft, T> load_draft(const std::filesystem::path& folder, const LoadGiven<Draft, T>& given = {}) {
  using Config = typename Draft::config;
  const DraftFolder found = draft_folder(folder);
  const std::string file = (found.path / draft_config_name).string();
  std::vector<std::string> notes;
  if (!found.note.empty()) notes.push_back(found.note);
  const io::json config = detail::with_given<Draft, T>(io::read_json(file), given, file, notes);
  for (std::string& note : io::check_draft_config<Draft::kind, Config>(config, file)) notes.push_back(std::move(note));
  auto layers = io::draft_layer_ids<Draft::kind, Config>(config, file);
  const auto conventions = io::draft_conventions<Draft::kind>(config, file);
  const auto checkpoint = io::ModelTensors::open(found.path);
  notes.insert(notes.end(), checkpoint.notes().begin(), checkpoint.notes().end());
  Parameters<Draft, T> parameters;
  auto vocabulary = [&] {
    if constexpr (has_engine_layout<Draft>()) {
      if (io::is_engine_config(config)) return load_engine_draft(checkpoint, parameters, given.embed_tokens);
    }
    return load_draft(checkpoint, parameters);
  }();
  return {std::move(parameters), std::move(vocabulary), std::move(layers), conventions, std::move(notes)};
}

}  // namespace K3SPEC_NAMESPACE
