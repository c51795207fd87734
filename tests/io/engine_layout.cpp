// Drafts in the layout that other engines load: there and back without a bit lost, and nothing assumed of files that
// other tools wrote.
#include <k3spec/io/engine_layout.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include <k3spec/config/eagle3_1.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/target/taps.hpp>

#include "tests/support/case_configs.hpp"
#include "tests/support/temporary.hpp"

using namespace k3spec;
using Ids = std::vector<index_t>;

namespace {

/// The embedding is not trained unless said: it may then be left out.
struct Odd : test::DeepSeekOddCases {
  static constexpr bool train_embeddings = false;
};
struct NoQueryLatent : test::DeepSeekEvenCases {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
  static constexpr std::optional<index_t> pad_token_id = std::nullopt;
};
struct OtherWidth : Odd {
  static constexpr bool train_embeddings = true;
  static constexpr index_t target_hidden_size = 20;
};
struct Whole : Odd {
  static constexpr bool train_embeddings = true;
  static constexpr index_t draft_vocab_size = vocab_size;
  static constexpr index_t target_hidden_size = 20, num_aux_hidden_states = 2;
};
struct OneToken : Odd {
  static constexpr index_t draft_vocab_size = 1;
};
template <SoftmaxMscale Mscale, index_t Positions>
struct Yarned : Odd {
  static constexpr std::optional<Yarn> rope_scaling = Yarn{3, 31, 2, 77, 0.5, 0.25};
  static constexpr SoftmaxMscale softmax_mscale = Mscale;
  static constexpr index_t max_position_embeddings = Positions;
};
using Scaled = Yarned<SoftmaxMscale::yarn_mscale_squared, 78>;
using Unscaled = Yarned<SoftmaxMscale::none, 78>;
using TooShort = Yarned<SoftmaxMscale::none, 77>;

struct Betas : Unscaled {
  static constexpr std::optional<Yarn> rope_scaling = Yarn{3, 32, 1, 77, 0.5, 0.25};
};
/// Another base of the frequencies than engines take of themselves.
template <class Base>
struct Turned : Base {
  static constexpr double rope_theta = 1234.5;
};

constexpr Eagle3Conventions mixed{.aux_stream = AuxStream::residual_mixture, .ttt_steps = 4};

template <class Config>
Eagle3Conventions conventions_of() {
  Eagle3Conventions all = mixed;
  all.softmax_mscale = Config::softmax_mscale;
  return all;
}
template <class Config>
Ids layers_of() {
  Ids ids;
  for (index_t i = 0; i < Config::num_aux_hidden_states; ++i) ids.push_back(2 * i + 1);
  return ids;
}

/// Any tokens, in no order, as many as the draft has.
template <class Config>
DraftVocabulary some_vocabulary() {
  if constexpr (Config::draft_vocab_size == Config::vocab_size) return DraftVocabulary::whole(Config::vocab_size);
  Ids ids;
  for (index_t i = 0; i < Config::draft_vocab_size; ++i) ids.push_back((7 * i + 3) % Config::vocab_size);
  return DraftVocabulary(ids, Config::vocab_size);
}

/// A random draft, written.
template <class Config, class T = bfloat16>
struct Exported : test::TemporaryDirectory {
  using Draft = Eagle3Draft<Config>;
  Parameters<Draft, T> parameters;
  DraftVocabulary vocabulary = some_vocabulary<Config>();

  explicit Exported(const EngineExport& how = {}) {
    parameters.initialize(5, 0.7);
    save_engine_draft(path(), parameters, vocabulary, layers_of<Config>(), conventions_of<Config>(), how);
  }
  io::json config() const { return io::read_json(*this / "config.json"); }
  void rewrite(const io::json& root) const { test::write(*this / "config.json", root.dump()); }
  LoadedDraft<Draft, T> load(const LoadGiven<Draft, T>& given = {}) const {
    return load_draft<Draft, T>(path(), given);
  }
  void refuse(const char* message, const LoadGiven<Draft, T>& given = {}) const {
    CHECK_THROWS_WITH_AS(load(given), doctest::Contains(message), Error);
  }
  Matrix<const T> embedding() const { return parameters.weights().embed_tokens.matrix(); }

  /// As other tools write it: what only this library names taken away.
  io::json foreign() const {
    io::json root = config();
    for (const char* own : {"aux_stream", "layer_ids", "softmax_mscale", "state_norm", "ttt_steps", "mla_use_nope",
                            "mla_norm_eps", "mla_use_output_gate", "train_embeddings", "num_aux_hidden_states"}) {
      root.erase(own);
    }
    return root;
  }
};

template <class P>
bool same_bits(const P& a, const P& b) {
  const auto x = a.all(), y = b.all();
  return std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.size()) * sizeof(*x.data())) == 0;
}

Ids ids_of(const DraftVocabulary& v) { return {v.target_ids().data(), v.target_ids().data() + v.draft_size()}; }

}  // namespace

TEST_CASE_TEMPLATE("there and back: every bit, the vocabulary, the layers and the conventions", Config, Odd,
                   NoQueryLatent, Whole, OneToken, Scaled, Unscaled, TooShort, configs::Eagle31<Odd>,
                   configs::Eagle31<Whole>) {
  const Exported<Config> out;
  const auto back = out.load();
  CHECK(same_bits(back.parameters, out.parameters));
  CHECK(ids_of(back.vocabulary) == ids_of(out.vocabulary));
  Eagle3Conventions wanted = conventions_of<Config>();
  const auto taps = eagle3_taps(layers_of<Config>(), 8, wanted);
  wanted.layer_ids = LayerIds::layers_executed;
  CHECK(back.conventions == wanted);
  CHECK(eagle3_taps(back.layer_ids, 8, back.conventions) == taps);

  const test::TemporaryDirectory again;
  save_engine_draft(again.path(), back.parameters, back.vocabulary, back.layer_ids, back.conventions);
  for (const char* file : {"model.safetensors", "config.json"}) {
    CHECK(test::contents(again / file) == test::contents(out / file));
  }
}

TEST_CASE("the tensors are those that engines look for") {
  const Exported<configs::Eagle31<Odd>> out;
  const auto file = io::ModelTensors::open(out.path());
  std::vector<std::string> wanted{"d2t",
                                  "embed_tokens.weight",
                                  "fc.weight",
                                  "fc_norm.0.weight",
                                  "fc_norm.1.weight",
                                  "fc_norm.2.weight",
                                  "lm_head.weight",
                                  "midlayer.hidden_norm.weight",
                                  "midlayer.input_layernorm.weight",
                                  "midlayer.mlp.down_proj.weight",
                                  "midlayer.mlp.gate_proj.weight",
                                  "midlayer.mlp.up_proj.weight",
                                  "midlayer.post_attention_layernorm.weight",
                                  "midlayer.self_attn.kv_a_layernorm.weight",
                                  "midlayer.self_attn.kv_a_proj_with_mqa.weight",
                                  "midlayer.self_attn.kv_b_proj.weight",
                                  "midlayer.self_attn.o_proj.weight",
                                  "midlayer.self_attn.q_a_layernorm.weight",
                                  "midlayer.self_attn.q_a_proj.weight",
                                  "midlayer.self_attn.q_b_proj.weight",
                                  "norm.weight",
                                  "t2d"};
  CHECK(file.names() == wanted);
  for (const std::string& name : file.names()) {
    CHECK(file.dtype(name) == (name == "d2t" ? DType::I64 : name == "t2d" ? DType::BOOL : DType::BF16));
  }
  CHECK(file.shape("fc.weight") == Ids{27, 3 * 27});
  CHECK(file.shape("lm_head.weight") == Ids{40, 27});
  CHECK(file.shape("midlayer.self_attn.q_a_proj.weight") == Ids{11, 2 * 27});
  const Exported<Whole> whole;
  CHECK_FALSE(io::ModelTensors::open(whole.path()).contains("d2t"));
  CHECK_FALSE(io::ModelTensors::open(whole.path()).contains("t2d"));
}

TEST_CASE("config.json has what engines read, and names the conventions") {
  const io::json c = Exported<configs::Eagle31<Odd>>().config();
  CHECK(c["architectures"] == io::json{"Eagle3DeepseekV2ForCausalLM"});
  CHECK(c["model_type"] == "deepseek_v3");
  CHECK(c["torch_dtype"] == "bfloat16");
  CHECK(c["hidden_act"] == "silu");
  const std::pair<const char*, index_t> sizes[] = {
      {"hidden_size", 27},   {"intermediate_size", 35},   {"num_attention_heads", 3}, {"q_lora_rank", 11},
      {"kv_lora_rank", 7},   {"qk_nope_head_dim", 5},     {"qk_rope_head_dim", 6},    {"v_head_dim", 9},
      {"vocab_size", 51},    {"draft_vocab_size", 40},    {"num_hidden_layers", 1},   {"max_position_embeddings", 64},
      {"rope_theta", 10000}, {"num_aux_hidden_states", 3}};
  for (const auto& [name, value] : sizes) CHECK(c.at(name) == value);
  CHECK(c["rms_norm_eps"] == 1e-5);
  CHECK(c["rope_scaling"].is_null());
  CHECK(c["fc_norm"] == true);
  CHECK(c["norm_output"] == true);
  CHECK(c["eagle_config"] == io::json{{"eagle_aux_hidden_state_layer_ids", {2, 4, 6}}, {"use_aux_hidden_state", true}});
  CHECK(c["layer_ids"] == "layers_executed");
  CHECK(c["aux_stream"] == "residual_mixture");
  CHECK(c["softmax_mscale"] == "none");
  CHECK(io::draft_kind(c) == DraftKind::eagle3);
  CHECK(io::draft_backbone(c) == Backbone::deepseek_v3);
  CHECK_NOTHROW(io::check_config<configs::Eagle31<Odd>>(c));
}

TEST_CASE("layers are counted as the engine counts them") {
  const Exported<Odd> out({.layer_ids = LayerIds::after_layer_0});
  CHECK(out.config()["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == io::json{1, 3, 5});
  CHECK(out.load().conventions == mixed);
  CHECK(out.load().layer_ids == Ids{1, 3, 5});
}

TEST_CASE("YaRN is written so that engines do what the draft does") {
  const io::json scaled = Exported<Scaled>().config()["rope_scaling"],
                 plain = Exported<Unscaled>().config()["rope_scaling"];
  CHECK(scaled["factor"] == 3);
  CHECK(scaled["type"] == "yarn");
  CHECK(scaled["rope_theta"] == 10000);
  // The softmax is scaled by mscale_all_dim, the rotated slices by nothing: their factor is a ratio of equals.
  CHECK(scaled["mscale_all_dim"] == 0.25);
  CHECK(scaled["mscale"] == 0.25);
  CHECK(plain["mscale_all_dim"] == 0);
  CHECK(plain["mscale"] == 0);
  CHECK(plain["beta_fast"] == 31);
  CHECK(Exported<TooShort>().config()["rope_scaling"].is_null());
}

namespace {

/// What an engine makes of a file.
struct Reading {
  double scale = 0;     ///< of the softmax
  double rotation = 1;  ///< what cosine and sine are multiplied by
  std::vector<double> frequencies;
  Ids layers;  ///< whose outputs it gathers, counted from 0
};

double engine_mscale(double factor, double weight) { return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1; }

/// \param rope  the dictionary of a YaRN; null for none. Positions do not matter, nor the type it names.
Reading reading_of(const io::json& c, const io::json& rope, double theta) {
  Reading out;
  const double nope = c.at("qk_nope_head_dim"), dim = c.at("qk_rope_head_dim");
  out.scale = 1 / std::sqrt(nope + dim);
  for (double i = 0; i < dim; i += 2) out.frequencies.push_back(std::pow(theta, -i / dim));
  // The output of layer i is there when i + 1 layers have been executed.
  for (const index_t executed : c.at("eagle_config").at("eagle_aux_hidden_state_layer_ids")) {
    out.layers.push_back(executed - 1);
  }
  if (rope.is_null()) return out;
  const double factor = rope.at("factor"), length = rope.at("original_max_position_embeddings"),
               all_dim = rope.value("mscale_all_dim", 0.0);
  out.scale *= std::pow(engine_mscale(factor, all_dim), 2);
  out.rotation = engine_mscale(factor, rope.value("mscale", 1.0)) / engine_mscale(factor, all_dim);
  const auto index_of = [&](double turns) {
    return dim * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  const double low = std::max(std::floor(index_of(rope.value("beta_fast", 32.0))), 0.0);
  double high = std::min(std::ceil(index_of(rope.value("beta_slow", 1.0))), dim - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < out.frequencies.size(); ++i) {
    const double slow = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    out.frequencies[i] *= slow / factor + 1 - slow;
  }
  return out;
}

/// vLLM, model_executor/models/deepseek_eagle3.py at 03590193: any dictionary becomes one of the type deepseek_yarn,
/// the base is the dictionary's or 10,000.
Reading vllm(const io::json& c) {
  const io::json rope = c.at("rope_scaling");
  return reading_of(c, rope, rope.is_null() ? 10000 : rope.value("rope_theta", 10000.0));
}
/// SGLang, srt/models/kimi_k25_eagle3.py at 054a1cef, and tokenspeed with configs of transformers 4: any dictionary
/// likewise, the base stands at the top.
Reading sglang(const io::json& c) { return reading_of(c, c.at("rope_scaling"), c.at("rope_theta")); }
/// The same with configs of transformers 5, which move both to rope_parameters: there the type "default" counts.
Reading sglang_5(const io::json& c) {
  const io::json rope = c.at("rope_scaling");
  const bool plain = rope.is_null() || rope.at("rope_type") == "default";
  return reading_of(c, plain ? io::json() : rope, rope.is_null() ? c.at("rope_theta") : rope.at("rope_theta"));
}

}  // namespace

TEST_CASE_TEMPLATE("what each engine computes from the file is what the draft does", Config, Odd, Turned<Odd>, Scaled,
                   Turned<Scaled>, Unscaled, Turned<Unscaled>, TooShort, Turned<TooShort>) {
  const io::json c = Exported<Config>().config();
  const auto width = static_cast<double>(Config::qk_nope_head_dim + Config::qk_rope_head_dim);
  const bool scaled = Config::softmax_mscale == SoftmaxMscale::yarn_mscale_squared;
  const double scale = (scaled ? yarn_mscale<Config>() * yarn_mscale<Config>() : 1) / std::sqrt(width);
  for (const auto& engine : {vllm, sglang, sglang_5}) {
    const Reading found = engine(c);
    CHECK(found.scale == doctest::Approx(scale).epsilon(1e-12));
    CHECK(found.rotation == 1);
    CHECK(found.layers == layers_of<Config>());
    const auto& wanted = rope_frequencies<Config>();
    REQUIRE(found.frequencies.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      CHECK(found.frequencies[i] == doctest::Approx(double{wanted[i]}).epsilon(1e-6));  // those are float32
    }
  }
  CHECK(c["rope_theta"] == Config::rope_theta);
}

TEST_CASE("a file without betas means 32 and 1; the factor and the length must be there") {
  const Exported<Betas> out;
  io::json root = out.config();
  for (const char* name : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) root["rope_scaling"].erase(name);
  out.rewrite(root);
  CHECK_NOTHROW(out.load());
  for (const char* name : {"factor", "original_max_position_embeddings"}) {
    io::json without = root;
    without["rope_scaling"].erase(name);
    out.rewrite(without);
    out.refuse((std::string("rope_scaling.") + name + ": found nothing, wanted").c_str());
  }
  const Exported<Unscaled> other;
  root = other.config();
  root["rope_scaling"].erase("beta_fast");
  other.rewrite(root);
  other.refuse("rope_scaling.beta_fast: found nothing, which stands for 32.0, wanted 31.0");
  // Where positions end before YaRN would begin for the draft, it holds for engines all the same.
  const Exported<TooShort> too_short;
  root = too_short.config();
  root["rope_scaling"] = other.config()["rope_scaling"];
  too_short.rewrite(root);
  too_short.refuse("rope_scaling.rope_type: found \"yarn\", wanted \"default\"");
  root["rope_scaling"]["rope_type"] = root["rope_scaling"]["type"] = "default";
  too_short.rewrite(root);
  too_short.refuse("rope_scaling.factor: found 3.0, wanted 1");
}

TEST_CASE("layers that do not ascend are not written: engines would gather their states in another order") {
  const Exported<Odd> out;
  const test::TemporaryDirectory again;
  CHECK_THROWS_WITH_AS(save_engine_draft(again.path(), out.parameters, out.vocabulary, {3, 1, 5}, mixed),
                       doctest::Contains("eagle_aux_hidden_state_layer_ids: found [3,1,5], wanted ascending layers"),
                       Error);
  CHECK(test::entries(again.path()) == 0);
}

TEST_CASE("an embedding that the file does not have is the target's, given by the caller") {
  const Exported<Odd> out({.embed_tokens = false});
  CHECK_FALSE(io::ModelTensors::open(out.path()).contains("embed_tokens.weight"));
  out.refuse(
      "'embed_tokens.weight': found no such tensor, and given 0 x 0, wanted the tensor, or the target's "
      "embedding given, 51 x 27, packed");
  LoadGiven<Eagle3Draft<Odd>, bfloat16> given{out.embedding(), {}};
  CHECK(same_bits(out.load(given).parameters, out.parameters));
  given.embed_tokens = out.embedding().rows(0, 50);
  out.refuse("given 50 x 27", given);
  // One in the file is the file's.
  const Exported<Odd> whole;
  const std::vector<bfloat16> zeros(51 * 27);
  given.embed_tokens = Matrix<const bfloat16>(zeros.data(), 51, 27);
  CHECK(same_bits(whole.load(given).parameters, whole.parameters));
}

TEST_CASE("an embedding that is not the target's is not left out: a trained one, one of another width") {
  CHECK_THROWS_WITH_AS((Exported<NoQueryLatent>({.embed_tokens = false})),
                       doctest::Contains("embed_tokens: found left out, wanted written: this draft's embedding is"),
                       Error);
  CHECK_THROWS_WITH_AS((Exported<OtherWidth>({.embed_tokens = false})),
                       doctest::Contains("embed_tokens: found left out, wanted written: this draft's embedding is"),
                       Error);
  CHECK_NOTHROW(Exported<OtherWidth>{}.load());
}

TEST_CASE("a file of other tools does not name conventions: the caller must, and what the file names stays") {
  const Exported<Odd> out;
  io::json root = out.foreign();
  out.rewrite(root);
  for (const char* line :
       {"found 4 differences", "aux_stream: found nothing, wanted running_sum or residual_mixture",
        "layer_ids: found nothing, wanted after_layer_0 or layers_executed",
        "softmax_mscale: found nothing, wanted \"none\"", "state_norm: found nothing, wanted \"pre_norm\""}) {
    out.refuse(line);
  }
  LoadGiven<Eagle3Draft<Odd>, bfloat16> given;
  given.conventions = Eagle3Conventions{};
  CHECK(out.load(given).conventions == Eagle3Conventions{});
  CHECK(out.load(given).layer_ids == Ids{2, 4, 6});
  CHECK(same_bits(out.load(given).parameters, out.parameters));
  root["layer_ids"] = "layers_executed";
  out.rewrite(root);
  CHECK(out.load(given).conventions == Eagle3Conventions{.layer_ids = LayerIds::layers_executed});
  root["layer_ids"] = "vllm";
  out.rewrite(root);
  out.refuse("layer_ids: found \"vllm\", wanted after_layer_0 or layers_executed", given);
  given.conventions->softmax_mscale = SoftmaxMscale::yarn_mscale_squared;
  root.erase("layer_ids");
  out.rewrite(root);
  out.refuse("softmax_mscale: found \"yarn_mscale_squared\", wanted \"none\"", given);
}

TEST_CASE("what a loader takes for granted where the file is silent is compared as if it stood there") {
  const Exported<configs::Eagle31<Whole>> out;
  io::json root = out.config();
  for (const char* name : {"draft_vocab_size", "target_hidden_size", "fc_norm", "norm_output"}) root.erase(name);
  out.rewrite(root);
  out.refuse("found 3 differences");
  out.refuse("target_hidden_size: found nothing, wanted 20");
  out.refuse("fc_norm: found nothing, wanted true");
  out.refuse("norm_output: found nothing, wanted true");
  const Exported<Odd> plain;
  root = plain.config();
  for (const char* name : {"target_hidden_size", "fc_norm", "norm_output"}) root.erase(name);
  plain.rewrite(root);
  CHECK(same_bits(plain.load().parameters, plain.parameters));
}

TEST_CASE("mscales in a file matter where the draft scales its softmax by them") {
  const Exported<Scaled> scaled;
  const Exported<Unscaled> unscaled;
  io::json root = scaled.config();
  root["rope_scaling"]["mscale"] = 1;
  scaled.rewrite(root);
  scaled.refuse("rope_scaling.mscale: found 1, wanted 0.25");
  root = unscaled.config();
  root["rope_scaling"]["mscale"] = root["rope_scaling"]["mscale_all_dim"] = 1;
  unscaled.rewrite(root);
  CHECK_NOTHROW(unscaled.load());
}

TEST_CASE("every difference of an engine's file is said at once") {
  const Exported<Odd> out;
  io::json root = out.config();
  root["hidden_size"] = 28, root["rope_theta"] = 9, root["hidden_act"] = "gelu", root["norm_before_residual"] = true;
  root["logit_scale"] = 0.5, root["num_hidden_layers"] = 2, root["parallel_drafting"] = true;
  root["eagle_config"]["use_aux_hidden_state"] = false;
  root.erase("kv_lora_rank");
  out.rewrite(root);
  for (const char* line :
       {"config.json: found 9 differences", "hidden_size: found 28, wanted 27", "rope_theta: found 9, wanted 10000",
        "hidden_act: found \"gelu\", wanted \"silu\"", "norm_before_residual: found true, wanted false",
        "logit_scale: found 0.5, wanted 1.0", "num_hidden_layers: found 2, wanted 1",
        "parallel_drafting: found true, wanted false", "eagle_config.use_aux_hidden_state: found false, wanted true",
        "kv_lora_rank: found nothing, wanted 7"}) {
    out.refuse(line);
  }
  const Exported<Odd> other;
  root = other.foreign();
  root["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {2, 4};
  other.rewrite(root);
  other.refuse("eagle_config.eagle_aux_hidden_state_layer_ids: found [2,4], wanted 3 different layers",
               {{}, Eagle3Conventions{}});
}

TEST_CASE("what cannot be is not written") {
  const Exported<Odd> out;
  const auto weights = test::contents(out / "model.safetensors"), config = test::contents(out / "config.json");
  Parameters<Exported<Odd>::Draft, bfloat16> changed;
  changed.initialize(6);
  const auto refuse = [&](const Ids& layers, const Eagle3Conventions& conventions, const DraftVocabulary& vocabulary,
                          const char* message) {
    CHECK_THROWS_WITH_AS(save_engine_draft(out.path(), changed, vocabulary, layers, conventions),
                         doctest::Contains(message), Error);
    CHECK(test::contents(out / "model.safetensors") == weights);
    CHECK(test::contents(out / "config.json") == config);
  };
  refuse({1, 3}, mixed, out.vocabulary, "aux_layer_ids: found [1,3], wanted 3 different layers");
  refuse({2, 2, 2}, mixed, out.vocabulary, "aux_layer_ids: found [2,2,2], wanted 3 different layers");
  refuse({-7, 3, 99}, mixed, out.vocabulary, "aux_layer_ids: found -7, wanted 0 or more, counted as after_layer_0");
  refuse({1, 3, 5}, {.softmax_mscale = SoftmaxMscale::yarn_mscale_squared}, out.vocabulary,
         "softmax_mscale: found \"yarn_mscale_squared\"");
  refuse({1, 3, 5}, mixed, DraftVocabulary::whole(51), "found 51 of 51 tokens, wanted 40 of 51, the draft's");
  refuse({1, 3, 5}, mixed, DraftVocabulary::whole(40), "found 40 of 40 tokens, wanted 40 of 51, the draft's");
  CHECK_THROWS_AS(save_engine_draft("/nonexistent", out.parameters, out.vocabulary, {1, 3, 5}, mixed), Error);
}

TEST_CASE("wider parameters are rounded once, to the nearest") {
  const Exported<Odd, float> wide;
  const Exported<Odd> narrow;
  const auto back = wide.load();
  const auto x = wide.parameters.all(), y = back.parameters.all();
  index_t changed = 0;
  for (index_t i = 0; i < x.size(); ++i) {
    CHECK(y(i) == static_cast<float>(bfloat16(x(i))));
    changed += x(i) != y(i);
  }
  CHECK(changed > x.size() / 2);
}

TEST_CASE("the engines' layout is no K3 draft's") {
  using K3 = Eagle3Draft<test::OddCases>;
  const Exported<Odd> out;
  CHECK_THROWS_WITH_AS((load_draft<K3, float>(out.path())),
                       doctest::Contains("architectures: found [\"Eagle3DeepseekV2ForCausalLM\"], wanted "
                                         "KimiK3Eagle3DraftModel"),
                       Error);
}

TEST_CASE("a damaged file in the engines' layout is refused by tensor") {
  const Exported<Odd> out;
  const auto rename = [&](const std::string& from, const std::string& to) {
    const auto file = io::ModelTensors::open(out.path());
    std::vector<io::TensorSource> tensors;
    std::vector<std::vector<std::byte>> bytes;
    for (const auto& name : file.names()) {
      bytes.push_back(file.read_bytes(name));
      tensors.push_back({name == from ? to : name, file.dtype(name), file.shape(name), bytes.back().data()});
    }
    const test::TemporaryDirectory other;
    io::write_safetensors(other / "model.safetensors", tensors);
    std::filesystem::copy(out / "config.json", other / "config.json");
    CHECK_THROWS_WITH_AS((load_draft<Eagle3Draft<Odd>, bfloat16>(other.path())), doctest::Contains(from.c_str()),
                         Error);
  };
  rename("midlayer.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight");
  rename("d2t", "draft_id_to_target_id");
  rename("t2d", "other");
}
