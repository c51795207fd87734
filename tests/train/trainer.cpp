#include <k3spec/train/trainer.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tests/support/temporary.hpp"
#include "tests/train/allocations.hpp"

using namespace k3spec;

namespace {

/// A target of six layers with all that K3 has in it, in sizes that fill no register.
struct Small : configs::KimiK3 {
  static constexpr index_t vocab_size = 51;
  static constexpr index_t hidden_size = 27, target_hidden_size = 27;
  static constexpr index_t intermediate_size = 35;
  static constexpr index_t num_hidden_layers = 6;
  static constexpr std::optional<index_t> bos_token_id = 48, eos_token_id = 49, pad_token_id = 50;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 11;
  static constexpr index_t kv_lora_rank = 7;
  static constexpr index_t qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 9;
  static constexpr index_t kda_num_heads = 3, kda_head_dim = 8;
  static constexpr std::array<index_t, 2> full_attn_layers{4, 6};
  static constexpr index_t num_experts = 6, num_experts_per_token = 2, num_shared_experts = 1;
  static constexpr index_t moe_intermediate_size = 20, routed_expert_hidden_size = 32;
  static constexpr std::optional<index_t> attn_res_block_size = 3;
  static constexpr index_t draft_vocab_size = 23;
};

template <class T>
using Trainer = Eagle3Trainer<Small, T>;

template <class T>
Parameters<K3Target<Small>, T> target() {
  Parameters<K3Target<Small>, T> parameters;
  parameters.initialize(5, 0.3);
  // Sure of itself: an even distribution leaves nothing to learn.
  auto w = parameters.mutable_weights();
  for (index_t i = 0; i < w.lm_head.size(); ++i) w.lm_head.data()[i] = static_cast<T>(5 * w.lm_head.data()[i]);
  return parameters;
}

DraftVocabulary vocabulary(index_t first = 2) {
  std::vector<index_t> ids;
  for (index_t i = 0; i < Small::draft_vocab_size; ++i) ids.push_back(first + 2 * i);
  return DraftVocabulary(ids, Small::vocab_size);
}

TrainSettings settings() {
  TrainSettings s;
  s.batch = 3;
  s.length = 21;
  s.ttt_steps = 3;
  s.seed = 11;
  s.schedule = {.lr = 1e-2, .warmup_steps = 5, .total_steps = 40, .min_lr_ratio = 0.1};
  s.optimizer.weight_decay = 0.01;
  return s;
}

template <class T>
Trainer<T> make(int threads = 1, const TrainSettings& s = settings()) {
  return Trainer<T>(Cpu{threads}, target<T>(), vocabulary(), {1, 2, 4}, s);
}

/// Tokens below 48, with some order in them.
struct Text : test::TemporaryDirectory {
  explicit Text(std::uint64_t size = 3000) {
    std::string bytes;
    for (std::uint64_t i = 0; i < size; ++i) bytes += static_cast<char>((i / 3 * 7 + Philox(1).below(i, 3)) % 48);
    test::write(*this / "text", bytes);
  }
  ByteText open() const { return ByteText(*this / "text"); }
};

template <class T>
std::vector<double> train(Trainer<T>& trainer, const ByteText& text, index_t until) {
  std::vector<double> numbers;
  while (trainer.next_step() < until) {
    const auto report = trainer.step(text);
    numbers.push_back(report.result.loss);
    numbers.push_back(report.grad_norm);
    numbers.push_back(report.lr);
  }
  return numbers;
}

template <class T>
bool same_parameters(const Trainer<T>& a, const Trainer<T>& b) {
  const auto x = a.parameters().trainable(), y = b.parameters().trainable();
  return std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.size()) * sizeof(T)) == 0;
}

std::vector<std::string> files(const std::filesystem::path& at) {
  std::vector<std::string> all;
  for (const char* name : {"model.safetensors", "config.json", "trainer.safetensors", "trainer.json"}) {
    all.push_back(test::contents(at / name));
    CHECK_FALSE(all.back().empty());
  }
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("a draft learns its target, and what is frozen stays", T, float, bfloat16) {
  const Text text(66);  // little enough to be learnt by heart
  auto trainer = make<T>();
  const auto before = trainer.evaluate(text.open(), 1);
  train(trainer, text.open(), 40);
  const auto after = trainer.evaluate(text.open(), 1);
  CHECK(after.loss() < 0.8 * before.loss());
  CHECK(after.accuracy().value() > 2 * before.accuracy().value());
  CHECK(after.simulated_accept_length() > before.simulated_accept_length());
  CHECK(after[0].chains == 3 * 20);
  CHECK(after[2].chains == 3 * 18);
  const auto own = target<T>();
  const auto embedding = own.weights().embed_tokens, kept = trainer.parameters().weights().embed_tokens;
  CHECK(std::equal(kept.data(), kept.data() + kept.size(), embedding.data()));
}

TEST_CASE_TEMPLATE("20 steps, resumed, and 20 more are 40 unbroken ones, bit for bit", T, float, bfloat16) {
  const Text text;
  const test::TemporaryDirectory directory;
  CheckpointDirectory unbroken(directory / "unbroken"), broken(directory / "broken");
  auto whole = make<T>();
  auto losses = train(whole, text.open(), 40);
  whole.save(unbroken);
  auto first = make<T>();
  auto parts = train(first, text.open(), 20);
  first.save(broken);
  auto second = make<T>(2);
  second.resume(*broken.latest());
  for (const double x : train(second, text.open(), 40)) parts.push_back(x);
  second.save(broken);
  CHECK(parts == losses);
  CHECK(files(*broken.latest()) == files(*unbroken.latest()));
}

TEST_CASE("one thread or several: the same bits") {
  const Text text;
  auto one = make<float>(1), two = make<float>(2), five = make<float>(5);
  const auto numbers = train(one, text.open(), 6);
  CHECK(train(two, text.open(), 6) == numbers);
  CHECK(train(five, text.open(), 6) == numbers);
  CHECK(same_parameters(one, two));
  CHECK(same_parameters(one, five));
  CHECK(one.evaluate(text.open(), 2) == two.evaluate(text.open(), 2));
}

TEST_CASE("another seed is another run") {
  const Text text;
  auto s = settings();
  s.seed = 12;
  auto a = make<float>(), b = make<float>(1, s);
  CHECK(train(a, text.open(), 1) != train(b, text.open(), 1));
}

TEST_CASE_TEMPLATE("nothing is allocated in a step", T, float, bfloat16) {
  const Text file;
  const auto text = file.open();
  for (const int threads : {1, 2}) {
    auto trainer = make<T>(threads);
    const long before = test::allocations;
    for (int i = 0; i < 3; ++i) trainer.step(text);
    CHECK(test::allocations == before);
  }
  const long before = test::allocations;
  const Buffer<float> buffer(3);
  CHECK(test::allocations == before + 1);  // the count counts
}

TEST_CASE("held-out text is only looked at") {
  const Text text;
  auto a = make<float>(), b = make<float>();
  train(a, text.open(), 2);
  a.evaluate(text.open(), 3);
  train(a, text.open(), 4);
  train(b, text.open(), 4);
  CHECK(same_parameters(a, b));
  CHECK(a.evaluate(text.open(), 1000)[0].chains == 3000 / 21 / 3 * 3 * 20);
  CHECK(a.evaluate(text.open(), 0).simulated_accept_length() == 1);
}

TEST_CASE("the number of steps may be fixed during warmup, and then the run is as if it always had been") {
  const Text text;
  auto s = settings();
  s.schedule.total_steps = 1000000;
  auto measured = make<float>(1, s), fixed = make<float>();
  train(measured, text.open(), 5);
  measured.set_total_steps(40);
  train(measured, text.open(), 10);
  train(fixed, text.open(), 10);
  CHECK(same_parameters(measured, fixed));
  CHECK_THROWS_WITH_AS(measured.set_total_steps(50), "total steps: found 50 set after step 6, wanted set during warmup",
                       Error);
  CHECK(measured.settings().schedule.total_steps == 40);
}

TEST_CASE("a checkpoint of another run is refused, and the trainer stays as it was") {
  const Text text;
  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  auto saved = make<float>();
  train(saved, text.open(), 2);
  saved.save(checkpoints);
  const auto at = *checkpoints.latest();
  const auto refuse = [&](Trainer<float> trainer, const char* message) {
    CHECK_THROWS_WITH_AS(trainer.resume(at), doctest::Contains(message), Error);
    CHECK(trainer.next_step() == 0);
  };
  auto other = settings();
  other.optimizer.beta2 = 0.9;
  refuse(make<float>(1, other), "trainer.json: settings");
  refuse(Trainer<float>(Cpu{}, target<float>(), vocabulary(1), {1, 2, 4}, settings()), "d2t: found another vocabulary");
  refuse(Trainer<float>(Cpu{}, target<float>(), vocabulary(), {0, 2, 4}, settings()),
         "aux_layer_ids: found [1,2,4], wanted [0,2,4]");
  auto config = io::read_json(at / "config.json");
  config["hidden_size"] = 28;
  test::write(at / "config.json", config.dump());
  refuse(make<float>(), "hidden_size: found 28, wanted 27");
}

TEST_CASE("a trainer refuses what does not fit") {
  CHECK_THROWS_WITH_AS(Trainer<float>(Cpu{}, target<float>(), vocabulary(), {1, 2}, settings()),
                       "aux layers: found 2, wanted 3", Error);
  CHECK_THROWS_AS(Trainer<float>(Cpu{}, target<float>(), vocabulary(), {1, 2, 6}, settings()), Error);
  CHECK_THROWS_WITH_AS(Trainer<float>(Cpu{}, target<float>(), DraftVocabulary::whole(51), {1, 2, 4}, settings()),
                       "draft vocabulary: size: found 51, wanted 23", Error);
  auto s = settings();
  s.ttt_steps = 0;
  CHECK_THROWS_WITH_AS(make<float>(1, s), "ttt_steps: found 0, wanted at least 1", Error);
  s.ttt_steps = 1000;
  CHECK_THROWS_AS(make<float>(1, s), Error);
}
