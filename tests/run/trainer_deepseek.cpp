// An EAGLE-3 draft whose config is not its target's: DeepSeek-V3's block, other widths.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/run/eagle3_method.hpp>

#include "tests/support/small_target.hpp"
#include "tests/support/temporary.hpp"

using namespace k3spec;

namespace {

struct Config : configs::DeepSeekV3 {
  static constexpr index_t vocab_size = 51, draft_vocab_size = 23;
  static constexpr index_t hidden_size = 18, target_hidden_size = 27, intermediate_size = 21;
  static constexpr std::optional<index_t> bos_token_id = 48, eos_token_id = 49, pad_token_id = 50;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 11;
  static constexpr index_t kv_lora_rank = 7, qk_nope_head_dim = 5, qk_rope_head_dim = 4, v_head_dim = 9;
  static constexpr bool train_embeddings = true;
};
using Drafts = Eagle3Trainer<test::SmallTarget, Config, float>;

Drafts::Setup setup() {
  std::vector<index_t> ids;
  for (index_t i = 0; i < 23; ++i) ids.push_back(2 + 2 * i);
  return {DraftVocabulary(ids, 51), {1, 2, 4}};
}

TrainSettings settings(index_t batch, index_t length) {
  TrainSettings s;
  s.batch = batch, s.length = length;
  s.ttt_steps = 3;
  s.schedule = {.lr = 1e-2, .warmup_steps = 5, .total_steps = 60, .min_lr_ratio = 0.1};
  return s;
}

Drafts make(const TrainSettings& s, Drafts::Setup with = setup()) {
  return {Cpu{2}, test::small_target<float>(), std::move(with), s};
}

std::vector<index_t> ids(index_t first, index_t count) {
  std::vector<index_t> all;
  for (index_t i = first; i < first + count; ++i) all.push_back(i * 11 % 17);
  return all;
}

Matrix<const index_t> rows(const std::vector<index_t>& v, index_t batch) {
  return Matrix<const index_t>(v.data(), batch, static_cast<index_t>(v.size()) / batch);
}

}  // namespace

TEST_CASE(
    "a DeepSeek draft of other widths learns from a K3 target, packed and with lambda, and is resumed bit for bit") {
  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  auto s = settings(2, 20);
  s.lk = LkLoss::lambda;
  s.packing = Packing::apart;
  auto trainer = make(s), resumed = make(s);
  const auto text = ids(0, 40), lens = std::vector<index_t>{20, 0, 0, 7, 1, 12};
  const TextWindows windows{rows(text, 2), {}, rows(lens, 2)};
  const auto look = [&] { return trainer.evaluate(windows); };
  const auto before = look();
  for (int i = 0; i < 30; ++i) trainer.step(windows);
  trainer.save(checkpoints);
  resumed.resume(*checkpoints.latest());
  for (int i = 0; i < 30; ++i) CHECK(trainer.step(windows).grad_norm == resumed.step(windows).grad_norm);
  CHECK(look().loss() < 0.5 * before.loss());
  CHECK(look().simulated_accept_length() > before.simulated_accept_length());
  CHECK(look().step_alpha(0).value() > before.step_alpha(0).value());
  CHECK(look()[0].chains == 19 + 6 + 0 + 11);
  const auto config = io::read_json(*checkpoints.latest() / "config.json");
  CHECK(config["architectures"][0] == "DeepseekV3Eagle3DraftModel");
  CHECK(config["hidden_size"] == 18);
}

TEST_CASE("a trainer's packed window is its documents apart") {
  auto s = settings(1, 12);
  s.packing = Packing::apart;
  auto packed = make(s);
  const auto text = ids(3, 12), first = ids(3, 5), second = ids(8, 7), lens = std::vector<index_t>{5, 7};
  const auto whole = packed.evaluate({rows(text, 1), {}, rows(lens, 1)});
  TttMetrics apart(s.ttt_steps);
  for (const auto& document : {first, second}) {
    auto alone = make(settings(1, static_cast<index_t>(document.size())));
    apart += alone.evaluate({rows(document, 1)});
  }
  CHECK(whole.supervised() > 0);
  for (index_t k = 0; k < 3; ++k) {
    CHECK(whole[k].supervised == apart[k].supervised);
    CHECK(whole[k].correct == apart[k].correct);
    CHECK(whole[k].prefix_hits == apart[k].prefix_hits);
    CHECK(whole[k].chains == apart[k].chains);
    CHECK(whole[k].loss == doctest::Approx(apart[k].loss).epsilon(1e-12));  // the same bits, in sums of another order
  }
}

TEST_CASE("what does not fit a draft of other widths is refused before anything is trained") {
  auto s = settings(1, 12);
  s.fc_init = FcInit::last_identity;
  CHECK_THROWS_WITH_AS(Drafts::check(setup(), s),
                       "fc_init: found last_identity, wanted normal: target_hidden_size 27 is not hidden_size 18",
                       Error);
  CHECK_THROWS_WITH_AS(
      make(s), "fc_init: found last_identity, wanted normal: target_hidden_size 27 is not hidden_size 18", Error);
  auto other = setup();
  other.conventions.softmax_mscale = SoftmaxMscale::yarn_mscale_squared;
  CHECK_THROWS_WITH_AS(make(settings(1, 12), std::move(other)), doctest::Contains("softmax_mscale"), Error);
  auto counted = setup();
  counted.conventions.layer_ids = LayerIds::layers_executed;
  counted.layer_ids = {2, 3, 5};
  auto a = make(settings(1, 12)), b = make(settings(1, 12), std::move(counted));
  const auto text = ids(3, 12);
  CHECK(a.step({rows(text, 1)}).grad_norm == b.step({rows(text, 1)}).grad_norm);  // the same layers by other numbers
}
