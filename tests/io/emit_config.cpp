// A config's type from a config.json: what is written, what is refused, what is told. That headers compile and are what
// they were made from: tests/emitted.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/config/eagle3_1.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/emit_config.hpp>
#include <k3spec/io/safetensors_writer.hpp>

#include "tests/support/target_json.hpp"
#include "tests/support/temporary.hpp"

using namespace k3spec;
using namespace k3spec::io;
using configs::KimiK3Tiny;

namespace {

json tiny() { return read_json(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny/config.json"); }

std::string header(const EmittedModel& model, const char* name = "Mine") {
  return emitted_header(model, type_name(name, "--name"), "folder", 5);
}
bool has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  MESSAGE(text);
  return false;
}
/// A member's line in the header of a target.
std::string line(const json& root, const std::string& member) {
  const std::string text = header(read_model({root})), begin = "(KimiK3Target, " + member + ", ";
  const std::size_t at = text.find(begin);
  REQUIRE(at != std::string::npos);
  return text.substr(at + begin.size(), text.find(");\n", at) - at - begin.size());
}
/// What is said of a file that is refused.
std::string refusal(const json& root) {
  try {
    read_model({root, nullptr, "c.json"});
  } catch (const Error& e) {
    return e.what();
  }
  return "not refused";
}
json changed(const char* field, const json& value) {
  json root = tiny();
  io::detail::set_field(root["text_config"], field, value);
  return root;
}

template <DraftKind Kind, class Config>
json draft() {
  return draft_config_json<Kind, Config>({1, 3, 4}, DType::BF16);
}

}  // namespace

TEST_CASE("every field of a target is a member, by the names of both, nested and flat") {
  const EmittedModel model = read_model({tiny()}), flat = read_model({tiny()["text_config"]});
  std::size_t fields = 0;
  visit_target_fields<KimiK3Tiny>([&]<class T>(const std::string& name, const T& value) {
    CAPTURE(name);
    CHECK(model.members.all[fields].field == name);
    CHECK(model.members.all[fields].found == io::detail::field_value(value));
    CHECK(model.members.all[fields].value == io::detail::MemberType<T>::value(io::detail::field_value(value)));
    ++fields;
  });
  CHECK(model.members.all.size() == fields + 4);
  CHECK(header(model) == header(flat));
  CHECK(model.notes ==
        std::vector<std::string>{"target_mla_norm_eps: taken from KimiK3Target, since no config.json says it: 1e-06"});
}

TEST_CASE("values are written as C++ has them") {
  CHECK(line(tiny(), "rms_norm_eps") == "1e-05");
  CHECK(line(changed("routed_scaling_factor", 3), "routed_scaling_factor") == "3.0");
  CHECK(line(changed("routed_scaling_factor", 0.1), "routed_scaling_factor") == "0.1");
  CHECK(line(changed("q_lora_rank", nullptr), "q_lora_rank") == "std::nullopt");
  CHECK(line(changed("moe_renormalize", false), "moe_renormalize") == "false");
  CHECK(line(changed("linear_attn_config.gate_lower_bound", -7), "kda_gate_lower_bound") == "-7.0");
  CHECK(line(tiny(), "full_attn_layers") == "std::array<::k3spec::index_t, 2>{4, 8}");
  CHECK(line(changed("eos_token_id", {5, 257, 6}), "eos_token_id") == "5");
  CHECK(line(changed("eos_token_id", {5, 257, 6}), "other_stop_token_ids") ==
        "std::array<::k3spec::index_t, 2>{257, 6}");
  CHECK(line(changed("media_placeholder_token_id", 7), "media_token_id") == "7");
}

TEST_CASE("DeepSeek-V3's name of a field is taken where K3's is not there; two that differ are refused") {
  json root = changed("n_routed_experts", 16);
  CHECK(refusal(root) == "not refused");
  root["text_config"]["num_experts"] = nullptr;
  CHECK(line(root, "num_experts") == "16");
  root["text_config"]["num_experts"] = 8;
  CHECK(has(refusal(root),
            "1 fields that no config type here can have so, wanted none:\n  n_routed_experts: found 16, "
            "wanted 8"));
}

TEST_CASE("generation_config.json has stop tokens, too; a token beyond the vocabulary is refused") {
  const json generation{{"eos_token_id", {257, 9}}};
  EmittedModel model = read_model({tiny(), generation});
  CHECK(model.members.find("other_stop_token_ids") == json{9});
  CHECK_THROWS_WITH_AS(read_model({tiny(), json{{"eos_token_id", 260}}}),
                       doctest::Contains("generation_config.json: eos_token_id: found 260"), Error);
  model = read_model({changed("media_placeholder_token_id", 260)});
  CHECK(model.members.find("media_token_id").is_null());
  CHECK(has(model.notes[0], "media_placeholder_token_id: found 260, which is no token of the vocabulary"));
}

TEST_CASE("what no config type can have is refused, all of it at once") {
  json root = tiny();
  json& text = root["text_config"];
  text["hidden_act"] = "silu", text["topk_method"] = "greedy", text["tie_word_embeddings"] = true;
  text["quantization_config"] = {{"quant_method", "gptq"}};
  text["hidden_size"] = "128", text["vocab_size"] = nullptr, text["moe_layer_freq"] = 0.5;
  const std::string said = refusal(root);
  CHECK(has(said, "c.json: found 7 fields that no config type here can have so, wanted none:"));
  for (const char* part :
       {"hidden_act: found \"silu\", wanted \"situ\"", "topk_method: found \"greedy\"",
        "tie_word_embeddings: found true", "quantization_config.quant_method: found \"gptq\"",
        "hidden_size: found \"128\", wanted a whole number", "vocab_size: found nothing, wanted a whole number",
        "moe_layer_freq: found 0.5, wanted a whole number"}) {
    CHECK(has(said, std::string("\n  ") + part));
  }
  CHECK(has(refusal(json::object()), "hidden_size: found nothing"));
  CHECK(has(refusal(json(3)), "hidden_size: found nothing"));
}

TEST_CASE("what a config type must not say is refused before there is one") {
  struct Rule {
    const char* field;
    json wrong;
    const char* said;
  };
  for (const auto& [field, wrong, said] : std::vector<Rule>{
           {"hidden_size", 0, "hidden_size: found 0, wanted at least 1"},
           {"q_lora_rank", 0, "q_lora_rank: found 0, wanted at least 1"},
           {"num_shared_experts", -1, "num_shared_experts: found -1, wanted at least 0"},
           {"rms_norm_eps", 0, "rms_norm_eps: found 0, wanted more than 0"},
           {"activation_situ_linear_beta", 0.0, "activation_situ_linear_beta: found 0.0, wanted more than 0"},
           {"num_key_value_heads", 2, "num_key_value_heads: found 2, wanted 4, the number of attention heads"},
           {"mla_use_nope", false, "mla_use_nope: found false, wanted true: Kimi K3 rotates nothing"},
           {"bos_token_id", 260, "bos_token_id: found 260, wanted at most 259, a token"},
           {"pad_token_id", -1, "pad_token_id: found -1, wanted at least 0"},
           {"linear_attn_config.gate_lower_bound", 0, "gate_lower_bound: found 0, wanted less than 0, or null"},
           {"linear_attn_config.full_attn_layers", {8, 4}, "full_attn_layers: found [8,4], wanted layers in ascending"},
           {"linear_attn_config.full_attn_layers",
            {4, 4, 8},
            "full_attn_layers: found [4,4,8], wanted layers in ascend"},
           {"linear_attn_config.full_attn_layers", {8}, "full_attn_layers and kda_layers: found no layer 4"},
           {"num_expert_group", 3, "num_expert_group: found 3, wanted a divisor of num_experts"},
           {"topk_group", 2, "topk_group: found 2, wanted at most 1, num_expert_group"},
           {"num_experts_per_token", 17, "num_experts_per_token: found 17, wanted at most 16, the experts of"},
           {"attn_res_block_size", 0, "attn_res_block_size: found 0, wanted at least 1"},
       }) {
    CHECK(has(refusal(changed(field, wrong)), said));
  }
  json grouped = changed("num_expert_group", 4);
  grouped["text_config"]["num_experts_per_token"] = 5;
  CHECK(has(refusal(grouped), "num_experts_per_token: found 5, wanted at most 4, the experts of topk_group groups"));
  grouped["text_config"]["topk_group"] = 2;
  CHECK(refusal(grouped) == "not refused");
}

TEST_CASE("fields that are not known are named, to the user and in the header") {
  const EmittedModel model = read_model({changed("residual_multiplier\n*/ #error \\", 2)});
  REQUIRE(model.notes.size() == 2);
  CHECK(has(model.notes[1], "so not heeded, though it may change what the model computes: 'residual_multiplier\\x0a"));
  const std::string text = header(model);
  CHECK(has(text, "\n// config.json: not known here"));
  CHECK(text.find("\n*/") == std::string::npos);
}

TEST_CASE("a comment ends with its line, whatever a file says") {
  CHECK(io::detail::comment_line("a\\") == "// a\\.\n");
  CHECK(io::detail::comment_line("a\nb\r\x1b") == "// a\\x0ab\\x0d\\x1b\n");
  const std::string text = emitted_header(read_model({tiny()}), type_name("Mine", "--name"), "x\nint y;\\", 5);
  CHECK(has(text, "// Of 'x\\x0aint y;\\': a target, with drafts to begin with.\n"));
}

TEST_CASE("drafts: their own fields, conventions of the type as members, those of a run as a comment") {
  json root = draft<DraftKind::eagle3, configs::Eagle31<KimiK3Tiny>>();
  root["ttt_steps"] = 7, root["aux_stream"] = "residual_mixture";
  const std::string eagle3 = header(read_model({root}));
  CHECK(has(eagle3, "struct Mine : ::k3spec::configs::Eagle3<::k3spec::configs::KimiK3Target> {"));
  CHECK(has(eagle3, "K3SPEC_CHANGE(Eagle3, fc_norm, true);"));
  CHECK(has(eagle3, "K3SPEC_CHANGE(Eagle3, softmax_mscale, ::k3spec::SoftmaxMscale::none);"));
  CHECK(has(eagle3,
            "// What is no part of the type: aux_stream residual_mixture, layer_ids after_layer_0, trained for 7 "
            "steps; aux_layer_ids [1,3,4].\n"));
  CHECK(has(eagle3, "parameter_count<::k3spec::Eagle3Draft<Mine>> == 5,"));
  CHECK(eagle3.find("num_hidden_layers") == std::string::npos);
  const std::string deepseek = header(read_model({draft<DraftKind::eagle3, configs::DeepSeekV3Tiny>()}));
  CHECK(has(deepseek, "Eagle3<::k3spec::configs::DeepSeekV3Target>"));
  CHECK(has(deepseek, "rope_scaling, ::k3spec::Yarn{40.0, 32.0, 1.0, 4096, 1.0, 1.0});"));
  const std::string dspark = header(read_model({draft<DraftKind::dspark, configs::KimiK3TinyDSpark>()}));
  CHECK(has(dspark, "K3SPEC_CHANGE(DSpark, num_draft_layers, 2);"));
  CHECK(has(dspark, "K3SPEC_CHANGE(DSpark, num_target_layers, 3);"));
  CHECK(has(dspark, "K3SPEC_CHANGE(DSpark, markov_head_type, ::k3spec::MarkovHeadType::vanilla);"));
  CHECK(has(header(read_model({draft<DraftKind::dflash, configs::KimiK3TinyDFlash>()})), "DFlashDraft<Mine>"));
}

TEST_CASE("what no draft's type can have is refused") {
  const auto refuse = [](json root, const char* field, const json& value, const std::string& said) {
    root[field] = value;
    CHECK(has(refusal(root), said));
  };
  const json eagle3 = draft<DraftKind::eagle3, KimiK3Tiny>(),
             dspark = draft<DraftKind::dspark, configs::KimiK3TinyDSpark>();
  const json deepseek = draft<DraftKind::eagle3, configs::DeepSeekV3Tiny>();
  refuse(eagle3, "num_hidden_layers", 2, "num_hidden_layers: found 2, wanted 1");
  refuse(eagle3, "draft_vocab_size", 261, "draft_vocab_size: found 261, wanted at most 260, vocab_size");
  refuse(eagle3, "aux_layer_ids", {1, 3}, "aux_layer_ids: found [1,3], wanted 3 layers, num_aux_hidden_states");
  refuse(eagle3, "aux_layer_ids", {1, 3, 3}, "aux_layer_ids: found [1,3,3], wanted a list of different layers");
  refuse(eagle3, "aux_stream", "other", "aux_stream: found \"other\", wanted running_sum or residual_mixture");
  refuse(eagle3, "state_norm", "post_norm", "state_norm: found \"post_norm\", wanted \"pre_norm\"");
  refuse(eagle3, "softmax_mscale", "other", "softmax_mscale: found \"other\", wanted none or yarn_mscale_squared");
  refuse(eagle3, "softmax_mscale", "yarn_mscale_squared", "wanted \"none\": there is no YaRN to scale by");
  refuse(eagle3, "target_hidden_size", 64, "hidden_size: found 128, wanted 64, target_hidden_size");
  refuse(dspark, "slot", "anchor_plus_k", "slot: found \"anchor_plus_k\", wanted \"anchor_plus_k_plus_1\"");
  refuse(dspark, "block_size", 1, "block_size: found 1, wanted at least 2");
  refuse(dspark, "markov_rank", 0, "confidence_head_with_markov: found true, wanted false: there is no Markov head");
  refuse(dspark, "is_causal", false, "is_causal: found false, wanted true");
  refuse(deepseek, "qk_rope_head_dim", 7, "qk_rope_head_dim: found 7, wanted an even number");
  refuse(deepseek, "mla_use_output_gate", true, "mla_use_output_gate: found true, wanted false");
  refuse(deepseek, "rope_theta", 1, "rope_theta: found 1, wanted more than 1");
  refuse(deepseek, "rope_theta", nullptr, "rope_theta: found nothing, wanted a number");
  refuse(deepseek, "rope_scaling", {{"type", "linear"}, {"factor", 2}}, "rope_scaling.rope_type: found \"linear\"");
  refuse(deepseek, "rope_scaling", {{"type", "yarn"}, {"factor", 2}}, "rope_scaling.beta_fast: found nothing");
  refuse(deepseek, "architectures", json::array({"Eagle3DeepseekV2ForCausalLM"}), "in the engines' layout");
  refuse(eagle3, "model_type", "kimi_linear", "convert_draft --from nemo");
}

TEST_CASE("the type's name is an identifier that C++ and the library leave free") {
  CHECK(type_name("Mine", "n").name == "Mine");
  const TypeName nested = type_name("a::b2::C_d", "n");
  CHECK(nested.outer == std::vector<std::string>{"a", "b2"});
  CHECK(nested.name == "C_d");
  CHECK(has(header(read_model({tiny()}), "a::b::Mine"), "namespace a::b {\n"));
  for (const char* wrong : {"", "2a", "a b", "a-b", "a::", "::a", "a:b", "a::::b", "class", "a::int", "_a", "a__b", "é",
                            "std::A", "k3spec::A", "A;int x", "K3SPEC_A", "main", "xor"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH_AS(type_name(wrong, "--name"), doctest::Contains("--name: found '"), Error);
  }
  CHECK_THROWS_AS(type_name(std::string(201, 'a'), "--name"), Error);
  for (const char* taken : {"hidden_size", "KimiK3Target", "backbone"}) {
    CHECK_THROWS_WITH_AS(header(read_model({tiny()}), taken), doctest::Contains("wanted a name that no member"), Error);
  }
}

TEST_CASE("a target's tensors: packed experts count what they hold, others are told apart") {
  const test::TemporaryDirectory folder;
  const std::vector<std::uint8_t> bytes(4096);
  const auto tensor = [&](const std::string& name, std::vector<index_t> shape) {
    return TensorSource{name, DType::U8, std::move(shape), bytes.data()};
  };
  const std::string model = "language_model.model.", expert = model + "layers.1.block_sparse_moe.experts.0.w1.weight";
  const auto tally_of = [&](const std::vector<TensorSource>& all, const json& root) {
    write_safetensors(folder / "model.safetensors", all);
    return tally_target(ModelTensors::open(folder.path(), "language_model."), read_model({root}).members);
  };
  std::vector<TensorSource> all{tensor(expert + "_packed", {64, 32}),
                                tensor(expert + "_scale", {64, 2}),
                                tensor(model + "layers.1.self_attn.A_log", {9}),
                                tensor(model + "norm.weight", {128}),
                                tensor("vision_tower.x", {7}),
                                tensor(model + "layers.8.eh_proj.weight", {4}),
                                tensor(model + "layers.x", {2}),
                                tensor(model + "layers.2.y", {2}),
                                tensor(model + "layers.10.z", {1}),
                                tensor(model + "norm.weight_packed", {3})};
  for (int i = 0; i < 20; ++i) all.push_back(tensor("vision_tower." + std::to_string(i), {1}));
  const TensorTally tally = tally_of(all, tiny());
  CHECK(tally.parameters == 64 * 64 + 4 + 128 + 2 + 3);
  CHECK(tally.others == 24);
  CHECK(tally.other_bytes == 7 + 4 + 2 + 1 + 20);
  CHECK(tally.first_difference == "'model.embed_tokens.weight' has nothing, wanted 33280");
  CHECK(has(tally_notes(tally)[0], "24 tensors of 34 bytes are not the target's, so not counted: 'model.layers.10.z"));
  // A depth that the file cannot have is not gone through.
  EmittedModel many = read_model({tiny()});
  for (auto& member : many.members.all) {
    if (member.name == "num_hidden_layers") member.found = 1'000'000'000;
  }
  const auto tensors = ModelTensors::open(folder.path());
  CHECK(tally_target(tensors, many.members).differing == 1);
}

TEST_CASE("fields and tensors that disagree are told of, with the first tensor that differs") {
  const auto tensors = ModelTensors::open(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny", "language_model.");
  const auto notes = [&](const json& root) { return tally_notes(tally_target(tensors, read_model({root}).members)); };
  CHECK(notes(tiny()).empty());
  const auto first = [&](const char* field, const json& value, const std::string& wanted) {
    const auto said = notes(changed(field, value));
    REQUIRE(!said.empty());
    CHECK(has(said.back(), "disagree, so that the header is not going to compile: "));
    CHECK(has(said.back(), wanted));
  };
  first("intermediate_size", 255,
        "3 differ, first 'model.layers.0.mlp.gate_proj.weight' has 32768 numbers, wanted 32640");
  first("attn_res_block_size", nullptr,
        "34 differ, first 'model.layers.0.mlp_res_norm.weight' has 128 numbers, wanted no such tensor");
  first("num_experts", 17, "first 'model.layers.1.block_sparse_moe.gate.weight' has 2048 numbers, wanted 2176");
  first("q_lora_rank", nullptr, "8 differ, first 'model.layers.3.self_attn.q_proj.weight' has nothing, wanted 12288");
}

TEST_CASE("a folder's header counts the tensors that are there") {
  const EmittedConfig target = emit_config(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny/", type_name("Mine", "n"));
  CHECK(has(target.text, "// Of 'k3-tiny': a target"));
  CHECK(has(target.text, "parameter_count<::k3spec::K3Target<Mine>> == 2476072,"));
  const EmittedConfig draft = emit_config(K3SPEC_SOURCE_DIR "/tests/data/drafts/dspark_k3_tiny", type_name("M", "n"));
  CHECK(has(draft.text, "parameter_count<::k3spec::DSparkDraft<M>> == 402753,"));

  const test::TemporaryDirectory folder;
  write_text(folder / "mine.hpp", target.text);
  CHECK(is_emitted_config(folder / "mine.hpp"));
  write_text(folder / "mine.hpp", target.text.substr(1));
  CHECK(!is_emitted_config(folder / "mine.hpp"));
  CHECK(!is_emitted_config(folder / "nothing"));
}
