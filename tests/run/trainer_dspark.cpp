#include <k3spec/run/block_methods.hpp>

#include <cmath>

#include "tests/support/small_target.hpp"

namespace {

struct Config : k3spec::configs::DSpark<k3spec::test::SmallTarget> {
  static constexpr k3spec::index_t block_size = 4;
  static constexpr std::optional<k3spec::index_t> mask_token_id = 47;
  static constexpr k3spec::index_t markov_rank = 6;
};

#define KIND "dspark"
struct Kind {
  template <class T>
  using Trainer = k3spec::DSparkTrainer<k3spec::test::SmallTarget, Config, T>;
  template <class T>
  static typename Trainer<T>::Setup setup() {
    return {{1, 2, 4}};
  }
  static constexpr const char* layers = "target_layer_ids";
  static std::vector<void (*)(k3spec::TrainSettings&)> objectives() {
    return {[](k3spec::TrainSettings&) {}};
  }
  static std::vector<void (*)(k3spec::TrainSettings&)> runs() {
    using S = k3spec::TrainSettings;
    return {[](S&) {},
            [](S& s) { s.gamma = 1; },
            [](S& s) { s.anchors = 5; },
            [](S& s) { s.ce_alpha = 0.5; },
            [](S& s) { s.l1_alpha = 0.5; },
            [](S& s) { s.confidence_alpha = 0.5; },
            [](S& s) { s.markov_deviation = 2; }};
  }
  static constexpr const char *layers_of_setup = "target layer", *first_layer = "-1";
  static std::vector<std::pair<void (*)(k3spec::TrainSettings&), const char*>> refused_settings() {
    using S = k3spec::TrainSettings;
    return {{[](S& s) { s.length = 3; }, "length: found 3, wanted at least 4, a block"},
            {[](S& s) { s.anchors = 178956971; },
             "anchors: found 178956971 in each of 3 windows, wanted at most 536870911 blocks a step"},
            {[](S& s) { s.lk = k3spec::LkLoss::alpha; }, "lk: found alpha, wanted none: it is a loss of EAGLE-3"},
            {[](S& s) { s.fc_init = k3spec::FcInit::last_identity; },
             "fc_init: found last_identity, wanted normal: it is of EAGLE-3's fc"},
            {[](S& s) { s.ce_alpha = s.l1_alpha = s.confidence_alpha = 0; },
             "ce_alpha, l1_alpha and confidence_alpha: found 0, wanted one above 0: else nothing is learnt"},
            {[](S& s) { s.variable_prefix = true; },
             "variable_prefix: found true, wanted false: DSpark's blocks show their anchor alone"}};
  }
};

}  // namespace

#include "tests/run/trainer_cases.hpp"
#include "tests/run/trainer_refusals.hpp"

TEST_CASE("embedding and head are the target's, and the Markov head's table begins wide") {
  auto s = settings();
  s.markov_deviation = 3;
  const auto trainer = make<float>(1, s);
  const auto target = test::small_target<float>();
  const auto own = trainer.parameters().weights();
  const auto theirs = target.weights();
  CHECK(std::equal(own.embed_tokens.data(), own.embed_tokens.data() + own.embed_tokens.size(),
                   theirs.embed_tokens.data()));
  CHECK(std::equal(own.lm_head.weight.data(), own.lm_head.weight.data() + own.lm_head.weight.size(),
                   theirs.lm_head.data()));
  double squares = 0;
  const auto w1 = own.markov_head.markov_w1;
  for (index_t i = 0; i < w1.size(); ++i)
    squares += static_cast<double>(w1.data()[i]) * static_cast<double>(w1.data()[i]);
  const double deviation = std::sqrt(squares / static_cast<double>(w1.size()));
  CHECK(std::abs(deviation / 3 - 1) < 0.15);  // 306 draws: their deviation is off by 4 % in the mean
}
