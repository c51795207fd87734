#include <doctest/doctest.h>

#include <set>
#include <string>

#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/io/draft_config.hpp>

using namespace k3spec;
using namespace k3spec::io;
using configs::KimiK3;
using configs::KimiK3Small;
using configs::KimiK3Tiny;

namespace {

json tiny_target() { return read_json(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny/config.json"); }

bool has(const Differences& differences, const std::string& line) {
  for (const auto& d : differences) {
    if (d.find(line) != std::string::npos) return true;
  }
  for (const auto& d : differences) MESSAGE(d);
  return false;
}

/// A kind of draft with a config for the miniature and one for K3 itself.
template <DraftKind Kind, class TinyConfig, class LargeConfig>
struct Sample {
  static constexpr DraftKind kind = Kind;
  using Form = DraftForm<Kind>;
  using Tiny = TinyConfig;
  using Large = LargeConfig;

  static json file(const typename Form::Conventions& conventions = Form::template conventions<Tiny>()) {
    return draft_config_json<Kind, Tiny>({1, 3, 4}, DType::BF16, conventions);
  }
  static Differences differences(const json& root) { return draft_differences<Kind, Tiny>(root); }
};
using Eagle3 = Sample<DraftKind::eagle3, KimiK3Tiny, KimiK3>;
using DeepSeek = Sample<DraftKind::eagle3, configs::DeepSeekV3Tiny, configs::DeepSeekV3>;
using DFlash = Sample<DraftKind::dflash, configs::KimiK3TinyDFlash, configs::KimiK3DFlash>;
using DSpark = Sample<DraftKind::dspark, configs::KimiK3TinyDSpark, configs::KimiK3DSpark>;

struct Unbounded : KimiK3Tiny {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
  static constexpr std::optional<double> activation_situ_linear_beta = std::nullopt;
  static constexpr bool norm_output = true;
};

struct Scaled : configs::DeepSeekV3Tiny {
  static constexpr SoftmaxMscale softmax_mscale = SoftmaxMscale::yarn_mscale_squared;
};

struct NoMask : configs::KimiK3TinyDFlash {
  static constexpr std::optional<index_t> mask_token_id = std::nullopt;
};
template <index_t Mask>
struct MaskIs : NoMask {
  static constexpr std::optional<index_t> mask_token_id = Mask;
};

struct Media : configs::KimiK3DFlash {
  static constexpr std::optional<index_t> mask_token_id = 163605;
};
/// One that has no such field.
struct NoMedia : configs::KimiK3TinyDFlash {
 private:
  static constexpr std::optional<index_t> media_token_id = 259;
};

}  // namespace

TEST_CASE_TEMPLATE("a draft's config.json is what it was written from", S, Eagle3, DeepSeek, DFlash, DSpark) {
  const json written = S::file();
  CHECK(S::differences(written).empty());
  CHECK_NOTHROW(check_config<typename S::Tiny>(parse_json(written.dump(), "draft")));
  CHECK(draft_differences<S::kind, typename S::Large>(
            draft_config_json<S::kind, typename S::Large>({1, 45, 89}, DType::BF16))
            .empty());
  CHECK(draft_kind(written) == S::kind);
  CHECK(written["architectures"] == json{S::Form::template architecture<typename S::Tiny>});
  CHECK(written["aux_stream"] == "running_sum");
  CHECK(written["dtype"] == "bfloat16");
  CHECK(draft_layer_ids<S::kind, typename S::Tiny>(written) == std::vector<index_t>{1, 3, 4});
  CHECK(has(draft_differences<S::kind, typename S::Large>(written), "hidden_size: found 128, wanted 7168"));
  CHECK(has(S::differences(tiny_target()), "architectures: found [\"KimiK3For"));
}

TEST_CASE("the steps that an EAGLE-3 draft was unrolled for are written and read; other files do not name any") {
  const auto read = [](const json& root) { return draft_conventions<DraftKind::eagle3>(root, "c.json").ttt_steps; };
  json root = Eagle3::file({.ttt_steps = 7});
  CHECK(root["ttt_steps"] == 7);
  CHECK(read(root) == 7);
  CHECK(Eagle3::differences(root).empty());
  CHECK(read(Eagle3::file()) == std::nullopt);
  CHECK(read(with_conventions(Eagle3::file(), Eagle3Conventions{.ttt_steps = 3})) == 3);
  CHECK(read(with_conventions(root, Eagle3Conventions{.ttt_steps = 3})) == 7);
  for (const json& wrong : {json(0), json(-1), json("5"), json(2.5), json(std::uint64_t{1} << 63)}) {
    root["ttt_steps"] = wrong;
    CHECK_THROWS_WITH_AS(read(root), doctest::Contains("c.json: ttt_steps: found "), Error);
  }
}

TEST_CASE("a K3 draft's file is, byte for byte, what it was") {
  const auto check = [](const char* name, const json& written) {
    CHECK(written.dump(2) + "\n" ==
          read_file(std::string(K3SPEC_SOURCE_DIR "/tests/data/drafts/") + name + "/config.json"));
  };
  check("eagle3_k3_tiny", draft_config_json<DraftKind::eagle3, KimiK3Tiny>({1, 3, 4}, DType::F32));
  check("dflash_k3_tiny", draft_config_json<DraftKind::dflash, configs::KimiK3TinyDFlash>({1, 3, 5}, DType::F32));
  check("dspark_k3_tiny", draft_config_json<DraftKind::dspark, configs::KimiK3TinyDSpark>({-1, 3, 7}, DType::F32));
}

TEST_CASE("what a kind of draft says of itself") {
  CHECK(draft_differences<DraftKind::eagle3, Unbounded>(
            draft_config_json<DraftKind::eagle3, Unbounded>({0, 1, 2}, DType::F32))
            .empty());
  CHECK(has(draft_differences<DraftKind::eagle3, KimiK3Small>(Eagle3::file()),
            "draft_vocab_size: found 64, wanted 32000"));
  CHECK(Eagle3::file()["mla_norm_eps"] == 1e-5);
  CHECK(Eagle3::file()["num_hidden_layers"] == 1);
  CHECK(DFlash::file()["mla_norm_eps"] == 1e-6);
  CHECK(DFlash::file()["slot"] == "anchor_plus_k");
  CHECK(DFlash::file()["mask_token_id"] == 259);
  CHECK(DFlash::file()["sliding_window"] == 8);
  CHECK(DFlash::file()["block_causal"] == true);
  CHECK(draft_config_json<DraftKind::dflash, configs::KimiK3DFlash>({1, 45, 90}, DType::BF16)["sliding_window"]
            .is_null());
  CHECK(DSpark::file()["mla_norm_eps"] == 1e-5);
  CHECK(DSpark::file()["slot"] == "anchor_plus_k_plus_1");
  CHECK(DSpark::file()["markov_head_type"] == "vanilla");
  CHECK_FALSE(draft_kind(tiny_target()));
  CHECK_FALSE(draft_kind(json(3)));
}

TEST_CASE("slots are never confused: each block draft's file is refused as the other's") {
  CHECK(has(DSpark::differences(DFlash::file()), "slot: found \"anchor_plus_k\", wanted \"anchor_plus_k_plus_1\""));
  CHECK(has(DFlash::differences(DSpark::file()), "architectures: found [\"KimiK3DSparkModel\"]"));
}

TEST_CASE_TEMPLATE("each field of a draft is compared: a change to any one is found", S, Eagle3, DeepSeek, DFlash,
                   DSpark) {
  const json whole = S::file();
  for (const auto& [name, value] : whole.items()) {
    if (name == "model_type" || name == "dtype" || name == S::Form::layers_field) continue;
    const std::string field = name;
    json changed = whole;
    changed[field] = "other";
    CAPTURE(field);
    CHECK(has(S::differences(changed), field + ": found \"other\""));
  }
}

TEST_CASE("a config that describes no such draft says so") {
  CHECK_THROWS_WITH_AS(
      check_config<KimiK3Tiny>(DFlash::file(), "d/config.json"),
      "d/config.json: architectures: found [\"KimiK3DFlashDraftModel\"], wanted a target or a draft that "
      "the config compiled in describes",
      Error);
  CHECK_NOTHROW(check_config<KimiK3Tiny>(tiny_target()));
  CHECK_THROWS_WITH_AS(check_config<KimiK3>(Eagle3::file(), "e"), doctest::Contains("e: found "), Error);
}

TEST_CASE_TEMPLATE("conventions are read by name; absent and unknown ones are errors", S, Eagle3, DeepSeek, DFlash,
                   DSpark) {
  auto other = S::Form::template conventions<typename S::Tiny>();
  other.aux_stream = AuxStream::residual_mixture;
  other.layer_ids = LayerIds::layers_executed;
  json root = S::file(other);
  CHECK(draft_conventions<S::kind>(root) == other);
  CHECK_FALSE(draft_conventions<S::kind>(S::file()) == other);
  CHECK(S::differences(root).empty());
  root["aux_stream"] = "sum";
  CHECK_THROWS_WITH_AS(draft_conventions<S::kind>(root),
                       doctest::Contains("aux_stream: found \"sum\", wanted running_sum or residual_mixture"), Error);
  CHECK(has(S::differences(root), "aux_stream: found \"sum\", wanted running_sum or residual_mixture"));
  root.erase("aux_stream");
  root["layer_ids"] = 1;
  CHECK_THROWS_WITH_AS(draft_conventions<S::kind>(root), doctest::Contains("aux_stream: found nothing"), Error);
  CHECK(has(S::differences(root), "aux_stream: found nothing, wanted running_sum or residual_mixture"));
  CHECK(has(S::differences(root), "layer_ids: found 1, wanted after_layer_0 or layers_executed"));
}

TEST_CASE_TEMPLATE("a convention that the draft's type decides must be that one", S, Eagle3, DeepSeek, DFlash, DSpark) {
  const auto own = S::Form::template conventions<typename S::Tiny>();
  S::Form::Conventions::visit(own, [&]<class E>(const char* name, const E& value) {
    const auto other = static_cast<E>(1 - static_cast<int>(value));
    json root = S::file();
    root[name] = io::detail::value_name(other);
    CAPTURE(name);
    CHECK(S::differences(root).size() == (is_run_time_convention<E> ? 0 : 1));
    auto conventions = own;
    S::Form::Conventions::visit(conventions, [&]<class F>(const char*, F& to) {
      if constexpr (std::is_same_v<E, F>) to = other;
    });
    if constexpr (!is_run_time_convention<E>) {
      CHECK(has(S::differences(root), std::string(name) + ": found \"" + io::detail::value_name(other)));
      CHECK_THROWS_WITH_AS(S::file(conventions), doctest::Contains((std::string(name) + ": found").c_str()), Error);
    } else {
      CHECK(S::file(conventions) == root);
    }
  });
}

TEST_CASE("a config's softmax scale is written, and a file with another one refused") {
  const json scaled = draft_config_json<DraftKind::eagle3, Scaled>({1, 3, 4}, DType::BF16);
  CHECK(scaled["softmax_mscale"] == "yarn_mscale_squared");
  CHECK(draft_differences<DraftKind::eagle3, Scaled>(scaled).empty());
  CHECK(DeepSeek::differences(scaled) == Differences{"softmax_mscale: found \"yarn_mscale_squared\", wanted \"none\""});
}

TEST_CASE("each backbone's file has its own name and fields, and is refused as the other's") {
  const json k3 = Eagle3::file(), deepseek = DeepSeek::file();
  CHECK(deepseek["architectures"] == json{"DeepseekV3Eagle3DraftModel"});
  CHECK(deepseek["model_type"] == "deepseek_v3");
  CHECK(deepseek["hidden_act"] == "silu");
  CHECK(deepseek["rope_theta"] == 10000);
  CHECK(deepseek["rope_scaling"]["factor"] == 40);
  CHECK(deepseek["max_position_embeddings"] == 163840);
  CHECK_FALSE(deepseek.contains("activation_situ_beta"));
  CHECK_FALSE(k3.contains("rope_theta"));
  CHECK_FALSE(k3.contains("max_position_embeddings"));
  CHECK(draft_backbone(k3) == Backbone::kimi_k3);
  CHECK(draft_backbone(deepseek) == Backbone::deepseek_v3);
  CHECK(draft_backbone(DFlash::file()) == Backbone::kimi_k3);
  CHECK_FALSE(draft_backbone(tiny_target()));
  const Differences found = Eagle3::differences(deepseek);
  for (const char* line : {"architectures: found [\"DeepseekV3Eagle3DraftModel\"], wanted KimiK3Eagle3DraftModel",
                           "mla_use_nope: found false, wanted true", "mla_use_output_gate: found false, wanted true",
                           "activation_situ_beta: found nothing, wanted 4.0", "hidden_act: found \"silu\"",
                           "rms_norm_eps: found 1e-06, wanted 1e-05"}) {
    CHECK(has(found, line));
  }
  for (const char* line : {"architectures", "rope_theta: found nothing", "rope_scaling: found nothing, wanted a yarn",
                           "max_position_embeddings: found nothing, wanted 163840", "hidden_act: found \"situ\""}) {
    CHECK(has(DeepSeek::differences(k3), line));
  }
  CHECK_THROWS_WITH_AS(check_config<configs::DeepSeekV3Tiny>(tiny_target()),
                       doctest::Contains("wanted a target or a draft that the config compiled in describes"), Error);
}

TEST_CASE_TEMPLATE("a draft that was trained to draft in parallel is refused", S, Eagle3, DeepSeek, DFlash, DSpark) {
  json root = S::file();
  root["parallel_drafting"] = false;
  CHECK(S::differences(root).empty());
  root["parallel_drafting"] = true;
  CHECK(S::differences(root) == Differences{"parallel_drafting: found true, wanted false"});
}

TEST_CASE_TEMPLATE("the layers a draft reads are three different ones", S, Eagle3, DeepSeek, DFlash, DSpark) {
  json root = S::file();
  const json bad[] = {{1, 3},  {1, 3, 3}, {1, 3, "4"}, {1, 3, 4, "5"},
                      "1,3,4", nullptr,   {1.0, 3, 4}, {18446744073709551615u, 3, 4}};
  for (const json& ids : bad) {
    root[S::Form::layers_field] = ids;
    CHECK_THROWS_WITH_AS((draft_layer_ids<S::kind, typename S::Tiny>(root)),
                         doctest::Contains("wanted 3 different layers"), Error);
  }
}

TEST_CASE_TEMPLATE("layers that could not be read back are not written", S, Eagle3, DeepSeek, DFlash, DSpark) {
  using Form = typename S::Form;
  const std::string field = S::Form::layers_field;
  const auto write = [](const std::vector<index_t>& ids, LayerIds counting = LayerIds::after_layer_0) {
    auto conventions = Form::template conventions<typename S::Tiny>();
    conventions.layer_ids = counting;
    return draft_config_json<S::kind, typename S::Tiny>(ids, DType::BF16, conventions);
  };
  const auto refuse = [&](const std::vector<index_t>& ids, LayerIds counting, const std::string& message) {
    CHECK_THROWS_WITH_AS(write(ids, counting), (field + ": found " + message).c_str(), Error);
  };
  refuse({2, 2, 2}, LayerIds::after_layer_0, "[2,2,2], wanted 3 different layers");
  refuse({1, 3}, LayerIds::after_layer_0, "[1,3], wanted 3 different layers");
  refuse({1, 3, 4, 5}, LayerIds::after_layer_0, "[1,3,4,5], wanted 3 different layers");
  refuse({}, LayerIds::after_layer_0, "[], wanted 3 different layers");
  const index_t first = Form::first_layer;
  const std::string least = std::to_string(first), next = std::to_string(first + 1);
  refuse({-7, 3, 99}, LayerIds::after_layer_0, "-7, wanted " + least + " or more, counted as after_layer_0");
  refuse({3, first, 4}, LayerIds::layers_executed, least + ", wanted " + next + " or more, counted as layers_executed");
  CHECK(write({3, first, 4})[field] == json{3, first, 4});
  CHECK(write({3, first + 1, 4}, LayerIds::layers_executed)[field] == json{3, first + 1, 4});
}

TEST_CASE_TEMPLATE("what stands in text_config is used where it is checked, whatever the top says", S, Eagle3, DeepSeek,
                   DFlash, DSpark) {
  const auto own = S::Form::template conventions<typename S::Tiny>();
  auto other = own;
  other.aux_stream = AuxStream::residual_mixture, other.layer_ids = LayerIds::layers_executed;
  json root = S::file(own);
  root["text_config"] = S::file(other);
  root["text_config"][S::Form::layers_field] = {2, 5, 7};
  root["architectures"] = {"Another"};
  CHECK(S::differences(root).empty());
  CHECK(draft_kind(root) == S::kind);
  CHECK(draft_conventions<S::kind>(root) == other);
  CHECK(draft_layer_ids<S::kind, typename S::Tiny>(root) == std::vector<index_t>{2, 5, 7});
  CHECK(draft_conventions<S::kind>(with_conventions(root, own)) == other);
  json silent = root;
  silent.erase("aux_stream"), silent.erase("layer_ids");
  CHECK(with_conventions(silent, own) == silent);
  // An unknown name is one for both.
  root["text_config"]["aux_stream"] = "sum";
  CHECK(S::differences(root).size() == 1);
  CHECK_THROWS_AS(draft_conventions<S::kind>(root), Error);
  // The top is asked where text_config is silent, and the caller where both are.
  for (const char* name : {"aux_stream", "layer_ids", S::Form::layers_field}) root["text_config"].erase(name);
  CHECK(draft_conventions<S::kind>(root) == own);
  CHECK(draft_layer_ids<S::kind, typename S::Tiny>(root) == std::vector<index_t>{1, 3, 4});
  root.erase("aux_stream");
  auto mixed = own;
  mixed.aux_stream = AuxStream::residual_mixture;
  CHECK(draft_conventions<S::kind>(with_conventions(root, other)) == mixed);
}

TEST_CASE_TEMPLATE("biases in the attention, which no draft has, are refused", S, Eagle3, DeepSeek, DFlash, DSpark) {
  json root = S::file();
  root["attention_bias"] = false;
  CHECK(S::differences(root).empty());
  root["attention_bias"] = true;
  CHECK(S::differences(root) == Differences{"attention_bias: found true, wanted false"});
}

TEST_CASE("default layers") {
  CHECK(default_aux_layer_ids(8) == std::vector<index_t>{1, 3, 4});
  CHECK(default_aux_layer_ids(93) == std::vector<index_t>{1, 45, 89});
  CHECK_THROWS_WITH_AS(default_aux_layer_ids(4),
                       "num_hidden_layers: found 4, wanted enough for three different layers 1, L/2 - 1 and L - 4, or "
                       "the layer ids to be given",
                       Error);
  CHECK(default_aux_layer_ids(7) == std::vector<index_t>{1, 2, 3});
  CHECK_THROWS_AS(default_aux_layer_ids(6), Error);
  CHECK_THROWS_AS(default_aux_layer_ids(5), Error);
  CHECK(default_target_layer_ids(8, 3) == std::vector<index_t>{1, 3, 5});
  CHECK(default_target_layer_ids(93, 5) == std::vector<index_t>{1, 23, 45, 67, 90});
  CHECK(default_target_layer_ids(8, 1) == std::vector<index_t>{5});
  CHECK_THROWS_WITH_AS(default_target_layer_ids(5, 3), doctest::Contains("enough for 3 different layers"), Error);
  CHECK_THROWS_AS(default_target_layer_ids(2, 1), Error);
}

TEST_CASE("a mask token is one of the vocabulary that means nothing else") {
  CHECK(check_mask_token<configs::KimiK3TinyDFlash>() == 259);
  CHECK(check_mask_token<MaskIs<0>>() == 0);
  CHECK_THROWS_WITH_AS(check_mask_token<NoMask>(),
                       "mask_token_id: found nothing, wanted a token: the target has none, so each draft picks one",
                       Error);
  CHECK_THROWS_WITH_AS(check_mask_token<MaskIs<260>>(), "mask_token_id: found 260, wanted 0 to 259", Error);
  CHECK_THROWS_WITH_AS(check_mask_token<MaskIs<-1>>(), "mask_token_id: found -1, wanted 0 to 259", Error);
  CHECK_THROWS_WITH_AS(check_mask_token<MaskIs<258>>(),
                       "mask_token_id: found 258, wanted another token than pad_token_id", Error);
  CHECK_THROWS_WITH_AS(check_mask_token<MaskIs<257>>(),
                       "mask_token_id: found 257, wanted another token than eos_token_id", Error);
}

TEST_CASE("a mask token that is the media token's is warned of") {
  CHECK(mask_token_warning<Media>().find("mask_token_id: 163605 is media_token_id, too") == 0);
  CHECK(check_mask_token<Media>() == 163605);
  CHECK(mask_token_warning<configs::KimiK3DFlash>().empty());
  CHECK(mask_token_warning<configs::KimiK3TinyDFlash>().empty());
  CHECK(mask_token_warning<NoMask>().empty());
  CHECK(mask_token_warning<NoMedia>().empty());
}

TEST_CASE("what is no object is no draft") {
  for (const json& root : {json(3), json::array(), json(nullptr), json{{"text_config", 3}}}) {
    CHECK(Eagle3::differences(root).size() > 20);
    CHECK(DFlash::differences(root).size() > 20);
    CHECK(DSpark::differences(root).size() > 20);
  }
}
