// Kimi K3's drafts as NeMo Automodel writes them: read with what its code fixes filled in by name, and the same draft
// as this library's own store of it.
#include <k3spec/io/nemo_config.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <k3spec/config/eagle3_1.hpp>
#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/io/draft_checkpoint.hpp>

#include "tests/support/temporary.hpp"

using namespace k3spec;
using Ids = std::vector<index_t>;

namespace {

/// Blocks as NeMo trains them: their slots all see each other, and the context is not cut.
template <class Draft>
struct Uncut : Draft {
  static constexpr bool block_causal = false;
  static constexpr std::optional<index_t> sliding_window = std::nullopt;
};
using DFlash = DFlashDraft<Uncut<configs::KimiK3TinyDFlash>>;
using DSpark = DSparkDraft<Uncut<configs::KimiK3TinyDSpark>>;
struct NoHeads : Uncut<configs::KimiK3TinyDSpark> {
  static constexpr index_t markov_rank = 0;
  static constexpr bool enable_confidence_head = false, confidence_head_with_markov = false;
};
using PlainDSpark = DSparkDraft<NoHeads>;
using Eagle3 = Eagle3Draft<configs::KimiK3Tiny>;
using Eagle31 = Eagle3Draft<configs::Eagle31<configs::KimiK3Tiny>>;

/// The target's text_config as transformers holds it.
io::json target_fields() {
  io::json root = io::read_json(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny/config.json")["text_config"];
  root.erase("quantization_config");
  root["rope_theta"] = 10000.0, root["rope_scaling"] = nullptr, root["head_dim"] = 32, root["use_cache"] = true;
  root["kda_mode"] = "chunk", root["kda_use_qk_l2norm_in_kernel"] = true, root["transformers_version"] = "5.12.1";
  root["situ_backend"] = "torch", root["attn_res_triton"] = false, root["initializer_range"] = 0.02;
  return root;
}

/// What train_eagle3 adds.
template <class Draft>
io::json eagle3_file() {
  io::json root = target_fields();
  root["draft_vocab_size"] = Draft::draft_vocabulary, root["target_hidden_size"] = 128;
  root["architectures"] = {"LlamaEagle3DraftModel"};
  root["attn_implementation"] = "eager", root["parallel_drafting"] = false;
  root["fc_norm"] = Draft::config::fc_norm, root["norm_output"] = Draft::config::norm_output;
  return root;
}

/// What both block recipes add.
template <class Draft>
io::json block_file(const char* architecture) {
  io::json root = target_fields();
  root["architectures"] = {architecture};
  root["num_target_layers"] = 8, root["num_hidden_layers"] = Draft::config::num_draft_layers;
  root["num_experts"] = nullptr, root["num_shared_experts"] = 0;
  root["linear_attn_config"] = {{"kda_layers", io::json::array()}, {"full_attn_layers", {1, 2}}};
  root["block_size"] = Draft::block_size;
  return root;
}

template <class Draft>
io::json nemo_file() {
  using Config = typename Draft::config;
  if constexpr (Draft::kind == DraftKind::eagle3) return eagle3_file<Draft>();
  if constexpr (Draft::kind == DraftKind::dflash) {
    io::json root = block_file<Draft>("KimiK3DFlashDraftModel");
    root["attn_res_block_size"] = nullptr;
    root["dflash_config"] = {{"block_size", 8}, {"mask_token_id", 259}, {"target_layer_ids", {1, 3, 5}}};
    return root;
  }
  if constexpr (Draft::kind == DraftKind::dspark) {
    io::json root = block_file<Draft>("KimiK3DSparkModel");
    root["mask_token_id"] = 259, root["target_layer_ids"] = {1, 3, 5}, root["num_anchors"] = 512;
    root["enable_confidence_head"] = Config::enable_confidence_head, root["markov_rank"] = Config::markov_rank;
    if (Config::enable_confidence_head) root["confidence_head_with_markov"] = true;
    if (Config::markov_rank > 0) root["markov_head_type"] = "vanilla";
    return root;
  }
}

/// A random draft in both stores.
template <class D>
struct Stored : test::TemporaryDirectory {
  using Draft = D;
  Parameters<Draft, float> parameters;
  std::vector<index_t> layers = Draft::kind == DraftKind::eagle3 ? Ids{1, 3, 4} : Ids{1, 3, 5};

  Stored() {
    parameters.initialize(5, 0.7);
    Ids tokens;
    for (index_t i = 0; i < Draft::draft_vocabulary; ++i)
      tokens.push_back(Draft::vocabulary - Draft::draft_vocabulary + i);
    std::filesystem::create_directory(path() / "own");
    save_draft(path() / "own", parameters, DraftVocabulary(tokens, Draft::vocabulary),
               io::draft_config_json<Draft::kind, typename Draft::config>(layers, DType::F32));
    std::filesystem::create_directory(path() / "nemo");
    std::filesystem::copy(path() / "own" / "model.safetensors", path() / "nemo" / "model.safetensors");
    rewrite(nemo_file<Draft>());
  }
  void rewrite(const io::json& root) const { test::write(path() / "nemo" / "config.json", root.dump()); }
  LoadedDraft<Draft, float> load(const char* store, const LoadGiven<Draft, float>& given = {}) const {
    return load_draft<Draft, float>(path() / store, given);
  }
  LoadedDraft<Draft, float> load_nemo() const { return load("nemo", from_nemo()); }
  static LoadGiven<Draft, float> from_nemo() {
    LoadGiven<Draft, float> given;
    given.from = WrittenBy::nemo;
    return given;
  }
  void refuse(const char* message, const LoadGiven<Draft, float>& given = from_nemo()) const {
    CHECK_THROWS_WITH_AS(load("nemo", given), doctest::Contains(message), Error);
  }
};

std::vector<float> numbers(index_t count, std::uint64_t stream) {
  const Philox draws(11, stream);
  std::vector<float> x;
  for (index_t i = 0; i < count; ++i) x.push_back(static_cast<float>(draws.normal(static_cast<std::uint64_t>(i))));
  return x;
}

/// Logits of an EAGLE-3 draft's first step, over some tokens and states.
template <class Draft>
std::vector<float> outputs(const Parameters<Draft, float>& parameters) requires(Draft::kind == DraftKind::eagle3) {
  constexpr index_t rows = 5;
  const Ids ids{7, 100, 259, 0, 3};
  const auto aux = numbers(rows * Draft::aux_width, 1);
  const auto plan = [&](auto& a) { return Draft::template Activations<float>::allocate(a, rows, 1); };
  Arena arena(plan_bytes(plan));
  const auto acts = plan(arena);
  const auto w = parameters.weights();
  Draft::template forward<float>(
      Cpu{1}, w,
      typename Draft::template Inputs<float, CausalVisibility>{
          Vector<const index_t>(ids.data(), rows), rows, Rows<const float, Draft::aux_width>(aux.data(), rows),
          CausalVisibility{nullptr, rows}, RotaryPositions{nullptr, rows}},
      acts);
  std::vector<float> x(rows * Draft::hidden), logits(rows * Draft::draft_vocabulary);
  const Rows<float, Draft::hidden> head_in(x.data(), rows);
  Draft::head_input(Cpu{1}, w, acts.step(0).out, head_in);
  Draft::compute_logits(Cpu{1}, w, head_in, Rows<float, Draft::draft_vocabulary>(logits.data(), rows));
  return logits;
}

/// The states of a block from which logits are made, over some context.
template <class Draft>
std::vector<float> outputs(const Parameters<Draft, float>& parameters) requires(Draft::kind != DraftKind::eagle3) {
  using Backbone = typename Draft::Backbone;
  constexpr index_t context = 4, slots = Draft::block_size;
  const auto target = numbers(context * Draft::target_width, 1), noise = numbers(slots * Draft::hidden, 2);
  const index_t anchor = 3;
  const auto plan = [&](auto& a) { return Backbone::template Activations<float>::allocate(a, context, slots); };
  Arena arena(plan_bytes(plan));
  const auto acts = plan(arena);
  Backbone::template forward<float>(
      Cpu{1}, Draft::backbone(parameters.weights()),
      typename Backbone::template Inputs<float, BlockVisibility>{
          Rows<const float, Draft::target_width>(target.data(), context),
          Rows<const float, Draft::hidden>(noise.data(), slots), BlockSpan{1, context, 1, slots},
          BlockVisibility{&anchor, nullptr, nullptr, Draft::config::sliding_window, Draft::config::block_causal}},
      acts);
  return {acts.out.data(), acts.out.data() + acts.out.size()};
}

template <class P>
bool same_bits(const P& a, const P& b) {
  const auto x = a.all(), y = b.all();
  return std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.size()) * sizeof(*x.data())) == 0;
}

}  // namespace

TEST_CASE_TEMPLATE("a NeMo draft is the same draft as its own store", Draft, Eagle3, Eagle31, DFlash, DSpark,
                   PlainDSpark) {
  const Stored<Draft> stored;
  const auto own = stored.load("own"), nemo = stored.load_nemo();
  CHECK(own.notes.empty());
  CHECK(nemo.notes.size() == 1);  // no field of the file is unknown
  CHECK(nemo.layer_ids == own.layer_ids);
  CHECK(nemo.conventions == own.conventions);
  CHECK(same_bits(nemo.parameters, own.parameters));
  const auto a = outputs<Draft>(own.parameters), b = outputs<Draft>(nemo.parameters);
  CHECK(a == b);
  CHECK(a[0] != 0);
  // Written as this library writes drafts it reads without anything said.
  const test::TemporaryDirectory again;
  save_draft(again.path(), nemo.parameters, nemo.vocabulary,
             io::draft_config_json<Draft::kind, typename Draft::config>(nemo.layer_ids, DType::F32, nemo.conventions));
  for (const char* file : {"model.safetensors", "config.json"}) {
    CHECK(test::contents(again / file) == test::contents(stored.path() / "own" / file));
  }
}

TEST_CASE("what is assumed of a NeMo file is named: what its code fixes and the file does not say") {
  const auto assumed = []<class Draft>(const Stored<Draft>& stored, const std::string& wanted) {
    const std::string note = stored.load_nemo().notes.at(0);
    const std::string about = "nemo/config.json: it does not say, so assumed as NeMo Automodel has it: ";
    REQUIRE(note.find(about) != std::string::npos);
    CHECK(note.substr(note.find(about) + about.size()) == wanted);
  };
  assumed(Stored<Eagle3>(),
          "aux_layer_ids [1,3,4], num_aux_hidden_states 3, train_embeddings false, mla_norm_eps 1e-05, "
          "aux_stream \"running_sum\", layer_ids \"after_layer_0\", softmax_mscale \"none\", "
          "state_norm \"pre_norm\"");
  assumed(Stored<DFlash>(),
          "block_causal false, target_hidden_size 128, mla_norm_eps 1e-06, aux_stream "
          "\"running_sum\", layer_ids \"after_layer_0\", slot \"anchor_plus_k\", state_norm "
          "\"post_norm\"");
  assumed(Stored<DSpark>(),
          "block_causal false, train_embeddings false, target_hidden_size 128, mla_norm_eps 1e-05, "
          "aux_stream \"running_sum\", layer_ids \"after_layer_0\", slot \"anchor_plus_k_plus_1\", "
          "state_norm \"post_norm\"");
  assumed(Stored<PlainDSpark>(),
          "block_causal false, confidence_head_with_markov false, markov_head_type \"vanilla\", "
          "train_embeddings false, target_hidden_size 128, mla_norm_eps 1e-05, aux_stream "
          "\"running_sum\", layer_ids \"after_layer_0\", slot \"anchor_plus_k_plus_1\", "
          "state_norm \"post_norm\"");
}

TEST_CASE_TEMPLATE("a NeMo file is not guessed at: unless somebody says whose it is, it is refused in a sentence",
                   Draft, Eagle3, DFlash, DSpark) {
  const Stored<Draft> stored;
  CHECK(io::nemo_kind(nemo_file<Draft>()) == Draft::kind);
  CHECK(io::draft_kind(nemo_file<Draft>()) == Draft::kind);
  CHECK(io::draft_backbone(nemo_file<Draft>()) == Backbone::kimi_k3);
  stored.refuse(
      "config.json: found a draft that NeMo Automodel wrote, which leaves fields unsaid, wanted it read as one", {});
  LoadGiven<Draft, float> conventions;
  conventions.conventions = DraftForm<Draft::kind>::template conventions<typename Draft::config>();
  stored.refuse("found a draft that NeMo Automodel wrote", conventions);
  // And no other is read as one.
  CHECK_FALSE(io::nemo_kind(target_fields()));
  CHECK_FALSE(io::nemo_kind(io::json(3)));
  CHECK_THROWS_WITH_AS(stored.load("own", stored.from_nemo()),
                       doctest::Contains("config.json: architectures and model_type: found "), Error);
}

TEST_CASE_TEMPLATE("a NeMo file may have the model under text_config, and what the draft adds beside it", Draft, Eagle3,
                   DFlash, DSpark) {
  const Stored<Draft> stored;
  const auto flat = stored.load_nemo();
  io::json whole = nemo_file<Draft>(), model = io::json::object(), beside = io::json::object();
  whole[Draft::kind == DraftKind::eagle3 ? "aux_layer_ids" : "target_layer_ids"] = {2, 4, 6};
  if (Draft::kind == DraftKind::dflash)
    whole.erase("target_layer_ids"), whole["dflash_config"]["target_layer_ids"] = {2, 4, 6};
  whole["aux_stream"] = "residual_mixture";
  const io::json target = target_fields();
  for (const auto& [name, value] : whole.items()) (target.contains(name) ? model : beside)[name] = value;
  beside["text_config"] = model;
  stored.rewrite(beside);
  const auto nested = stored.load_nemo();
  CHECK(nested.layer_ids == Ids{2, 4, 6});
  CHECK(nested.conventions.aux_stream == AuxStream::residual_mixture);
  CHECK(nested.notes.size() == 1);
  CHECK(nested.notes.at(0).find("aux_stream") == std::string::npos);
  CHECK(same_bits(nested.parameters, flat.parameters));
  // Where the two say otherwise, the model's own counts, as for any file.
  beside["hidden_size"] = 64, beside["text_config"]["aux_stream"] = "running_sum";
  stored.rewrite(beside);
  CHECK(stored.load_nemo().conventions.aux_stream == AuxStream::running_sum);
}

TEST_CASE("what a NeMo file says stays, and is compared") {
  const Stored<Eagle3> eagle3;
  io::json root = nemo_file<Eagle3>();
  root["aux_stream"] = "residual_mixture", root["aux_layer_ids"] = {2, 5, 7};
  eagle3.rewrite(root);
  CHECK(eagle3.load_nemo().conventions.aux_stream == AuxStream::residual_mixture);
  CHECK(eagle3.load_nemo().layer_ids == Ids{2, 5, 7});
  root["mla_norm_eps"] = 1e-6, root["num_aux_hidden_states"] = 4, root["activation_situ_beta"] = 3.0;
  eagle3.rewrite(root);
  for (const char* line : {"found 3 differences", "mla_norm_eps: found 1e-06", "num_aux_hidden_states: found 4",
                           "activation_situ_beta: found 3.0, wanted 4.0"}) {
    eagle3.refuse(line);
  }
  root = nemo_file<Eagle3>();
  root["parallel_drafting"] = true;
  eagle3.rewrite(root);
  eagle3.refuse("parallel_drafting: found true, wanted false");
  const Stored<DFlash> dflash;
  root = nemo_file<DFlash>();
  root["dflash_config"]["projector_type"] = "domino", root["dflash_config"]["mask_token_id"] = 7;
  root["sliding_window"] = 4096, root["is_causal"] = true;
  dflash.rewrite(root);
  for (const char* line : {"dflash_config.projector_type: found \"domino\"", "mask_token_id: found 7, wanted 259",
                           "sliding_window: found 4096, wanted nothing", "block_causal: found true, wanted false"}) {
    dflash.refuse(line);
  }
  root = nemo_file<DFlash>();
  root["dflash_config"].erase("target_layer_ids");
  dflash.rewrite(root);
  dflash.refuse("target_layer_ids: found nothing, wanted 3 different layers");
}

TEST_CASE("what only the recipe knew can be given: the layers, the stream, how layers are counted") {
  const Stored<Eagle3> stored;
  auto given = stored.from_nemo();
  given.layer_ids = {2, 4, 6};
  CHECK(stored.load("nemo", given).layer_ids == Ids{2, 4, 6});
  CHECK(stored.load("nemo", given).notes[0].find("aux_layer_ids") == std::string::npos);
  given.layer_ids = {2, 4};
  stored.refuse("aux_layer_ids: found [2,4], wanted 3 different layers", given);
  given.layer_ids = {};
  given.conventions = Eagle3Conventions{
      .aux_stream = AuxStream::residual_mixture, .layer_ids = LayerIds::layers_executed, .ttt_steps = 7};
  const auto draft = stored.load("nemo", given);
  CHECK(draft.conventions == *given.conventions);
  CHECK(draft.layer_ids == Ids{2, 4, 5});  // the default ones, counted so
  io::json root = nemo_file<Eagle3>();
  root["num_hidden_layers"] = 5;
  stored.rewrite(root);
  stored.refuse("config.json: num_hidden_layers: found 5, wanted enough for three different layers");
  for (const io::json& depth : {io::json("8"), io::json(-8), io::json(nullptr), io::json(std::uint64_t{1} << 63U)}) {
    root["num_hidden_layers"] = depth;
    stored.rewrite(root);
    stored.refuse("config.json: num_hidden_layers: found ");
  }
  LoadGiven<Eagle3, float> only_layers;
  only_layers.layer_ids = {1, 3, 4};
  CHECK_THROWS_WITH_AS(stored.load("own", only_layers), doctest::Contains("layers given, wanted none"), Error);
}

TEST_CASE_TEMPLATE("conventions that a caller gives count for any file that names none", Draft, Eagle3, DFlash,
                   DSpark) {
  const Stored<Draft> stored;
  const auto file = stored.path() / "own" / "config.json";
  io::json root = io::read_json(file);
  root.erase("aux_stream"), root.erase("layer_ids");
  test::write(file, root.dump());
  CHECK_THROWS_WITH_AS(stored.load("own"), doctest::Contains("aux_stream: found nothing"), Error);
  LoadGiven<Draft, float> given;
  given.conventions = DraftForm<Draft::kind>::template conventions<typename Draft::config>();
  given.conventions->aux_stream = AuxStream::residual_mixture;
  CHECK(stored.load("own", given).conventions == *given.conventions);
}
