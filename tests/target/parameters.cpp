#include <doctest/doctest.h>

#include <k3spec/config/conventions.hpp>
#include <k3spec/target/forward.hpp>

#include "configs.hpp"

using namespace k3spec;

namespace {

template <class Config>
index_t count_one_by_one() {
  static typename K3Target<Config>::template Weights<float> weights;
  index_t total = 0;
  K3Target<Config>::visit(weights, Path{}, [&](const Path&, auto& view, auto) { total += view.size(); });
  return total;
}

}  // namespace

TEST_CASE("parameters are counted when compiling") {
  static_assert(parameter_count<K3Target<configs::KimiK3>> == 2'779'484'476'000);
  CHECK(parameter_count<K3Target<configs::KimiK3Tiny>> == count_one_by_one<configs::KimiK3Tiny>());
  CHECK(parameter_count<K3Target<test::OddCase>> == count_one_by_one<test::OddCase>());
  CHECK(parameter_count<K3Target<test::NoResidualMixing<test::Case>>> ==
        count_one_by_one<test::NoResidualMixing<test::Case>>());
  MESSAGE("K3: ", parameter_count<K3Target<configs::KimiK3>>, " parameters, ",
          K3Target<configs::KimiK3>::active_parameters(), " of them for each token");
}

TEST_CASE("names are the checkpoint's") {
  static K3Target<configs::KimiK3Tiny>::Weights<float> weights;
  std::vector<std::string> names;
  K3Target<configs::KimiK3Tiny>::visit(weights, Path{},
                                       [&](const Path& path, auto&, auto) { names.push_back(path.str()); });
  const auto has = [&](const char* name) { return std::count(names.begin(), names.end(), name) == 1; };
  CHECK(has("model.embed_tokens.weight"));
  CHECK(has("model.layers.0.self_attn.q_conv1d.weight"));
  CHECK(has("model.layers.3.self_attn.kv_a_proj_with_mqa.weight"));
  CHECK(has("model.layers.7.block_sparse_moe.experts.15.w2.weight"));
  CHECK(has("model.layers.7.block_sparse_moe.gate.e_score_correction_bias"));
  CHECK(has("model.output_attn_res_proj.weight"));
}

TEST_CASE("layers have their kinds") {
  using Layout = TargetLayout<configs::KimiK3>;
  static_assert(Layout::kda_layers == 69 && Layout::mla_layers == 24);
  static_assert(Layout::kind(0) == LayerKind::kda_dense && Layout::kind(1) == LayerKind::kda_moe);
  static_assert(Layout::kind(3) == LayerKind::mla_moe && Layout::kind(92) == LayerKind::mla_moe);
  static_assert(Layout::residual_blocks == 8 && Layout::begins_block(12) && !Layout::begins_block(11));
  static_assert(Layout::attention_slot(4) == 3 && Layout::attention_slot(7) == 1);
}
