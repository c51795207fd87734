#include <doctest/doctest.h>

#include <set>
#include <string>

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

  static json file(const typename Form::Conventions& conventions = {}) {
    return draft_config_json<Kind, Tiny>({1, 3, 4}, DType::BF16, conventions);
  }
  static Differences differences(const json& root, const typename Form::Conventions& conventions = {}) {
    return draft_differences<Kind, Tiny>(root, conventions);
  }
};
using Eagle3 = Sample<DraftKind::eagle3, KimiK3Tiny, KimiK3>;
using DFlash = Sample<DraftKind::dflash, configs::KimiK3TinyDFlash, configs::KimiK3DFlash>;
using DSpark = Sample<DraftKind::dspark, configs::KimiK3TinyDSpark, configs::KimiK3DSpark>;

struct Unbounded : KimiK3Tiny {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
  static constexpr std::optional<double> activation_situ_linear_beta = std::nullopt;
  static constexpr bool norm_output = true;
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

}  // namespace

TEST_CASE_TEMPLATE("a draft's config.json is what it was written from", S, Eagle3, DFlash, DSpark) {
  const json written = S::file();
  CHECK(S::differences(written).empty());
  CHECK_NOTHROW(check_config<typename S::Tiny>(parse_json(written.dump(), "draft")));
  CHECK(draft_differences<S::kind, typename S::Large>(
            draft_config_json<S::kind, typename S::Large>({1, 45, 89}, DType::BF16))
            .empty());
  CHECK(draft_kind(written) == S::kind);
  CHECK(written["architectures"] == json{S::Form::architecture});
  CHECK(written["aux_stream"] == "running_sum");
  CHECK(written["dtype"] == "bfloat16");
  CHECK(draft_layer_ids<S::kind, typename S::Tiny>(written) == std::vector<index_t>{1, 3, 4});
  CHECK(has(draft_differences<S::kind, typename S::Large>(written), "hidden_size: found 128, wanted 7168"));
  CHECK(has(S::differences(tiny_target()), "architectures: found [\"KimiK3For"));
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

TEST_CASE_TEMPLATE("each field of a draft is compared: a change to any one is found", S, Eagle3, DFlash, DSpark) {
  const json whole = S::file();
  for (const auto& [name, value] : whole.items()) {
    if (name == "model_type" || name == "dtype" || name == S::Form::layers_field) continue;
    json changed = whole;
    changed[name] = "other";
    CAPTURE(name);
    CHECK(has(S::differences(changed), name + ": found \"other\""));
  }
}

TEST_CASE("a config that describes no such draft says so") {
  CHECK_THROWS_WITH_AS(check_config<KimiK3Tiny>(DFlash::file(), "d/config.json"),
                       "d/config.json: architectures: found KimiK3DFlashDraftModel, wanted a target or a draft that "
                       "the config compiled in describes",
                       Error);
  CHECK_NOTHROW(check_config<KimiK3Tiny>(tiny_target()));
  CHECK_THROWS_WITH_AS(check_config<KimiK3>(Eagle3::file(), "e"), doctest::Contains("e: found "), Error);
}

TEST_CASE_TEMPLATE("conventions are read by name; absent and unknown ones are errors", S, Eagle3, DFlash, DSpark) {
  typename S::Form::Conventions other;
  other.aux_stream = AuxStream::residual_mixture;
  other.layer_ids = LayerIds::layers_executed;
  json root = S::file(other);
  const auto read = draft_conventions<S::kind>(root);
  CHECK(read.aux_stream == AuxStream::residual_mixture);
  CHECK(read.layer_ids == LayerIds::layers_executed);
  CHECK(S::differences(root, other).empty());
  CHECK(has(S::differences(root), "aux_stream: found \"residual_mixture\", wanted \"running_sum\""));
  root["aux_stream"] = "sum";
  CHECK_THROWS_WITH_AS(draft_conventions<S::kind>(root),
                       doctest::Contains("aux_stream: found \"sum\", wanted running_sum or residual_mixture"), Error);
  root.erase("aux_stream");
  CHECK_THROWS_WITH_AS(draft_conventions<S::kind>(root), doctest::Contains("aux_stream: found nothing"), Error);
}

TEST_CASE_TEMPLATE("the layers a draft reads are three different ones", S, Eagle3, DFlash, DSpark) {
  json root = S::file();
  const json bad[] = {{1, 3}, {1, 3, 3}, {1, 3, "4"}, {1, 3, 4, "5"}, "1,3,4", nullptr};
  for (const json& ids : bad) {
    root[S::Form::layers_field] = ids;
    CHECK_THROWS_WITH_AS((draft_layer_ids<S::kind, typename S::Tiny>(root)),
                         doctest::Contains("wanted 3 different layers"), Error);
  }
}

TEST_CASE("default layers") {
  CHECK(default_aux_layer_ids(8) == std::vector<index_t>{1, 3, 4});
  CHECK(default_aux_layer_ids(93) == std::vector<index_t>{1, 45, 89});
  CHECK_THROWS_WITH_AS(default_aux_layer_ids(4), doctest::Contains("num_hidden_layers: found 4"), Error);
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
}

TEST_CASE("what is no object is no draft") {
  for (const json& root : {json(3), json::array(), json(nullptr), json{{"text_config", 3}}}) {
    CHECK(Eagle3::differences(root).size() > 20);
    CHECK(DFlash::differences(root).size() > 20);
    CHECK(DSpark::differences(root).size() > 20);
  }
}
