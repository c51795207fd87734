#include <k3spec/run/eagle3_method.hpp>

#include "tests/support/small_target.hpp"

namespace {

k3spec::DraftVocabulary vocabulary(k3spec::index_t first = 2,
                                   k3spec::index_t tokens = k3spec::test::SmallTarget::vocab_size) {
  std::vector<k3spec::index_t> ids;
  for (k3spec::index_t i = 0; i < k3spec::test::SmallTarget::draft_vocab_size; ++i) ids.push_back(first + 2 * i);
  return k3spec::DraftVocabulary(ids, tokens);
}

#define KIND "eagle3"
struct Kind {
  template <class T>
  using Trainer = k3spec::Eagle3Trainer<k3spec::test::SmallTarget, k3spec::test::SmallTarget, T>;
  template <class T>
  static typename Trainer<T>::Setup setup() {
    return {vocabulary(), {1, 2, 4}};
  }
  static constexpr const char* layers = "aux_layer_ids";
  static std::vector<void (*)(k3spec::TrainSettings&)> objectives() {
    using S = k3spec::TrainSettings;
    return {[](S&) {}, [](S& s) { s.lk = k3spec::LkLoss::alpha; }, [](S& s) { s.lk = k3spec::LkLoss::lambda; }};
  }
  static std::vector<void (*)(k3spec::TrainSettings&)> runs() {
    using S = k3spec::TrainSettings;
    constexpr auto lambda = k3spec::LkLoss::lambda;
    return {[](S&) {},
            [](S& s) { s.ttt_steps = 2; },
            [](S& s) { s.lk = k3spec::LkLoss::alpha; },
            [](S& s) { s.lk = lambda; },
            [](S& s) { s.lk = lambda, s.lk_kl_scale = 0.5; },
            [](S& s) { s.lk = lambda, s.lk_kl_decay = 0.5; },
            [](S& s) { s.fc_init = k3spec::FcInit::last_identity; }};
  }
  static constexpr const char *layers_of_setup = "aux layer", *first_layer = "0";
  static std::vector<std::pair<void (*)(k3spec::TrainSettings&), const char*>> refused_settings() {
    using S = k3spec::TrainSettings;
    return {
        {[](S& s) { s.ttt_steps = 0; }, "ttt_steps: found 0, wanted 1 to 16"},
        {[](S& s) { s.ttt_steps = 17; }, "ttt_steps: found 17, wanted 1 to 16"},
        {[](S& s) { s.variable_prefix = true; }, "variable_prefix: found true, wanted false: EAGLE-3 has no blocks"}};
  }
};

}  // namespace

#include "tests/run/trainer_cases.hpp"
#include "tests/run/trainer_refusals.hpp"

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
  CHECK_THROWS_WITH_AS(TrainerOf<float>::check_resume(*checkpoints.latest(), {vocabulary(1), {1, 2, 4}}, settings()),
                       doctest::Contains("d2t: found another vocabulary"), Error);
}

TEST_CASE("the vocabulary and conventions of another draft are refused before there is a target") {
  const auto refuse = [](TrainerOf<float>::Setup setup, const char* message) {
    CHECK_THROWS_WITH_AS(TrainerOf<float>::check(setup, settings()), doctest::Contains(message), Error);
    CHECK_THROWS_WITH_AS(TrainerOf<float>(Cpu{}, test::small_target<float>(), std::move(setup), settings()),
                         doctest::Contains(message), Error);
  };
  refuse({DraftVocabulary::whole(51), {1, 2, 4}}, "draft vocabulary: size: found 51, wanted 23");
  refuse({vocabulary(2, 52), {1, 2, 4}}, "draft vocabulary: tokens: found 52, wanted 51");
  refuse({vocabulary(), {1, 2, 4}, {.state_norm = StateNorm::post_norm}}, "state_norm");
}

TEST_CASE("a token is predicted where its mask says, and taught where the target's choice behind it can be said") {
  std::vector<index_t> ids, chosen(63), layers{1, 2, 4};
  for (index_t i = 0; i < 63; ++i) ids.push_back(i * 5 % 47);
  TextWindows windows{Matrix<const index_t>(ids.data(), 3, 21)};
  TargetStates<test::SmallTarget, float> states(test::small_target<float>(), eagle3_taps(layers, 6, {}), {3, 21});
  states.run(Cpu{}, windows);
  std::vector<float> all(63 * test::SmallTarget::vocab_size);
  const Rows<float, test::SmallTarget::vocab_size> logits(all.data(), 63);
  states.target().compute_logits(Cpu{}, states.last(), logits);
  argmax(Cpu{}, logits, Vector<index_t>(chosen.data(), 63));

  auto trainer = make<float>();
  std::int64_t taught = 0;
  for (std::size_t i = 0; i < 63; ++i) {
    CAPTURE(i);
    std::vector<std::uint8_t> mask(63, 0);
    mask[i] = 1;
    windows.loss_mask = Vector<const std::uint8_t>(mask.data(), 63);
    const auto seen = trainer.evaluate(windows)[0];
    const bool has_one_before = i % 21 > 0;
    CHECK(seen.chains == (has_one_before ? 1 : 0));
    CHECK(seen.supervised == (has_one_before && vocabulary().contains(chosen[i]) ? 1 : 0));
    taught += seen.supervised;
  }
  CHECK(taught > 0);
  CHECK(taught < 60);
}

TEST_CASE("a step with nothing to say counts its chains, and updates nothing") {
  auto trainer = make<float>(), seen = make<float>();
  std::vector<index_t> ids;
  for (index_t i = 0; i < 63; ++i) ids.push_back(i * 5 % 47);
  index_t unsupervised = 0;
  for (std::size_t i = 1; i < 21; ++i) {  // of the first row; what stands at 0 is never predicted
    std::vector<std::uint8_t> mask(63, 0);
    mask[i] = 1;
    const TextWindows windows{Matrix<const index_t>(ids.data(), 3, 21), Vector<const std::uint8_t>(mask.data(), 63)};
    if (seen.evaluate(windows).supervised() > 0) continue;
    const auto report = trainer.step(windows);
    CHECK(report.skipped);
    CHECK(report.metrics[0].chains == 1);
    CHECK(report.metrics[1].chains == 0);
    CHECK(trainer.unsupervised() == ++unsupervised);
    CHECK(trainer.next_step() == unsupervised);
  }
  REQUIRE(unsupervised > 0);
  CHECK(same_parameters(trainer, seen));
}

namespace {

struct Option {
  const char* name;
  TrainSettings settings = ::settings();
  Eagle3Conventions conventions = {};

  TrainerOf<float> make(int threads = 1) const {
    return {Cpu{threads}, test::small_target<float>(), {vocabulary(), {1, 2, 4}, conventions}, settings};
  }
};

std::vector<Option> options() {
  std::vector<Option> all{{"alpha"}, {"lambda"}, {"last_identity"}, {"residual_mixture"}};
  all[0].settings.lk = LkLoss::alpha;
  all[1].settings.lk = LkLoss::lambda;
  all[2].settings.fc_init = FcInit::last_identity;
  all[3].conventions.aux_stream = AuxStream::residual_mixture;
  return all;
}

}  // namespace

TEST_CASE("each option makes another run, which learns, and goes on bit for bit") {
  const Text text(66), longer;
  for (const Option& option : options()) {
    CAPTURE(option.name);
    const test::TemporaryDirectory directory;
    CheckpointDirectory checkpoints(directory.path());
    auto plain = ::make<float>(), whole = option.make(), resumed = option.make(2);
    const auto before = whole.evaluate(text.open(), 1);
    train(plain, text.open(), 2), train(whole, text.open(), 2);
    CHECK_FALSE(same_parameters(plain, whole));
    whole.save(checkpoints);
    const auto config = io::read_json(*checkpoints.latest() / draft_config_name);
    CHECK(io::draft_conventions<DraftKind::eagle3>(config).ttt_steps == whole.settings().ttt_steps);
    resumed.resume(*checkpoints.latest());
    train(whole, text.open(), 40), train(resumed, text.open(), 40);
    CHECK(same_parameters(whole, resumed));
    CHECK(whole.evaluate(text.open(), 1).loss() < before.loss());
    CHECK(whole.evaluate(text.open(), 1).simulated_accept_length() > before.simulated_accept_length());
    CHECK_THROWS_AS(plain.resume(*checkpoints.latest()), Error);
  }
}

TEST_CASE("acceptance rates are counted where the loss makes them") {
  const Text text;
  const auto all = options();
  auto plain = make<float>(), alpha = all[0].make(), lambda = all[1].make();
  const auto a = alpha.evaluate(text.open(), 2), l = lambda.evaluate(text.open(), 2);
  CHECK(plain.evaluate(text.open(), 2).step_alpha(0).value() == 0);
  CHECK(a.step_alpha(0).value() > 0);
  CHECK(a.step_alpha(0).value() < 1);
  const auto report = alpha.step(text.open());
  for (index_t k = 0; k < 3; ++k) {
    REQUIRE(report.metrics[k].supervised > 1);
    // -log of a mean is at most the mean of -log, and here not much less.
    const double loss = report.metrics.step_loss(k), least = -std::log(report.metrics.step_alpha(k).value());
    CHECK(loss >= least);
    CHECK(loss - least < std::log(static_cast<double>(report.metrics[k].supervised)));
  }
  for (index_t k = 0; k < 3; ++k) CHECK(a.step_alpha(k) == l.step_alpha(k));
  CHECK(a.supervised() == l.supervised());
}

TEST_CASE("a checkpoint of another stream is another run's") {
  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  auto mixture = options()[3].make();
  mixture.save(checkpoints);
  const auto config = io::read_json(*checkpoints.latest() / "config.json");
  CHECK(config["aux_stream"] == "residual_mixture");
  auto plain = make<float>();
  CHECK_THROWS_WITH_AS(plain.resume(*checkpoints.latest()),
                       doctest::Contains("aux_stream: found \"residual_mixture\", wanted \"running_sum\""), Error);
  CHECK(plain.next_step() == 0);
}

TEST_CASE("fc may begin as [0 0 I]") {
  const auto trainer = options()[2].make();
  const auto w = trainer.parameters().weights().fc.weight;
  for (index_t i = 0; i < 27; ++i) {
    for (index_t j = 0; j < 81; ++j) CHECK(w.row(i)[j] == (j == 54 + i ? 1.0f : 0.0f));
  }
}
