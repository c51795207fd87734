// Rotary positions in config.json: at the top or nested, compared number by number, nothing guessed.
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/io/draft_config.hpp>

#include <doctest/doctest.h>

using namespace k3spec;
using namespace k3spec::io;
using configs::DeepSeekV3Tiny;

namespace {

struct Plain : DeepSeekV3Tiny {
  static constexpr double rope_theta = 50000;
  static constexpr std::optional<Yarn> rope_scaling = std::nullopt;
};
/// Every number another one, so that none can stand in for another.
struct Odd : DeepSeekV3Tiny {
  static constexpr double rope_theta = 1234.5;
  static constexpr std::optional<Yarn> rope_scaling = Yarn{3, 31, 2, 77, 0.5, 0.25};
};

template <class Config>
json file() {
  return draft_config_json<DraftKind::eagle3, Config>({1, 3, 4}, DType::BF16);
}
template <class Config>
Differences differences(const json& root) {
  return draft_differences<DraftKind::eagle3, Config>(root);
}

/// As transformers 5 writes it: all in rope_parameters, nothing at the top.
json nested(json root, bool older_name = false) {
  json& rope = root["rope_parameters"];
  rope = root["rope_scaling"].is_null() ? json{{"rope_type", "default"}} : root["rope_scaling"];
  rope.erase(older_name ? "rope_type" : "type");
  rope["rope_theta"] = root["rope_theta"];
  root.erase("rope_theta"), root.erase("rope_scaling");
  return root;
}

}  // namespace

TEST_CASE_TEMPLATE("written at the top; read there and nested", Config, DeepSeekV3Tiny, Plain, Odd) {
  const json top = file<Config>();
  CHECK(top["rope_theta"] == Config::rope_theta);
  CHECK(top["rope_scaling"].is_null() == !Config::rope_scaling.has_value());
  CHECK(differences<Config>(top).empty());
  CHECK(differences<Config>(nested(top)).empty());
  const json older = nested(top, true);
  CHECK(older["rope_parameters"].contains("type") == Config::rope_scaling.has_value());
  CHECK(differences<Config>(older).empty());
}

TEST_CASE("a nested field wins over the one at the top") {
  json root = file<Odd>();
  root["rope_parameters"] = {{"rope_theta", 9.0}};
  CHECK(differences<Odd>(root) == Differences{"rope_parameters.rope_theta: found 9.0, wanted 1234.5"});
  root["rope_parameters"] = {{"rope_theta", 1234.5}};
  root["rope_theta"] = 9;
  CHECK(differences<Odd>(root).empty());  // the scaling is still that of the top
  root = nested(file<Odd>());
  root["rope_theta"] = 9, root["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 9}};
  CHECK(differences<Odd>(root).empty());
  root = file<Odd>();
  root["rope_parameters"] = {{"rope_type", "default"}};
  CHECK(differences<Odd>(root) == Differences{"rope_parameters.rope_type: found \"default\", wanted \"yarn\""});
}

TEST_CASE("every number of a YaRN is compared, and all differences are said at once") {
  const char* names[] = {"factor", "beta_fast",     "beta_slow", "original_max_position_embeddings",
                         "mscale", "mscale_all_dim"};
  for (const bool is_nested : {false, true}) {
    const std::string field = is_nested ? "rope_parameters" : "rope_scaling";
    json all = is_nested ? nested(file<Odd>()) : file<Odd>();
    for (const std::string name : names) {
      json one = is_nested ? nested(file<Odd>()) : file<Odd>();
      one[field].erase(name), all[field][name] = 1000;
      const auto found = differences<Odd>(one);
      REQUIRE(found.size() == 1);
      CHECK(found[0].find(field + "." + name + ": found nothing, wanted ") == 0);
    }
    all["hidden_size"] = 1;
    const auto found = differences<Odd>(all);
    CHECK(found.size() == 7);
    CHECK(std::find(found.begin(), found.end(), field + ".beta_slow: found 1000, wanted 2.0") != found.end());
    CHECK_THROWS_WITH_AS(check_config<Odd>(all), doctest::Contains("config.json: found 7 differences"), Error);
  }
}

TEST_CASE("a rope type that is not known is an error, and so is none for numbers that need one") {
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    json root = field == std::string("rope_scaling") ? file<Odd>() : nested(file<Odd>());
    json& rope = root[field];
    const std::string subject = std::string(field) + ".rope_type: found ";
    rope["rope_type"] = "longrope", rope.erase("type");
    CHECK(differences<Odd>(root) == Differences{subject + "\"longrope\", wanted default or yarn"});
    rope["type"] = "yarn";
    CHECK(differences<Odd>(root) == Differences{subject + "[\"longrope\",\"yarn\"], wanted default or yarn"});
    rope.erase("type"), rope.erase("rope_type");
    CHECK(differences<Odd>(root) == Differences{subject + "nothing, wanted default or yarn"});
    rope = "yarn";
    CHECK(std::string(differences<Odd>(root).back()) == std::string(field) + ": found \"yarn\", wanted a yarn");
  }
}

TEST_CASE("scaling where the config has none, and fields that would turn positions otherwise, are refused") {
  json root = file<Plain>();
  root["rope_scaling"] = file<Odd>()["rope_scaling"];
  CHECK(differences<Plain>(root) == Differences{"rope_scaling.rope_type: found \"yarn\", wanted \"default\""});
  root["rope_scaling"] = {{"rope_type", "default"}};
  CHECK(differences<Plain>(root).empty());
  root = file<Odd>();
  root["rope_scaling"]["attention_factor"] = 1.5;
  root["rope_interleave"] = false;
  CHECK(differences<Odd>(root) == Differences{"rope_scaling.attention_factor: found 1.5, wanted nothing",
                                              "rope_interleave: found false, wanted true"});
  root = nested(file<Odd>());
  root["rope_parameters"]["partial_rotary_factor"] = 0.5;
  CHECK(differences<Odd>(root) == Differences{"rope_parameters.partial_rotary_factor: found 0.5, wanted 1"});
  root["rope_parameters"]["partial_rotary_factor"] = 1.0;
  CHECK(differences<Odd>(root).empty());
  root["partial_rotary_factor"] = 1;
  CHECK(differences<Odd>(root).empty());
  root["partial_rotary_factor"] = 0.25;
  CHECK(differences<Odd>(root) == Differences{"partial_rotary_factor: found 0.25, wanted 1"});
}

TEST_CASE("a base of the frequencies is compared wherever it stands, and said once") {
  json root = file<Odd>();
  root["rope_scaling"]["rope_theta"] = 1234.5;
  CHECK(differences<Odd>(root).empty());
  root["rope_scaling"]["rope_theta"] = 5;
  CHECK(differences<Odd>(root) == Differences{"rope_scaling.rope_theta: found 5, wanted 1234.5"});
  root = nested(file<Odd>());
  root["rope_parameters"]["rope_theta"] = 5;
  CHECK(differences<Odd>(root) == Differences{"rope_parameters.rope_theta: found 5, wanted 1234.5"});
  root["rope_parameters"]["rope_theta"] = 1234.5;
  root["rope_scaling"]["rope_theta"] = 5;  // rope_parameters wins
  CHECK(differences<Odd>(root).empty());
}

TEST_CASE("a rope_scaling that says nothing is none") {
  const json empty[] = {json::object(), {{"rope_type", nullptr}, {"factor", nullptr}}, {{"rope_theta", 50000}}};
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    for (const json& rope : empty) {
      json root = file<Plain>();
      root[field] = rope;
      CHECK(differences<Plain>(root).empty());
    }
  }
  json root = file<Odd>();
  root["rope_scaling"] = json::object();
  CHECK(differences<Odd>(root) == Differences{"rope_scaling: found {}, wanted a yarn"});
  root.erase("rope_scaling");
  CHECK(differences<Odd>(root) == Differences{"rope_scaling: found nothing, wanted a yarn"});
  root = file<Plain>();
  root["rope_scaling"] = json::array();
  CHECK(differences<Plain>(root) == Differences{"rope_scaling: found [], wanted nothing"});
}
