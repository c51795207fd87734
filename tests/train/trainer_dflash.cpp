#include <k3spec/train/block_methods.hpp>

#include "tests/train/small_target.hpp"

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
};

}  // namespace

#include "tests/train/trainer_cases.hpp"

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
