#include <k3spec/train/block_methods.hpp>

#include <cmath>

#include "tests/train/small_target.hpp"

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
};

}  // namespace

#include "tests/train/trainer_cases.hpp"

TEST_CASE(
    "embedding and head are the target's, the Markov head's table begins wide, and DFlash's prefixes are refused") {
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
  s.variable_prefix = true;
  CHECK_THROWS_WITH_AS(make<float>(1, s),
                       "variable_prefix: found true, wanted false: DSpark's blocks show their anchor alone", Error);
}
