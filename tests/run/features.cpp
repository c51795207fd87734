// Training from a cache of features has the bits of training with the target that runs, for each draft, also in
// mid-run.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include <k3spec/run/block_methods.hpp>
#include <k3spec/run/eagle3_method.hpp>

#include "tests/support/feature_capture.hpp"

using namespace k3spec;

namespace {

using Target = test::SmallTarget;
using Stored = StoredFeatures<Target, float>;

struct FlashConfig : configs::DFlash<Target> {
  static constexpr index_t block_size = 4;
  static constexpr std::optional<index_t> mask_token_id = 47;
};
struct SparkConfig : configs::DSpark<Target> {
  static constexpr index_t block_size = 4;
  static constexpr std::optional<index_t> mask_token_id = 47;
  static constexpr index_t markov_rank = 6;
};
struct OfEagle3 {
  using Method = Eagle3Method<Target, Target, float>;
  static Method::Setup setup() {
    std::vector<index_t> ids;
    for (index_t i = 0; i < Target::draft_vocab_size; ++i) ids.push_back(2 + 2 * i);
    return {DraftVocabulary(ids, Target::vocab_size), {1, 2, 4}};
  }
};
struct OfDFlash {
  using Method = DFlashMethod<Target, FlashConfig, float>;
  static Method::Setup setup() { return {{1, 2, 4}}; }
};
struct OfDSpark {
  using Method = DSparkMethod<Target, SparkConfig, float>;
  static Method::Setup setup() { return {{-1, 2, 5}}; }
};

template <class Trainer>
std::vector<double> steps(Trainer& trainer, const TokenData& data, index_t until) {
  std::vector<double> numbers;
  while (trainer.next_step() < until) {
    const auto report = trainer.step(data);
    numbers.insert(numbers.end(), {report.metrics.loss(), report.grad_norm});
  }
  return numbers;
}

template <class Trainer>
bool same_parameters(const Trainer& a, const Trainer& b) {
  const auto x = a.parameters().trainable(), y = b.parameters().trainable();
  return std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.size()) * sizeof(*x.data())) == 0;
}

template <class Kind>
void same_bits(const TrainSettings& s) {
  using Method = typename Kind::Method;
  const test::FeatureText text;
  const test::TemporaryDirectory directory;
  REQUIRE(test::capture(text, test::feature_plan(text, Method::taps(Kind::setup()), s), directory / "cache"));
  const Stored stored(Cpu{1}, directory / "cache");
  // From here on the tokens are the cache's own.
  const TokenData train(directory / "cache" / FeatureFiles::training, Target::vocab_size);
  const TokenData heldout(directory / "cache" / FeatureFiles::held_out, Target::vocab_size);
  Trainer<Method> running(Cpu{1}, test::small_target<float>(), Kind::setup(), s);
  Trainer<Method> cached(Cpu{2}, stored, Kind::setup(), s);
  CHECK(same_parameters(running, cached));
  running.set_data(DataFingerprints::of(Cpu{1}, text.train(), text.heldout(), s.packing));
  const auto own = DataFingerprints::of(Cpu{1}, train, heldout, s.packing);
  cached.set_data(own);
  const auto wanted = steps(running, text.train(), 3);
  CHECK(steps(cached, train, 3) == wanted);
  CHECK(same_parameters(running, cached));
  CHECK(cached.evaluate(heldout, 2).loss() == running.evaluate(text.heldout(), 2).loss());

  // In mid-epoch each goes on with what the other has saved.
  CheckpointDirectory of_running(directory / "running"), of_cached(directory / "cached");
  running.save(of_running), cached.save(of_cached);
  for (const char* file : {"model.safetensors", "config.json", "trainer.safetensors", "trainer.json"}) {
    CHECK(test::contents(*of_running.latest() / file) == test::contents(*of_cached.latest() / file));
  }
  Trainer<Method> resumed(Cpu{1}, stored, Kind::setup(), s);
  resumed.set_data(own);
  resumed.resume(*of_running.latest());
  const auto more = steps(running, text.train(), 6);
  CHECK(steps(resumed, train, 6) == more);
  CHECK(same_parameters(running, resumed));
}

}  // namespace

TEST_CASE_TEMPLATE("from a cache a draft learns the same bits, also resumed", Kind, OfEagle3, OfDFlash, OfDSpark) {
  same_bits<Kind>(test::feature_settings(Packing::none, WindowSampling::shuffled));
  same_bits<Kind>(test::feature_settings(Packing::apart, WindowSampling::shuffled));
  same_bits<Kind>(test::feature_settings(Packing::apart, WindowSampling::packed));
}
