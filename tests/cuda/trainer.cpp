// Drafts trained on Cuda by the target on the host beside it: the numbers of Cpu, as near as products with other sums
// come, and runs that go on, there or here.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <tests/cuda/device.hpp>
#include <tests/support/temporary.hpp>
#include <tests/support/trainer_kinds.hpp>

using namespace k3spec;

namespace {

template <class Given, class T>
struct Case {
  using Kind = Given;
  using value_type = T;
  /// How far numbers may be from Cpu's, in parts of themselves.
  static constexpr double within = std::is_same_v<T, double> ? 1e-9 : std::is_same_v<T, float> ? 1e-4 : 0x1p-6;
};

template <class C, class D>
using TrainerOn = Trainer<typename C::Kind::template Method<typename C::value_type, D>>;

TrainSettings settings() {
  TrainSettings s;
  s.batch = 2, s.length = 9, s.ttt_steps = 2, s.anchors = 3, s.seed = 11;
  s.schedule = {.lr = 1e-2, .warmup_steps = 4, .total_steps = 30, .min_lr_ratio = 0.1};
  return s;
}

/// Documents of several lengths, of tokens below 48 with some order in them, and a mask.
struct Text : test::TemporaryDirectory {
  Text() {
    std::string bytes;
    for (std::uint64_t i = 0; i < 600; ++i) bytes += static_cast<char>((i / 3 * 7 + Philox(1).below(i, 3)) % 48);
    test::write(*this / "text", bytes);
  }
  TokenData open() const { return TokenData(*this / "text", 256); }
};

template <class C, class D>
TrainerOn<C, D> make(const Text& text, const TrainSettings& s = settings()) {
  using Made = TrainerOn<C, D>;
  Made trainer(test::device<D>(), test::small_target<typename C::value_type>(),
               C::Kind::template setup<typename Made::Setup>(), s);
  trainer.set_data(DataFingerprints::of(Cpu{}, text.open(), text.open(), s.packing));
  return trainer;
}

/// Everything that metrics say, under whichever name.
template <class Metrics>
std::vector<double> numbers_of(const Metrics& m) {
  std::vector<double> all{m.loss(), static_cast<double>(m.supervised()), m.simulated_accept_length()};
  for (index_t depth = 0; depth < m.depths(); ++depth) all.push_back(m.depth_acceptance(depth).value());
  m.visit([&](const auto& /*name*/, const auto& value) { all.push_back(static_cast<double>(value)); });
  return all;
}

/// What each step said, up to step `until`.
template <class Trainer>
std::vector<std::vector<double>> train(Trainer& trainer, const TokenData& text, index_t until) {
  std::vector<std::vector<double>> all;
  while (trainer.next_step() < until) {
    const auto report = trainer.step(text);
    CHECK_FALSE(report.skipped);
    all.push_back(numbers_of(report.metrics));
    all.back().push_back(report.grad_norm), all.back().push_back(report.lr);
  }
  return all;
}

void check_near(const std::vector<double>& found, const std::vector<double>& wanted, double within) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(found[i] - wanted[i]) <= within * std::max(1.0, std::abs(wanted[i])));
  }
}
void check_near(const std::vector<std::vector<double>>& found, const std::vector<std::vector<double>>& wanted,
                double within) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    check_near(found[i], wanted[i], within);
  }
}

std::vector<std::string> files(const std::filesystem::path& at) {
  std::vector<std::string> all;
  for (const char* name : {"model.safetensors", "config.json", "trainer.safetensors", "trainer.json"}) {
    all.push_back(test::contents(at / name));
    CHECK_FALSE(all.back().empty());
  }
  return all;
}

/// Training widens the gaps that bfloat16's roundings leave: of later steps the loss alone is the same on both devices.
template <class C>
std::vector<std::vector<double>> comparable(std::vector<std::vector<double>> steps) {
  if constexpr (std::is_same_v<typename C::value_type, bfloat16>) {
    for (std::size_t i = 5; i < steps.size(); ++i) steps[i].resize(1);
  }
  return steps;
}

template <class Trainer>
std::filesystem::path save(Trainer& trainer, const std::filesystem::path& folder) {
  CheckpointDirectory out(folder);
  trainer.save(out);
  return *out.latest();
}

}  // namespace

TEST_CASE_TEMPLATE("20 steps on Cuda are those of Cpu, and either goes on with what the other saved", C,
                   Case<test::OfEagle3, double>, Case<test::OfEagle3, float>, Case<test::OfDFlash, double>,
                   Case<test::OfDSpark, double>, Case<test::OfDSpark, float>, Case<test::OfEagle3, bfloat16>,
                   Case<test::OfDSpark, bfloat16>) {
  const Text file;
  const TokenData text = file.open();
  auto here = make<C, Cpu>(file);
  auto there = make<C, Cuda>(file);
  CHECK(files(save(there, file / "fresh_there")) == files(save(here, file / "fresh_here")));
  auto wanted = train(here, text, 5);
  auto found = train(there, text, 5);
  const auto saved_here = save(here, file / "here"), saved_there = save(there, file / "there");
  CHECK(test::contents(saved_there / "trainer.json") == test::contents(saved_here / "trainer.json"));
  check_near(numbers_of(there.evaluate(text, 2)), numbers_of(here.evaluate(text, 2)), C::within);
  for (auto& step : train(here, text, 20)) wanted.push_back(std::move(step));
  for (auto& step : train(there, text, 10)) found.push_back(std::move(step));

  auto resumed = make<C, Cuda>(file);
  resumed.resume(saved_there);
  CHECK(train(resumed, text, 10) == std::vector(found.begin() + 5, found.end()));
  CHECK(files(save(resumed, file / "resumed")) == files(save(there, file / "unbroken")));

  for (auto& step : train(there, text, 20)) found.push_back(std::move(step));
  check_near(comparable<C>(found), comparable<C>(wanted), C::within);
  auto moved_there = make<C, Cuda>(file);
  moved_there.resume(saved_here);
  check_near(train(moved_there, text, 6), {wanted[5]}, C::within);
  auto moved_here = make<C, Cpu>(file);
  moved_here.resume(saved_there);
  check_near(train(moved_here, text, 6), {wanted[5]}, C::within);
}

TEST_CASE_TEMPLATE("a run on Cuda with Muon, an average, frozen tensors and batches of documents is Cpu's, and goes on",
                   C, Case<test::OfEagle3, double>, Case<test::OfDSpark, double>) {
  const Text file;
  const TokenData text = file.open();
  TrainSettings s = settings();
  s.accumulate = 2, s.packing = Packing::apart, s.ema = 0.9, s.freeze = {"*.mlp.*"};
  s.optimizer_kind = OptimizerKind::muon;
  auto here = make<C, Cpu>(file, s);
  auto there = make<C, Cuda>(file, s), resumed = make<C, Cuda>(file, s);
  check_near(train(there, text, 2), train(here, text, 2), C::within);
  resumed.resume(save(there, file / "two"));
  CHECK(numbers_of(resumed.evaluate(text, 1)) == numbers_of(there.evaluate(text, 1)));  // of the average
  check_near(numbers_of(there.evaluate(text, 1)), numbers_of(here.evaluate(text, 1)), C::within);
  const auto found = train(there, text, 4);
  check_near(found, train(here, text, 4), C::within);
  CHECK(train(resumed, text, 4) == found);
  CHECK(files(save(resumed, file / "resumed")) == files(save(there, file / "unbroken")));
}
