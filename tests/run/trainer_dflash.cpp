#include <k3spec/run/block_methods.hpp>

#include "tests/support/small_target.hpp"

namespace {

struct Config : k3spec::configs::DFlash<k3spec::test::SmallTarget> {
  static constexpr k3spec::index_t block_size = 4;
  static constexpr std::optional<k3spec::index_t> mask_token_id = 47;
};

#define KIND "dflash"
struct Kind {
  template <class T>
  using Trainer = k3spec::DFlashTrainer<k3spec::test::SmallTarget, Config, T>;
  template <class T>
  static typename Trainer<T>::Setup setup() {
    return {{1, 2, 4}};
  }
  static constexpr const char* layers = "target_layer_ids";
  static std::vector<void (*)(k3spec::TrainSettings&)> objectives() {
    using S = k3spec::TrainSettings;
    return {[](S&) {}, [](S& s) { s.variable_prefix = true; }};
  }
  static std::vector<void (*)(k3spec::TrainSettings&)> runs() {
    using S = k3spec::TrainSettings;
    return {[](S&) {}, [](S& s) { s.gamma = 1; }, [](S& s) { s.anchors = 5; }, [](S& s) { s.variable_prefix = true; },
            [](S& s) { s.variable_prefix = true, s.prefix_base = 0.1; }};
  }
  static constexpr const char *layers_of_setup = "target layer", *first_layer = "-1";
  static std::vector<std::pair<void (*)(k3spec::TrainSettings&), const char*>> refused_settings() {
    using S = k3spec::TrainSettings;
    return {{[](S& s) { s.length = 3; }, "length: found 3, wanted at least 4, a block"},
            {[](S& s) { s.anchors = 178956971; },
             "anchors: found 178956971 in each of 3 windows, wanted at most 536870911 blocks a step"},
            {[](S& s) { s.lk = k3spec::LkLoss::alpha; }, "lk: found alpha, wanted none: it is a loss of EAGLE-3"},
            {[](S& s) { s.fc_init = k3spec::FcInit::last_identity; },
             "fc_init: found last_identity, wanted normal: it is of EAGLE-3's fc"}};
  }
};

}  // namespace

#include "tests/run/trainer_cases.hpp"
#include "tests/run/trainer_refusals.hpp"

TEST_CASE("a variable prefix is trained with, but held-out text is looked at without") {
  const Text text;
  auto s = settings();
  s.variable_prefix = true;
  auto plain = make<float>(), prefixed = make<float>(1, s);
  CHECK(prefixed.evaluate(text.open(), 2) == plain.evaluate(text.open(), 2));
  CHECK(train(prefixed, text.open(), 1) != train(plain, text.open(), 1));
  s.prefix_base = 0.1;
  auto shorter = make<float>(1, s);
  CHECK(train(shorter, text.open(), 1)[0] != train(prefixed, text.open(), 2)[0]);
}

namespace {

struct Unmasked : Config {
  static constexpr std::optional<index_t> mask_token_id = std::nullopt;
};

}  // namespace

TEST_CASE("a draft without a mask token is refused before there is a target") {
  using Trainer = DFlashTrainer<test::SmallTarget, Unmasked, float>;
  CHECK_THROWS_WITH_AS(Trainer::check({{1, 2, 4}}, settings()), doctest::Contains("mask_token_id: found nothing"),
                       Error);
}

TEST_CASE("blocks with nothing after their anchors are nothing to learn from") {
  auto trainer = make<float>();
  std::vector<index_t> ids(63, 5);
  std::vector<std::uint8_t> mask(63, 0);
  mask[0] = mask[21 + 7] = 1;
  const Matrix<const index_t> windows(ids.data(), 3, 21);
  const auto step = [&] { return trainer.step({windows, Vector<const std::uint8_t>(mask.data(), 63)}); };
  CHECK(step().skipped);
  CHECK(trainer.unsupervised() == 1);
  CHECK(trainer.next_step() == 1);
  CHECK(same_parameters(trainer, make<float>()));  // an update would decay the weights
  mask[1] = 1;
  CHECK_FALSE(step().skipped);
  CHECK(trainer.unsupervised() == 1);
}
