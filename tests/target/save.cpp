#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include <k3spec/io/draft_config.hpp>
#include <k3spec/target/load.hpp>
#include <k3spec/target/save.hpp>

#include "configs.hpp"
#include "tests/support/temporary.hpp"

using namespace k3spec;

namespace {

/// Saved, checked and loaded: the same bits, and nothing to note.
template <class Config, Element T>
void check_round_trip(std::uint64_t seed) {
  const test::TemporaryDirectory folder;
  Parameters<K3Target<Config>, T> parameters, back;
  parameters.initialize(seed, 0.1);
  save_target(folder.path(), parameters, {{"written_by", "a test"}});
  CHECK(load_target(folder.path(), back).empty());
  CHECK(std::memcmp(back.all().data(), parameters.all().data(),
                    static_cast<std::size_t>(back.all().size()) * sizeof(T)) == 0);
  const auto tensors = io::ModelTensors::open(folder.path());
  CHECK(tensors.files()[0].metadata().at("written_by") == "a test");
  CHECK(tensors.files()[0].metadata().at("format") == "pt");
  // What is never rounded stands there in full.
  CHECK(tensors.info("model.layers.0.self_attn.A_log").dtype == DType::F32);
  CHECK(tensors.info("lm_head.weight").dtype == dtype_of<T>);
}

}  // namespace

TEST_CASE("a target that is saved is loaded with the same bits, whatever its sizes") {
  check_round_trip<test::OddCase, bfloat16>(1);
  check_round_trip<test::OddCase, float>(2);
  check_round_trip<test::NoResidualMixing<test::Case>, float>(3);
  check_round_trip<test::LowRankGateSoftplus<test::GroupedRouting<test::Case>>, bfloat16>(4);
}

TEST_CASE("a target's config.json is written as it is read") {
  const io::json written = io::target_config_json<test::Case>(DType::BF16);
  CHECK(io::target_differences<test::Case>(written).empty());
  CHECK(io::check_config<test::Case>(io::parse_json(written.dump(), "target")).empty());
  CHECK(written["dtype"] == "bfloat16");
  CHECK(io::target_config_json<test::Case>(DType::F32)["dtype"] == "float32");
  CHECK(io::target_config_json<test::Case>(DType::F64)["dtype"] == "float64");
  CHECK(written["linear_attn_config"]["kda_layers"] == io::json(std::vector<index_t>{1, 2, 3, 5}));
  CHECK(io::target_differences<configs::KimiK3>(io::target_config_json<configs::KimiK3>(DType::BF16)).empty());
  CHECK(!io::target_differences<configs::KimiK3>(written).empty());
  CHECK(!io::draft_kind(written));
}

TEST_CASE("a target cannot be saved where no folder is") {
  Parameters<K3Target<test::OddCase>, float> parameters;
  CHECK_THROWS_WITH_AS(save_target("/nowhere/model", parameters), doctest::Contains("/nowhere/model"), Error);
}
