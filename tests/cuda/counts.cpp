// What a training step asks of a card: launches, waits of the host and allocations, counted on the stand-in. A card
// does not tell.
#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include <tests/cuda/device.hpp>
#include <tests/support/feature_capture.hpp>
#include <tests/support/trainer_kinds.hpp>

using namespace k3spec;

namespace {

/// What something asked of the device.
struct Counts {
  long launches, waits, allocations;

  static Counts now() {
    return {test::device_launches() + test::device_products(), test::device_waits(), test::device_allocations()};
  }
  Counts since(const Counts& before) const {
    return {launches - before.launches, waits - before.waits, allocations - before.allocations};
  }
};

/// As a run has it: with workspaces that hold a whole operand.
const Cuda& card() {
  static const Cuda cuda;
  return cuda;
}

TrainSettings settings(index_t ttt_steps = 2) {
  TrainSettings s = test::feature_settings(Packing::apart, WindowSampling::packed);
  s.accumulate = 1, s.ttt_steps = ttt_steps;
  return s;
}

template <class Kind, class T>
using TrainerOf = Trainer<typename Kind::template Method<T, Cuda>>;

/// What the second step asks for, while the first one's update may still run. \param target  one that runs, or a cache
template <class Kind, class T, class Target>
Counts second_step(Target&& target, const TrainSettings& s, const TokenData& text) {
  using Made = TrainerOf<Kind, T>;
  Made trainer(card(), std::forward<Target>(target), Kind::template setup<typename Made::Setup>(), s);
  CHECK_FALSE(trainer.step(text).skipped);
  card().synchronize();
  const long launches = Counts::now().launches;
  trainer.step(text);
  card().synchronize();  // launches are counted when they run
  const long all = Counts::now().launches - launches;
  trainer.step(text);  // with its predecessor's update on its way
  const Counts before = Counts::now();
  CHECK_FALSE(trainer.step(text).skipped);
  Counts found = Counts::now().since(before);
  found.launches = all;
  return found;
}

/// \param launches, waits  at most so many
void check(const Counts& found, long launches, long waits = 2) {
  if (!test::stands_in) return;
  CHECK(found.launches > 0);
  CHECK(found.launches <= launches);
  CHECK(found.waits > 0);
  CHECK(found.waits <= waits);
  CHECK(found.allocations == 0);
}

}  // namespace

TEST_CASE("a step of EAGLE-3 on Cuda: two waits, no allocation, and so many launches") {
  const test::FeatureText text;
  for (const index_t k : {1, 2, 3}) {
    CAPTURE(k);
    check(second_step<test::OfEagle3, float>(test::small_target<float>(), settings(k), text.train()), 8 + 69 * k);
  }
}

TEST_CASE(
    "a step of EAGLE-3 on Cuda: a third wait for LK's lambda, which is made of what the step finds, or for Muon") {
  const test::FeatureText text;
  TrainSettings lambda = settings(), muon = settings();
  lambda.lk = LkLoss::lambda, muon.optimizer_kind = OptimizerKind::muon;
  for (const TrainSettings& s : {lambda, muon}) {
    check(second_step<test::OfEagle3, float>(test::small_target<float>(), s, text.train()), 1000, 3);
  }
}

TEST_CASE("a step of a block draft on Cuda: two waits, no allocation, and so many launches") {
  const test::FeatureText text;
  check(second_step<test::OfDFlash, float>(test::small_target<float>(), settings(), text.train()), 148);
  check(second_step<test::OfDSpark, float>(test::small_target<float>(), settings(), text.train()), 177);
}

TEST_CASE("a step on Cuda that learns from a cache: two waits, no allocation") {
  const test::FeatureText text;
  const test::TemporaryDirectory folder;
  const auto taps = eagle3_taps(std::vector<index_t>{1, 2, 4}, test::SmallTarget::num_hidden_layers, {});
  REQUIRE(test::capture(text, test::feature_plan(text, taps, settings()), folder / "cache"));
  const StoredFeatures<test::SmallTarget, float> cache(Cpu{}, folder / "cache");
  check(second_step<test::OfEagle3, float>(cache, settings(), text.train()), 8 + 69 * 2);
}

TEST_CASE("what a mirror sends is what the host had when it was asked, however much is on its way") {
  Mirror<Cuda> mirror(card(), 64), kept(card(), 3 * 64);
  const auto sent = mirror.take<float>(1);
  const auto all = kept.take<float>(1), second = kept.take<float>(1), third = kept.take<float>(1);
  float number = 1;
  for (const auto& to : {all, second, third}) {
    sent.host(0) = number++;
    mirror.upload(card());
    sent.host(0) = -1;
    evaluate(card(), expr::arg<0>, to.device, sent.device);
  }
  kept.download(card());
  CHECK(all.host(0) == 1);
  CHECK(second.host(0) == 2);
  CHECK(third.host(0) == 3);
}

TEST_CASE("pinned memory sends and fetches no more than it has") {
  Staging<Cuda> staging(card(), 8);
  CudaBuffer<float> to(card(), 3);
  const Vector<element_t<Cuda, float>> two(to.data(), 2), all(to.data(), 3);
  const char* const few = "staging: bytes: found 8, wanted 12";
  CHECK_THROWS_WITH_AS(staging.send<float>(card(), 0, all), few, Error);
  CHECK_THROWS_WITH_AS(staging.send<float>(card(), 4, two), few, Error);
  CudaBuffer<std::byte> bytes(card(), 12);
  CHECK_THROWS_WITH_AS(staging.fetch(card(), Vector<const element_t<Cuda, std::byte>>(bytes.data(), 12)), few, Error);
}
