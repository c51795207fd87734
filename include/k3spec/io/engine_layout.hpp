#pragma once
/// \file
/// EAGLE-3 drafts with DeepSeek-V3's backbone in the layout that vLLM and SGLang load. That is bfloat16, tensors
/// without the prefix "model.", the layer named midlayer, the embedding left out if it is the target's. Drafts of Kimi
/// K3's that engines load have positions; one without, as NeMo Automodel trains and this library runs with Kimi K3's
/// own backbone, has no loader there.
///
/// A file that another engine's tools wrote does not name conventions, such as the stream that its draft reads.
/// load_draft then asks its caller.
/// defines: engine_tensor_name, has_engine_layout, save_engine_draft, load_engine_draft

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/config/draft_kind.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/io/draft_config.hpp>
#include <k3spec/io/draft_folder.hpp>
#include <k3spec/io/draft_vocabulary.hpp>
#include <k3spec/io/load_parameters.hpp>
#include <k3spec/io/model_tensors.hpp>

namespace K3SPEC_NAMESPACE {

/// What engines call a tensor of ours: model.layers.0.mlp.up_proj.weight is midlayer.mlp.up_proj.weight.
inline std::string engine_tensor_name(const std::string& name) {
  const auto starts = [&](std::string_view prefix) {
    return std::string_view(name).substr(0, prefix.size()) == prefix;
  };
  constexpr std::string_view layer = "model.layers.0.", model = "model.";
  if (starts(layer)) return "midlayer." + name.substr(layer.size());
  return starts(model) ? name.substr(model.size()) : name;
}

inline constexpr const char* engine_embedding_name = "embed_tokens.weight";

/// Whether there is an engine that loads such drafts.
template <class Draft>
constexpr bool has_engine_layout() {
  if constexpr (requires {
                  Draft::kind;
                  typename Draft::config;
                }) {
    return Draft::kind == DraftKind::eagle3 && Draft::config::backbone == Backbone::deepseek_v3;
  }
  return false;
}

namespace detail {

/// A draft's tensors in bfloat16, with the memory of those that had to be rounded.
class EngineTensors {
 public:
  template <class Draft, class Weights>
  static EngineTensors of(const Weights& weights, bool embed_tokens) {
    EngineTensors out;
    for (io::TensorSource& t : io::sources<Draft>(weights)) {
      t.name = engine_tensor_name(t.name);
      if (embed_tokens || t.name != engine_embedding_name) out.sources.push_back(out.rounded(std::move(t)));
    }
    return out;
  }

  std::vector<io::TensorSource> sources;

 private:
  io::TensorSource rounded(io::TensorSource t) {
    if (t.dtype == DType::BF16) return t;
    index_t size = 1;
    for (const index_t n : t.shape) size *= n;
    const std::size_t bytes = *io::byte_count(t.dtype, t.shape);
    memory_.emplace_back(size);
    io::convert(t.dtype, {static_cast<const std::byte*>(t.data), bytes}, DType::BF16, memory_.back().data());
    return {std::move(t.name), DType::BF16, std::move(t.shape), memory_.back().data()};
  }

  std::vector<Buffer<bfloat16>> memory_;
};

}  // namespace detail

/// Writes both files, each at once; the weights first, rounded to bfloat16, with what else `metadata` says of them.
/// load_draft reads them back.
/// \param layer_ids    the target layers the draft reads, as the conventions count them
/// \param conventions  what the draft was trained with; the file counts layers as `how` says
/// \throws Error naming the file; with nothing written, on layers and conventions that a draft of this config cannot
///         have, a vocabulary of other sizes than the draft's, and an embedding left out that is not the target's
template <class Draft, Element T>
void save_engine_draft(const std::filesystem::path& directory, const Parameters<Draft, T>& parameters,
                       const DraftVocabulary& vocabulary, const std::vector<index_t>& layer_ids,
                       const Eagle3Conventions& conventions, const EngineExport& how = {}, io::Metadata metadata = {}) {
  using Config = typename Draft::config;
  static_assert(has_engine_layout<Draft>(),
                "save_engine_draft: this layout is for EAGLE-3 drafts with DeepSeek-V3's backbone; save_draft writes "
                "the others, which this library runs");
  if constexpr (has_engine_layout<Draft>()) {
    static_assert(Config::mla_norm_eps == Config::rms_norm_eps,
                  "save_engine_draft: mla_norm_eps must be rms_norm_eps, with which engines norm the latents");
    require(how.embed_tokens || !Config::train_embeddings, "embed_tokens", "left out",
            "written: this draft's embedding is trained, so it is not the target's");
    vocabulary.require_sizes(Draft::draft_vocabulary, Draft::vocabulary);
    const io::json config = io::engine_config_json<Config>(layer_ids, conventions, how);
    io::check_draft_config<DraftKind::eagle3, Config>(config, draft_config_name);
    auto tensors = detail::EngineTensors::of<Draft>(parameters.weights(), how.embed_tokens);
    for (io::TensorSource& t : vocabulary.sources()) tensors.sources.push_back(std::move(t));
    metadata["format"] = "pt";
    io::write_safetensors(directory / io::ModelTensors::single_name, tensors.sources, metadata);
    io::write_text(directory / draft_config_name, config.dump(2) + "\n");
  }
}

/// Fills the parameters from a file in the engines' layout and returns its vocabulary; config.json is not looked at.
/// \param embedding  [vocabulary, hidden], the target's: taken where the file has none. May be empty where it has
/// \throws Error as load_draft does, and when neither file nor caller have an embedding
template <class Draft, Element T>
DraftVocabulary load_engine_draft(const io::ModelTensors& checkpoint, Parameters<Draft, T>& parameters,
                                  const Matrix<const T>& embedding) {
  auto vocabulary = DraftVocabulary::read(checkpoint, Draft::draft_vocabulary, Draft::vocabulary);
  auto weights = parameters.mutable_weights();
  const bool has_embedding = checkpoint.contains(engine_embedding_name);
  std::vector<io::TensorSlot> slots;
  for (io::TensorSlot& slot : io::slots<Draft>(weights)) {
    slot.name = engine_tensor_name(slot.name);
    if (has_embedding || slot.name != engine_embedding_name) slots.push_back(std::move(slot));
  }
  const auto shape = [](index_t rows, index_t columns) {
    return std::to_string(rows) + " x " + std::to_string(columns);
  };
  if (!has_embedding &&
      (embedding.extent(0) != Draft::vocabulary || embedding.extent(1) != Draft::hidden || !embedding.is_packed())) {
    throw Error(checkpoint.path() + ": '" + engine_embedding_name + "'",
                "no such tensor, and given " + shape(embedding.extent(0), embedding.extent(1)),
                "the tensor, or the target's embedding given, " + shape(Draft::vocabulary, Draft::hidden) + ", packed");
  }
  io::LoadOptions options;
  options.known = io::named({DraftVocabulary::d2t_name, DraftVocabulary::t2d_name});
  io::load_parameters(checkpoint, slots, options);
  if (!has_embedding) std::copy_n(embedding.data(), embedding.size(), weights.embed_tokens.data());
  return vocabulary;
}

}  // namespace K3SPEC_NAMESPACE
