// What the code takes for granted of a model is compared where a file says it; what it does not know is named.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/io/draft_config.hpp>

using namespace k3spec;
using namespace k3spec::io;
using configs::KimiK3;
using configs::KimiK3Tiny;

namespace {

json tiny() { return read_json(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny/config.json"); }

template <DraftKind Kind, class C>
struct Draft {
  using Config = C;
  static json file() { return draft_config_json<Kind, Config>({1, 3, 4}, DType::BF16); }
  static Differences differences(const json& root) { return draft_differences<Kind, Config>(root); }
  static std::vector<std::string> notes(const json& root) { return check_draft_config<Kind, Config>(root, "c.json"); }
};
using Eagle3 = Draft<DraftKind::eagle3, KimiK3Tiny>;
using DeepSeek = Draft<DraftKind::eagle3, configs::DeepSeekV3Tiny>;
using DFlash = Draft<DraftKind::dflash, configs::KimiK3TinyDFlash>;
using DSpark = Draft<DraftKind::dspark, configs::KimiK3TinyDSpark>;

struct Other {
  const char* field;
  json value;
  const char* message;
};

/// The one difference of a file with one field changed.
void one_difference(const Differences& found, const Other& other) {
  CAPTURE(other.field);
  CAPTURE(other.value.dump());
  REQUIRE(found.size() == 1);
  CHECK(found[0] == other.message);
}

json quantized(const char* path, const json& value) {
  json root = tiny();
  json& q = root["text_config"]["quantization_config"];
  q["config_groups"]["group_0"] = {{"format", "mxfp4-pack-quantized"},
                                   {"input_activations", nullptr},
                                   {"output_activations", nullptr},
                                   {"targets", {"Linear"}},
                                   {"weights",
                                    {{"num_bits", 4},
                                     {"group_size", 32},
                                     {"type", "float"},
                                     {"symmetric", true},
                                     {"dynamic", false},
                                     {"scale_dtype", "torch.uint8"}}}};
  if (*path != 0) io::detail::set_field(q, path, value);
  return root;
}

/// What transformers 5 writes for the published Kimi K3, but for sizes, which are the miniature's.
json as_transformers_writes() {
  json root = quantized("", nullptr);
  root["quantization_config"] = root["text_config"]["quantization_config"];
  for (const char* name : {"auto_map", "vision_config"}) root[name] = {{"model_type", "x"}};
  root["dtype"] = "bfloat16", root["ignore_index"] = -100, root["image_placeholder"] = "<|x|>";
  root["media_placeholder_token_id"] = 5, root["tie_word_embeddings"] = false, root["transformers_version"] = "5.12.1";
  json& text = root["text_config"];
  const json more = parse_json(R"({"_name_or_path": "", "add_cross_attention": false, "chunk_size_feed_forward": 0,
    "auto_map": {}, "cross_attention_hidden_size": null, "finetuning_task": null, "head_dim": 74, "id2label": {},
    "initializer_range": 0.02, "is_decoder": false, "is_encoder_decoder": false, "num_nextn_predict_layers": 0,
    "output_attentions": false, "pruned_heads": {}, "return_dict": true, "use_cache": true, "temperature": 1.0,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "rope_theta": 10000.0, "top_k": 50,
    "tie_encoder_decoder": false, "torchscript": false, "use_bfloat16": false, "typical_p": 1.0})",
                               "more");
  text.update(more);
  return root;
}

}  // namespace

TEST_CASE("a target's file that says otherwise what the code takes for granted is refused by field") {
  const Other others[] = {
      {"topk_method", "greedy", "topk_method: found \"greedy\", wanted \"noaux_tc\""},
      {"use_grouped_topk", false, "use_grouped_topk: found false, wanted true"},
      {"attention_bias", true, "attention_bias: found true, wanted false"},
      {"qkv_bias", true, "qkv_bias: found true, wanted false"},
      {"mlp_bias", true, "mlp_bias: found true, wanted false"},
      {"use_bias", true, "use_bias: found true, wanted false"},
      {"use_qk_norm", true, "use_qk_norm: found true, wanted false"},
      {"sliding_window", 4096, "sliding_window: found 4096, wanted nothing"},
      {"use_sliding_window", true, "use_sliding_window: found true, wanted false"},
      {"layer_types",
       {"full_attention", "sliding_attention"},
       "layer_types: found \"sliding_attention\", wanted \"full_attention\" or \"linear_attention\""},
      {"layer_types", 3, "layer_types: found 3, wanted a list"},
      {"model_type", "llama", "model_type: found \"llama\", wanted \"kimi_k3\" or \"kimi_linear\""},
      {"architectures",
       {"LlamaForCausalLM"},
       "architectures: found \"LlamaForCausalLM\", wanted \"KimiK3ForConditionalGeneration\" or "
       "\"KimiK3ForCausalLM\" or \"KimiLinearForCausalLM\""},
      {"hidden_act", "silu", "hidden_act: found \"silu\", wanted \"situ\""},
      {"moe_router_activation_func", "softmax", "moe_router_activation_func: found \"softmax\", wanted \"sigmoid\""},
      {"scoring_func", "softmax", "scoring_func: found \"softmax\", wanted \"sigmoid\""},
      {"norm_topk_prob", false, "norm_topk_prob: found false, wanted true"},
      {"num_experts_per_tok", 8, "num_experts_per_tok: found 8, wanted 2"},
      {"n_routed_experts", 8, "n_routed_experts: found 8, wanted 16"},
      {"n_shared_experts", 2, "n_shared_experts: found 2, wanted 1"},
      {"n_group", 8, "n_group: found 8, wanted 1"},
      {"tie_word_embeddings", true, "tie_word_embeddings: found true, wanted false"},
      {"attn_logit_softcapping", 50, "attn_logit_softcapping: found 50, wanted nothing"},
      {"final_logit_softcapping", 30, "final_logit_softcapping: found 30, wanted nothing"},
      {"cross_attention_hidden_size", 8, "cross_attention_hidden_size: found 8, wanted nothing"},
      {"logit_scale", 0.5, "logit_scale: found 0.5, wanted 1.0"},
      {"pruned_heads", {{"0", {1}}}, "pruned_heads: found {\"0\":[1]}, wanted {}"},
      {"is_encoder_decoder", true, "is_encoder_decoder: found true, wanted false"},
      {"add_cross_attention", true, "add_cross_attention: found true, wanted false"},
      {"kda_use_qk_l2norm_in_kernel", false, "kda_use_qk_l2norm_in_kernel: found false, wanted true"},
      {"num_key_value_heads", 2, "num_key_value_heads: found 2, wanted 4"},
  };
  for (const Other& other : others) {
    json changed = tiny();
    changed["text_config"][other.field] = other.value;
    one_difference(target_differences<KimiK3Tiny>(changed), other);
    // A file that is text alone has them at its top.
    one_difference(target_differences<KimiK3Tiny>(changed["text_config"]), other);
  }
  json top = tiny();
  top["model_type"] = "llama";
  one_difference(target_differences<KimiK3Tiny>(top), others[11]);
}

TEST_CASE("weights of a target are MXFP4 of compressed-tensors, or not quantised") {
  CHECK(target_differences<KimiK3Tiny>(quantized("", nullptr)).empty());
  const std::string q = "quantization_config.";
  const Other others[] = {
      {"quant_method", "gptq",
       "quantization_config.quant_method: found \"gptq\", wanted \"compressed-tensors\", or no quantization_config"},
      {"quant_method", nullptr,
       "quantization_config.quant_method: found nothing, wanted \"compressed-tensors\", or no quantization_config"},
      {"format", "nvfp4-pack-quantized",
       "quantization_config.format: found \"nvfp4-pack-quantized\", wanted \"mxfp4-pack-quantized\""},
      {"kv_cache_scheme",
       {{"num_bits", 8}},
       "quantization_config.kv_cache_scheme: found {\"num_bits\":8}, wanted nothing"},
      {"config_groups.group_0.format", "pack-quantized",
       "quantization_config.config_groups.group_0.format: found \"pack-quantized\", wanted \"mxfp4-pack-quantized\""},
      {"config_groups.group_0.weights.num_bits", 8,
       "quantization_config.config_groups.group_0.weights.num_bits: found 8, wanted 4"},
      {"config_groups.group_0.weights.group_size", 16,
       "quantization_config.config_groups.group_0.weights.group_size: found 16, wanted 32"},
      {"config_groups.group_0.weights.type", "int",
       "quantization_config.config_groups.group_0.weights.type: found \"int\", wanted \"float\""},
      {"config_groups.group_0.weights.symmetric", false,
       "quantization_config.config_groups.group_0.weights.symmetric: found false, wanted true"},
      {"config_groups.group_0.weights.dynamic", true,
       "quantization_config.config_groups.group_0.weights.dynamic: found true, wanted false"},
      {"config_groups.group_0.input_activations",
       {{"num_bits", 8}},
       "quantization_config.config_groups.group_0.input_activations: found {\"num_bits\":8}, wanted nothing"},
      {"config_groups.group_1", 3, "quantization_config.config_groups.group_1: found 3, wanted an object"},
  };
  for (const Other& other : others) {
    json root = quantized(other.field, other.value);
    one_difference(target_differences<KimiK3Tiny>(root), other);
    // The same at the top, where some tools write it, alone or as another than the text's.
    root["quantization_config"] = root["text_config"]["quantization_config"];
    root["text_config"].erase("quantization_config");
    one_difference(target_differences<KimiK3Tiny>(root), other);
    root["text_config"]["quantization_config"] = quantized("", nullptr)["text_config"]["quantization_config"];
    one_difference(target_differences<KimiK3Tiny>(root), other);
  }
  json plain = tiny();
  plain["text_config"].erase("quantization_config");
  CHECK(target_differences<KimiK3Tiny>(plain).empty());
  plain["text_config"]["quantization_config"] = "gptq";
  CHECK(target_differences<KimiK3Tiny>(plain) == Differences{"quantization_config: found \"gptq\", wanted an object"});
}

TEST_CASE_TEMPLATE("a draft's file that says otherwise what the code takes for granted is refused by field", D, Eagle3,
                   DeepSeek, DFlash, DSpark) {
  constexpr bool k3 = D::Config::backbone == Backbone::kimi_k3;
  const Other others[] = {
      {"model_type", "llama",
       k3 ? "model_type: found \"llama\", wanted \"kimi_k3\" or \"kimi_linear\""
          : "model_type: found \"llama\", wanted \"deepseek_v3\" or \"deepseek_v2\" or \"kimi_k2\""},
      {"mlp_bias", true, "mlp_bias: found true, wanted false"},
      {"norm_before_residual", true, "norm_before_residual: found true, wanted false"},
      {"norm_before_fc", true, "norm_before_fc: found true, wanted false"},
      {"logit_scale", 0.5, "logit_scale: found 0.5, wanted 1.0"},
      {"quantization_config",
       {{"quant_method", "gptq"}},
       "quantization_config.quant_method: found \"gptq\", wanted \"compressed-tensors\", or no quantization_config"},
      {"final_logit_softcapping", 30, "final_logit_softcapping: found 30, wanted nothing"},
  };
  for (const Other& other : others) {
    json changed = D::file();
    changed[other.field] = other.value;
    one_difference(D::differences(changed), other);
  }
}

TEST_CASE("windows, causality and slots of a draft's file agree with what the draft does") {
  const auto check = []<class D>(D, const Other& other) {
    json changed = D::file();
    io::detail::set_field(changed, other.field, other.value);
    one_difference(D::differences(changed), other);
  };
  check(Eagle3{}, {"sliding_window", 2048, "sliding_window: found 2048, wanted nothing"});
  check(Eagle3{}, {"use_sliding_window", true, "use_sliding_window: found true, wanted false"});
  check(Eagle3{}, {"is_causal", false, "is_causal: found false, wanted true"});
  check(DFlash{}, {"use_sliding_window", false, "use_sliding_window: found false, wanted true"});
  check(DFlash{}, {"is_causal", false, "is_causal: found false, wanted true"});
  check(DFlash{},
        {"layer_types", {"full_attention"}, "layer_types: found \"full_attention\", wanted \"sliding_attention\""});
  check(DFlash{}, {"sample_from_anchor", true, "sample_from_anchor: found true, wanted false"});
  check(DSpark{}, {"sample_from_anchor", false, "sample_from_anchor: found false, wanted true"});
  check(DFlash{},
        {"dflash_config.projector_type", "domino", "dflash_config.projector_type: found \"domino\", wanted nothing"});
  check(DFlash{}, {"dflash_config.mask_token_id", 3, "dflash_config.mask_token_id: found 3, wanted 259"});
  check(DFlash{}, {"dflash_config.block_size", 9, "dflash_config.block_size: found 9, wanted 8"});
  check(DFlash{}, {"dflash_config.causal", false, "dflash_config.causal: found false, wanted true"});
}

TEST_CASE("a target's fields that are not known are named, and the published ones are") {
  CHECK(check_target_config<KimiK3Tiny>(tiny()).empty());
  CHECK(check_target_config<KimiK3Tiny>(as_transformers_writes()).empty());
  json root = tiny();
  root["text_config"]["residual_multiplier"] = 0.22;
  root["text_config"]["linear_attn_config"]["delta_rule"] = "gated";
  root["text_config"]["nothing_at_all"] = nullptr;
  root["logits_scaling"] = 8;
  root["other_object"] = {{"inside", 1}};
  const auto notes = check_target_config<KimiK3Tiny>(root, "m/config.json");
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] ==
        "m/config.json: not known here, and so not heeded, though it may change what the model computes: "
        "'linear_attn_config.delta_rule', 'logits_scaling', 'other_object', 'residual_multiplier'");
}

TEST_CASE_TEMPLATE("a draft's fields that are not known are named, its target's are known", D, Eagle3, DeepSeek, DFlash,
                   DSpark) {
  json root = D::file();
  CHECK(D::notes(root).empty());
  root["num_experts"] = 16, root["num_target_layers"] = 8, root["num_anchors"] = 512, root["ttt_steps"] = 7;
  root["routed_scaling_factor"] = 2.5, root["topk_method"] = "noaux_tc", root["transformers_version"] = "5";
  CHECK(D::notes(root).empty());
  root["second_norm"] = true;
  CHECK(D::notes(root) == std::vector<std::string>{"c.json: not known here, and so not heeded, though it may change "
                                                   "what the model computes: 'second_norm'"});
}

TEST_CASE("however many fields are not known, and however they are called, the note can be read") {
  json root = tiny();
  root["text_config"]["a\x1b[2J"] = 1;
  root["text_config"]["b" + std::string(1'000'000, 'x')] = 1;
  for (int i = 0; i < 1000; ++i) root["c" + std::to_string(i)] = i;
  const auto notes = check_target_config<KimiK3Tiny>(root);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].size() < 1500);
  CHECK(notes[0].find('\x1b') == std::string::npos);
  CHECK(notes[0].find("'a\\x1b[2J', 'bxxx") != std::string::npos);
  CHECK(notes[0].find(" and 994 more") == notes[0].size() - 13);
}

TEST_CASE("a name inside a known one is not known") {
  for (const char* name : {"cache", "use_", "top_k top_p", " ", ""}) {
    json root = tiny();
    root["text_config"][name] = 1;
    CHECK(check_target_config<KimiK3Tiny>(root).size() == 1);
  }
}

TEST_CASE("a target's field may have DeepSeek-V3's name alone, and must not say two things by two names") {
  for (const auto& spelling : io::detail::other_spellings) {
    const char *own = spelling.field, *other = spelling.other;  // clang 14 lets no lambda have a binding
    json root = tiny();
    json& text = root["text_config"];
    text[other] = text[own];
    CAPTURE(own);
    CHECK(target_differences<KimiK3Tiny>(root).empty());
    text[own] = nullptr;
    CHECK(target_differences<KimiK3Tiny>(root).empty());
    text[other] = 77;
    REQUIRE(target_differences<KimiK3Tiny>(root).size() == 2);
    CHECK(target_differences<KimiK3Tiny>(root)[0].find(std::string(own) + ": found 77, wanted ") == 0);
  }
}
