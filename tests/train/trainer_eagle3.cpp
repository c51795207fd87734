#include <k3spec/train/eagle3_method.hpp>

#include "tests/train/small_target.hpp"

namespace {

k3spec::DraftVocabulary vocabulary(k3spec::index_t first = 2) {
  std::vector<k3spec::index_t> ids;
  for (k3spec::index_t i = 0; i < k3spec::test::SmallTarget::draft_vocab_size; ++i) ids.push_back(first + 2 * i);
  return k3spec::DraftVocabulary(ids, k3spec::test::SmallTarget::vocab_size);
}

#define KIND "eagle3"
struct Kind {
  template <class T>
  using Trainer = k3spec::Eagle3Trainer<k3spec::test::SmallTarget, T>;
  template <class T>
  static typename Trainer<T>::Setup setup() {
    return {vocabulary(), {1, 2, 4}};
  }
  static constexpr const char* layers = "aux_layer_ids";
  static constexpr bool skips = false;
};

}  // namespace

#include "tests/train/trainer_cases.hpp"

TEST_CASE("chains are counted, and the embedding is the target's and stays so") {
  const Text text;
  auto trainer = make<float>();
  train(trainer, text.open(), 3);
  const auto after = trainer.evaluate(text.open(), 1000);
  CHECK(after[0].chains == 3000 / 21 / 3 * 3 * 20);
  CHECK(after[2].chains == 3000 / 21 / 3 * 3 * 18);
  const auto target = test::small_target<float>();
  const auto own = target.weights().embed_tokens, kept = trainer.parameters().weights().embed_tokens;
  CHECK(std::equal(kept.data(), kept.data() + kept.size(), own.data()));
}

TEST_CASE("a draft of another vocabulary is another run") {
  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  make<float>().save(checkpoints);
  TrainerOf<float> other(Cpu{}, test::small_target<float>(), {vocabulary(1), {1, 2, 4}}, settings());
  CHECK_THROWS_WITH_AS(other.resume(*checkpoints.latest()), doctest::Contains("d2t: found another vocabulary"), Error);
}

TEST_CASE("a trainer refuses what does not fit") {
  const auto refuse = [](TrainerOf<float>::Setup setup, const char* message) {
    CHECK_THROWS_WITH_AS(TrainerOf<float>(Cpu{}, test::small_target<float>(), std::move(setup), settings()), message,
                         Error);
  };
  refuse({vocabulary(), {1, 2}}, "aux layers: found 2, wanted 3");
  refuse({vocabulary(), {1, 2, 6}}, "aux layer id: found 6, wanted 0 to 5");
  refuse({DraftVocabulary::whole(51), {1, 2, 4}}, "draft vocabulary: size: found 51, wanted 23");
  auto s = settings();
  s.ttt_steps = 0;
  CHECK_THROWS_WITH_AS(make<float>(1, s), "ttt_steps: found 0, wanted at least 1", Error);
  s.ttt_steps = 1000;
  CHECK_THROWS_AS(make<float>(1, s), Error);
}
