#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/config_json.hpp>
#include <k3spec/io/stop_tokens.hpp>

#include "tests/support/temporary.hpp"

using namespace k3spec;
using namespace k3spec::io;
using configs::KimiK3;
using configs::KimiK3Tiny;

namespace {

json tiny() { return read_json(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny/config.json"); }

bool has(const Differences& differences, const std::string& line) {
  for (const auto& d : differences) {
    if (d.find(line) != std::string::npos) return true;
  }
  for (const auto& d : differences) MESSAGE(d);
  return false;
}

struct Unbounded : KimiK3Tiny {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
  static constexpr std::optional<double> activation_situ_linear_beta = std::nullopt;
};

}  // namespace

TEST_CASE("k3-tiny's config.json agrees with its config, nested and flat") {
  CHECK(target_differences<KimiK3Tiny>(tiny()).empty());
  CHECK(target_differences<KimiK3Tiny>(tiny()["text_config"]).empty());
  CHECK_NOTHROW(check_target_config<KimiK3Tiny>(tiny()));
}

TEST_CASE("every field that differs is listed, in one error") {
  const auto differences = target_differences<KimiK3>(tiny());
  CHECK(has(differences, "hidden_size: found 128, wanted 7168"));
  CHECK(has(differences, "pad_token_id: found 258, wanted 163839"));
  CHECK(has(differences, "linear_attn_config.head_dim: found 32, wanted 128"));
  CHECK(has(differences, "linear_attn_config.full_attn_layers: found [4,8], wanted [4,8,12"));
  CHECK(has(differences, "attn_res_block_size: found 4, wanted 12"));
  CHECK(differences.size() == 23);
  CHECK_THROWS_WITH_AS(
      check_target_config<KimiK3>(tiny(), "k3-tiny/config.json"),
      doctest::Contains("k3-tiny/config.json: found 23 differences from the config compiled in, wanted "
                        "none:\n  vocab_size: found 260, wanted 163840\n  hidden_size: found 128"),
      Error);
}

TEST_CASE("each field of a target is compared: a change to any one is found") {
  visit_target_fields<KimiK3Tiny>([](const char* name, const auto&) {
    for (const json& other : {json("other"), json(nullptr)}) {
      json changed = tiny();
      io::detail::set_field(changed["text_config"], name, other);
      if (std::string(name).find("token_id") != std::string::npos) io::detail::set_field(changed, name, other);
      CAPTURE(name);
      CHECK(has(target_differences<KimiK3Tiny>(changed), std::string(name) + ": found "));
    }
  });
}

TEST_CASE("a value of another kind is a difference, an integer written as a fraction is not") {
  json changed = tiny();
  changed["text_config"]["mla_use_nope"] = 1;
  changed["text_config"]["hidden_size"] = "128";
  changed["text_config"]["routed_scaling_factor"] = 1;
  const auto differences = target_differences<KimiK3Tiny>(changed);
  CHECK(has(differences, "mla_use_nope: found 1, wanted true"));
  CHECK(has(differences, "hidden_size: found \"128\", wanted 128"));
  CHECK(differences.size() == 2);
}

TEST_CASE("null and absent both mean none") {
  json changed = tiny();
  changed["text_config"]["q_lora_rank"] = nullptr;
  changed["text_config"].erase("activation_situ_linear_beta");
  CHECK(target_differences<Unbounded>(changed).empty());
  CHECK(has(target_differences<Unbounded>(tiny()), "q_lora_rank: found 48, wanted nothing"));
}

TEST_CASE("what the code takes for granted is refused when the file says otherwise") {
  json changed = tiny();
  changed["text_config"]["hidden_act"] = "silu";
  changed["text_config"]["moe_router_activation_func"] = "softmax";
  changed["text_config"]["tie_word_embeddings"] = true;
  CHECK(target_differences<KimiK3Tiny>(changed).size() == 3);
  CHECK(has(target_differences<KimiK3Tiny>(changed), "hidden_act: found \"silu\", wanted \"situ\""));
}

TEST_CASE("layer lists cover 1 to L once") {
  const auto with = [](const json& kda, const json& layers = 8) {
    json changed = tiny();
    changed["text_config"]["linear_attn_config"]["kda_layers"] = kda;
    changed["text_config"]["num_hidden_layers"] = layers;
    return target_differences<KimiK3Tiny>(changed);
  };
  CHECK(with({1, 2, 3, 5, 6, 7}).empty());
  CHECK(has(with({1, 2, 3, 5, 6}), "found no layer 7, wanted each of 1 to 8"));
  CHECK(has(with({1, 2, 3, 4, 5, 6, 7}), "found layer 4 more than once"));
  CHECK(has(with({1, 1, 2, 3, 5, 6, 7}), "found layer 1 more than once"));
  CHECK(has(with({0, 1, 2, 3, 5, 6, 7}), "found layer 0, wanted"));
  CHECK(has(with({1, 2, 3, 5, 6, 7, 9}), "found layer 9, wanted"));
  CHECK(has(with("none"), "kda_layers: found \"none\", wanted a list of layers"));
  CHECK(has(with({1.5}), "kda_layers: found [1.5], wanted a list of layers"));
  CHECK(has(with({1, 2, 3, 5, 6, 7}, 9), "found no layer 9, wanted each of 1 to 9"));
  CHECK(has(with({1, 2, 3, 5, 6, 7}, 9223372036854775807), "found no layer 9"));
  CHECK(has(with({1, 2, 3, 5, 6, 7}, "8"), "num_hidden_layers: found \"8\""));
  // What index_t does not hold is no number of a layer, rather than a negative one.
  constexpr auto beyond = std::numeric_limits<std::uint64_t>::max();
  CHECK(has(with({1, 2, 3, 5, 6, beyond}), "kda_layers: found [1,2,3,5,6,18446744073709551615], wanted a list"));
  CHECK(with({1, 2, 3, 5, 6, 7}, beyond) == Differences{"num_hidden_layers: found 18446744073709551615, wanted 8"});
}

TEST_CASE("a checkpoint's stop tokens: of both files, one or several, each once") {
  const test::TemporaryDirectory folder;
  const auto ids = [&](const json& config, const char* generation = nullptr) {
    write_text(folder / "config.json", config.dump());
    std::filesystem::remove(folder / generation_config_name);
    if (generation != nullptr) write_text(folder / generation_config_name, generation);
    return stop_token_ids(folder.path(), 260);
  };
  using Ids = std::vector<index_t>;
  CHECK(ids(tiny()) == Ids{257});
  CHECK(ids(tiny(), R"({"eos_token_id": [256, 257]})") == Ids{257, 256});
  CHECK(ids(tiny(), R"({"eos_token_id": 0})") == Ids{257, 0});
  CHECK(ids(tiny(), R"({"temperature": 1})") == Ids{257});
  CHECK(ids(json::object(), R"({"eos_token_id": [259]})") == Ids{259});
  CHECK(ids(json::object()).empty());
  // A config that lists several, the one compiled in among them, is no other config.
  json several = tiny();
  several["text_config"]["eos_token_id"] = {256, 257};
  CHECK(ids(several) == Ids{256, 257});
  CHECK(target_differences<KimiK3Tiny>(several).empty());
  several["text_config"]["eos_token_id"] = {255, 256};
  CHECK(has(target_differences<KimiK3Tiny>(several), "eos_token_id: found [255,256], wanted 257"));
  several["text_config"]["pad_token_id"] = {258};
  CHECK(has(target_differences<KimiK3Tiny>(several), "pad_token_id: found [258], wanted 258"));

  const std::string wanted = ", wanted a token or a list of them, each 0 to 259";
  for (const char* wrong : {"260", "-1", "\"257\"", "[257,1.5]", "[[257]]", "9223372036854775808"}) {
    const auto file = (folder / generation_config_name).string();
    CHECK_THROWS_WITH_AS(ids(tiny(), (std::string(R"({"eos_token_id":)") + wrong + "}").c_str()),
                         (file + ": eos_token_id: found " + wrong + wanted).c_str(), Error);
  }
  CHECK_THROWS_WITH_AS(ids(tiny(), "no JSON"), doctest::Contains("generation_config.json: found"), Error);
}

TEST_CASE("however much a file says otherwise, the message can be read") {
  json changed = tiny();
  json& kda = changed["text_config"]["linear_attn_config"]["kda_layers"];
  for (int i = 0; i < 20'000; ++i) kda.push_back(100'000 + i);
  changed["text_config"]["hidden_act"] = std::string(1'000'000, 'x') + "\x1b[2J";
  const auto differences = target_differences<KimiK3Tiny>(changed);
  CHECK(std::all_of(differences.begin(), differences.end(), [](const auto& line) { return line.size() <= 500; }));
  CHECK(differences.size() > 20'000);
  try {
    check_target_config<KimiK3Tiny>(changed);
    FAIL("not refused");
  } catch (const Error& e) {
    const std::string message = e.what();
    CHECK(message.size() < 20'000);
    CHECK(message.find("found 200") != std::string::npos);
    CHECK(message.find(" more") == message.size() - 5);
    CHECK(message.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("what the parser would pass over is refused: bytes behind a NUL, a byte-order mark, depth") {
  const auto refuse = [](const std::string& text, const char* message) {
    CHECK_THROWS_WITH_AS(parse_json(text, "x"), doctest::Contains(message), Error);
  };
  refuse(std::string("{}\0{", 4), "x: found a NUL byte at 2, wanted text");
  refuse("\xEF\xBB\xBF{}", "x: found a byte-order mark, wanted JSON in UTF-8 without one");
  refuse("{} {}", "parse error");
  refuse(std::string(65, '[') + std::string(65, ']'), "x: found values nested deeper, wanted at most 64 levels");
  refuse("[1e400]", "x: found a parse error at line 1, column 2: Number too big");
  refuse(R"([{"a":{"b":1,"c":{},"b":2}}])", "x: 'b': found the name twice");
  CHECK_NOTHROW(parse_json(std::string(64, '[') + std::string(64, ']'), "x"));
  const std::string text = R"([[],{},{"a":[1,-2,3.5,"s",null,true,{"b":[[0]]}],"c":{}},[{"a":{"a":false}}]])";
  const json a{1, -2, 3.5, "s", nullptr, true, {{"b", {json{0}}}}};
  CHECK(parse_json(" " + text + "\n", "x") ==
        json{json::array(), json::object(), {{"a", a}, {"c", json::object()}}, {{{"a", {{"a", false}}}}}});
}

TEST_CASE("a file that is no config is refused by name") {
  const test::TemporaryDirectory directory;
  write_text(directory / "config.json", "{\"a\": 1, \"a\": 2}");
  CHECK_THROWS_WITH_AS(read_json(directory / "config.json"),
                       doctest::Contains("config.json: 'a': found the name twice"), Error);
  for (const json& root : {json(3), json::array(), json(nullptr), json{{"text_config", 3}}}) {
    CHECK(target_differences<KimiK3Tiny>(root).size() > 20);
  }
}
