#pragma once
/// \file
/// What a trainer must do with a draft of any kind. A test file says which, in an unnamed namespace, and then includes
/// this header:
///
///     #define KIND "dflash"   // in the cases' names: doctest takes those of one name and line for the same
///     struct Kind {
///       template <class T> using Trainer = ...;                // of test::SmallTarget
///       template <class T> static auto setup();                // the trainer's Setup
///       static constexpr const char* layers = "aux_layer_ids"; // the field of config.json
///       static std::vector<void (*)(TrainSettings&)> objectives();  // what makes another objective of the settings
///       static std::vector<void (*)(TrainSettings&)> runs();        // what makes runs that all differ, from step 1 on
///     };
/// defines: Text, make, train, same_parameters, and test cases

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/backend/allocations.hpp"
#include "tests/support/golden_check.hpp"
#include "tests/support/small_target.hpp"
#include "tests/support/temporary.hpp"

#include <k3spec/io/stored_tensor.hpp>

namespace {

using namespace k3spec;

TrainSettings settings() {
  TrainSettings s;
  s.batch = 3;
  s.length = 21;
  s.ttt_steps = 3;
  s.anchors = 6;
  s.seed = 11;
  s.schedule = {.lr = 1e-2, .warmup_steps = 5, .total_steps = 40, .min_lr_ratio = 0.1};
  s.optimizer.weight_decay = 0.01;
  return s;
}

template <class T>
using TrainerOf = typename Kind::template Trainer<T>;

template <class T>
TrainerOf<T> make(int threads = 1, const TrainSettings& s = settings()) {
  return TrainerOf<T>(Cpu{threads}, test::small_target<T>(), Kind::template setup<T>(), s);
}

/// Tokens below 48, with some order in them.
struct Text : test::TemporaryDirectory {
  explicit Text(std::uint64_t size = 3000) {
    std::string bytes;
    for (std::uint64_t i = 0; i < size; ++i) bytes += static_cast<char>((i / 3 * 7 + Philox(1).below(i, 3)) % 48);
    test::write(*this / "text", bytes);
  }
  TokenData open() const { return TokenData(*this / "text", 256); }
};

template <class Trainer>
std::vector<double> train(Trainer& trainer, const TokenData& text, index_t until) {
  std::vector<double> numbers;
  while (trainer.next_step() < until) {
    const auto report = trainer.step(text);
    numbers.push_back(report.metrics.loss());
    numbers.push_back(report.grad_norm);
    numbers.push_back(report.lr);
  }
  return numbers;
}

template <class Trainer>
bool same_parameters(const Trainer& a, const Trainer& b) {
  const auto x = a.parameters().trainable(), y = b.parameters().trainable();
  return std::memcmp(x.data(), y.data(), static_cast<std::size_t>(x.size()) * sizeof(*x.data())) == 0;
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

TEST_CASE_TEMPLATE(KIND ": a draft learns its target", T, float, bfloat16) {
  const Text text(66);  // little enough to be learnt by heart
  auto s = settings();
  s.schedule.total_steps = 200;
  auto trainer = make<T>(1, s);
  const auto before = trainer.evaluate(text.open(), 1);
  train(trainer, text.open(), 200);
  const auto after = trainer.evaluate(text.open(), 1);
  CHECK(after.loss() < 0.8 * before.loss());
  CHECK(after.accuracy().value() > 2 * before.accuracy().value());
  CHECK(after.simulated_accept_length() > before.simulated_accept_length());
}

TEST_CASE_TEMPLATE(KIND ": a target in a checkpoint, each weight kept once, gives the same bits", T, float, bfloat16) {
  using Target = typename TrainerOf<T>::Target;
  const Text text;
  const test::TemporaryDirectory directory;
  auto given = test::small_target<T>();
  auto weights = given.mutable_weights();
  const auto write = [&] { io::write_safetensors(directory / "target.safetensors", io::sources<Target>(weights)); };
  write();
  auto trainer = make<T>();
  const auto losses = train(trainer, text.open(), 3);
  for (const KeepWeights keep : {KeepWeights::native, KeepWeights::full}) {
    const auto tensors = io::ModelTensors::open(directory / "target.safetensors");
    const io::StoredWeights<Target, T> stored(tensors, {}, keep);
    TrainerOf<T> straight(Cpu{2}, stored.weights(), Kind::template setup<T>(), settings());
    CHECK(train(straight, text.open(), 3) == losses);
    CHECK(same_parameters(straight, trainer));
    CheckpointDirectory at(directory / "run");
    trainer.save(at);
    CHECK_NOTHROW(straight.resume(*at.latest()));  // which compares the target's fingerprints
  }
  weights.norm(1) = T(std::numeric_limits<float>::infinity());
  write();
  const auto tensors = io::ModelTensors::open(directory / "target.safetensors");
  const io::StoredWeights<Target, T> stored(tensors, {});
  CHECK_THROWS_WITH_AS(TrainerOf<T>(Cpu{1}, stored.weights(), Kind::template setup<T>(), settings()),
                       "target: 'model.norm.weight': element 1: found inf, wanted a finite number", Error);
}

TEST_CASE_TEMPLATE(KIND ": 20 steps, resumed, and 20 more are 40 unbroken ones, bit for bit", T, float, bfloat16) {
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

TEST_CASE_TEMPLATE(KIND ": golden: 10 steps of every objective", T, float, bfloat16) {
  const Text text;
  const test::TemporaryDirectory directory;
  int objective = 0;
  for (const auto change : Kind::objectives()) {
    for (const Packing packing : {Packing::none, Packing::apart}) {
      const std::string_view packed = names_of<Packing>[static_cast<std::size_t>(packing)];
      auto s = settings();
      change(s);
      s.packing = packing;
      auto trainer = make<T>(1, s);
      test::BitHash bits;
      bits.numbers(train(trainer, text.open(), 10));
      CheckpointDirectory out(directory / fmt::format("{}_{}", objective, packed));
      trainer.save(out);
      for (const char* file : {"model.safetensors", "trainer.safetensors"}) {
        bits.tensors(test::contents(*out.latest() / file));
      }
      test::check_golden(bits, fmt::format("objective {}, packing {}", objective, packed));
    }
    ++objective;
  }
}

TEST_CASE(KIND ": one thread or several: the same bits") {
  const Text text;
  auto one = make<float>(1), two = make<float>(2), five = make<float>(5);
  const auto numbers = train(one, text.open(), 6);
  CHECK(train(two, text.open(), 6) == numbers);
  CHECK(train(five, text.open(), 6) == numbers);
  CHECK(same_parameters(one, two));
  CHECK(same_parameters(one, five));
  CHECK(one.evaluate(text.open(), 2) == two.evaluate(text.open(), 2));
}

TEST_CASE(KIND ": another seed is another run") {
  const Text text;
  auto s = settings();
  s.seed = 12;
  auto a = make<float>(), b = make<float>(1, s);
  CHECK(train(a, text.open(), 1) != train(b, text.open(), 1));
}

TEST_CASE(KIND ": each setting that an objective reads makes another run, and none stands for another") {
  const Text text;
  std::vector<std::vector<double>> found;
  for (const auto change : Kind::runs()) {
    auto s = settings();
    change(s);
    auto trainer = make<float>(1, s);
    found.push_back(train(trainer, text.open(), 1));
    for (std::size_t other = 0; other + 1 < found.size(); ++other) {
      CAPTURE(other);
      CAPTURE(found.size() - 1);
      CHECK(found[other] != found.back());
    }
  }
}

TEST_CASE(KIND ": a run with Muon goes on bit for bit, and allocates nothing in a step") {
  const Text file;
  const auto text = file.open();
  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  auto s = settings();
  s.optimizer_kind = OptimizerKind::muon;
  auto whole = make<float>(1, s), begun = make<float>(2, s), other = make<float>(1, s);
  const auto all = train(whole, text, 4);
  train(begun, text, 2);
  begun.save(checkpoints);
  other.resume(*checkpoints.latest());
  const long before = allocations();
  other.step(text);
  CHECK(allocations() == before);
  const auto last = train(other, text, 4);
  CHECK(std::equal(last.begin(), last.end(), all.end() - static_cast<std::ptrdiff_t>(last.size())));
  CHECK(same_parameters(other, whole));
  auto with_adamw = make<float>();
  train(with_adamw, text, 4);
  CHECK_FALSE(same_parameters(with_adamw, whole));
  CHECK_THROWS_WITH_AS(with_adamw.resume(*checkpoints.latest()), doctest::Contains("settings"), Error);
}

namespace {

/// The trained tensors among a draft's weights, by their names.
template <class Draft, class Weights>
std::vector<std::pair<std::string, std::vector<float>>> trained_of(const Weights& weights) {
  std::vector<std::pair<std::string, std::vector<float>>> all;
  Draft::visit(weights, Path{}, [&](const Path& at, const auto& view, auto init) {
    if constexpr (std::is_same_v<decltype(init), Init>) {
      auto& values = all.emplace_back(at.str(), std::vector<float>()).second;
      for (index_t i = 0; i < view.size(); ++i) values.push_back(static_cast<float>(view.data()[i]));
    }
  });
  return all;
}

/// What a trainer measures and saves.
template <class Trainer>
auto draft_of(const Trainer& trainer) {
  return trained_of<typename Trainer::Draft>(trainer.weights());
}

}  // namespace

TEST_CASE_TEMPLATE(KIND
                   ": a run with an average moves as without, is measured and saved with it, and goes on bit for bit",
                   T, float, bfloat16) {
  const Text file;
  const auto text = file.open();
  const test::TemporaryDirectory directory;
  CheckpointDirectory unbroken(directory / "unbroken"), broken(directory / "broken");
  auto s = settings();
  s.accumulate = 2, s.freeze = {"*.mlp.*"};
  auto plain = make<T>(1, s);
  const auto numbers = train(plain, text, 10);
  s.ema = 0.9;
  auto whole = make<T>(1, s), first = make<T>(2, s), second = make<T>(1, s);
  CHECK(whole.evaluate(text, 1) == make<T>(1, s).evaluate(text, 1));
  CHECK(train(whole, text, 10) == numbers);
  CHECK(same_parameters(whole, plain));
  CHECK(draft_of(whole) != draft_of(plain));
  train(first, text, 5);
  first.save(broken);
  second.resume(*broken.latest());
  CHECK(second.evaluate(text, 1) == first.evaluate(text, 1));
  train(second, text, 9);
  const long before = allocations();
  second.step(text);
  CHECK(allocations() == before);
  whole.save(unbroken), second.save(broken);
  CHECK(files(*broken.latest()) == files(*unbroken.latest()));
  // What reads the checkpoint has the draft that was measured; what is frozen is the same in it.
  Parameters<typename TrainerOf<T>::Draft, T> saved;
  load_draft(*unbroken.latest(), saved);
  plain = make<T>(1, s);
  plain.start_from(std::move(saved));
  CHECK(draft_of(plain) == draft_of(whole));
  CHECK(plain.evaluate(text, 2) == whole.evaluate(text, 2));
  const auto mean = draft_of(whole), moved = trained_of<typename TrainerOf<T>::Draft>(whole.parameters().weights());
  std::size_t frozen = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    CAPTURE(mean[i].first);
    const bool stays = mean[i].first.find(".mlp.") != std::string::npos;
    CHECK((mean[i].second == moved[i].second) == stays);
    frozen += stays ? 1U : 0U;
  }
  CHECK(frozen >= 3);
  // Nothing supervised moves neither.
  std::vector<index_t> ids(126, 1);
  std::vector<std::uint8_t> none(126, 0);
  CHECK(whole.step({Matrix<const index_t>(ids.data(), 6, 21), Vector<const std::uint8_t>(none.data(), 126)}).skipped);
  CHECK(draft_of(whole) == mean);
  s.ema = 0.99;
  CHECK_THROWS_WITH_AS(TrainerOf<T>::check_resume(*broken.latest(), Kind::template setup<T>(), s),
                       doctest::Contains("trainer.json: settings"), Error);
  s.ema.reset();
  CHECK_THROWS_WITH_AS(TrainerOf<T>::check_resume(*broken.latest(), Kind::template setup<T>(), s),
                       doctest::Contains("trainer.json: settings"), Error);
}

TEST_CASE_TEMPLATE(KIND ": nothing is allocated in a step", T, float, bfloat16) {
  const Text file;
  const auto text = file.open();
  for (const int threads : {1, 2}) {
    auto s = settings();
    s.accumulate = threads;
    auto trainer = make<T>(threads, s);
    const long before = allocations();
    for (int i = 0; i < 3; ++i) trainer.step(text);
    CHECK(allocations() == before);
  }
  const long before = allocations();
  const Buffer<float> buffer(3);
  CHECK(allocations() == before + 1);  // the count counts
}

namespace {

/// First moments after a step: its clipped gradient, but for a factor.
template <class Trainer>
std::vector<double> moments(Trainer& trainer) {
  std::vector<double> all;
  const auto first = const_cast<AdamW<typename Trainer::Draft, double>&>(trainer.optimizer()).first_moments();
  Trainer::Draft::visit(first, Path{}, [&](const Path&, const auto& view, auto) {
    if (view.data() != nullptr) all.insert(all.end(), view.data(), view.data() + view.size());
  });
  return all;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, scale = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    most = std::max(most, std::abs(a[i] - b[i])), scale = std::max(scale, std::abs(b[i]));
  }
  return most / scale;
}

template <class Report>
void same_step(const Report& found, const Report& wanted) {
  constexpr double rounding = 1e-12;
  CHECK_FALSE(found.skipped);
  CHECK(found.metrics.supervised() == wanted.metrics.supervised());
  CHECK(found.metrics.loss() == doctest::Approx(wanted.metrics.loss()).epsilon(rounding));
  CHECK(found.metrics.accuracy().value() == doctest::Approx(wanted.metrics.accuracy().value()).epsilon(rounding));
  CHECK(found.metrics.simulated_accept_length() ==
        doctest::Approx(wanted.metrics.simulated_accept_length()).epsilon(rounding));
  CHECK(found.grad_norm == doctest::Approx(wanted.grad_norm).epsilon(rounding));
}

}  // namespace

TEST_CASE(KIND ": a step of several batches is the step of one large batch, whatever each of them supervises") {
  const Text file;
  const auto text = file.open();
  std::vector<index_t> ids;
  for (index_t i = 0; i < 126; ++i) ids.push_back(i * i % 47);
  // Of three batches the first supervises most, the second nothing, the third a few tokens.
  std::vector<std::uint8_t> mask(126, 0);
  std::fill_n(mask.begin(), 40, std::uint8_t{1}), std::fill_n(mask.begin() + 106, 9, std::uint8_t{1});
  const TextWindows uneven{Matrix<const index_t>(ids.data(), 6, 21), Vector<const std::uint8_t>(mask.data(), 126)};
  for (const auto change : Kind::objectives()) {
    auto s = settings();
    s.packing = Packing::apart;
    s.schedule.lr = 1e-300;  // so that parameters stay, and every step can be compared
    change(s);
    s.batch = 6;
    auto whole = make<double>(1, s);
    s.batch = 2, s.accumulate = 3;
    auto parts = make<double>(2, s);
    for (int i = 0; i < 2; ++i) same_step(parts.step(text), whole.step(text));
    const auto wanted = whole.step(uneven);
    const long before = allocations();
    const auto found = parts.step(uneven);
    CHECK(allocations() == before);
    same_step(found, wanted);
    CHECK(largest_difference(moments(parts), moments(whole)) <= 1e-12);
    std::vector<std::uint8_t> none(126, 0);
    CHECK(parts.step({uneven.ids, Vector<const std::uint8_t>(none.data(), 126)}).skipped);
    CHECK(parts.unsupervised() == 1);
    CHECK(parts.rows() == 126);
    CHECK_THROWS_WITH_AS(parts.step(uneven.part(0, 2)), "windows: found 2 x 21, wanted 6 x 21, packed", Error);
  }
}

TEST_CASE(KIND ": windows are learnt from only where the mask says, and of another shape not at all") {
  auto whole = make<float>(), masked = make<float>(), none = make<float>();
  std::vector<index_t> ids;
  for (index_t i = 0; i < 63; ++i) ids.push_back(i * 5 % 47);
  const Matrix<const index_t> windows(ids.data(), 3, 21);
  const auto step = [&](auto& trainer, const std::vector<std::uint8_t>& mask) {
    return trainer.step({windows, Vector<const std::uint8_t>(mask.data(), static_cast<index_t>(mask.size()))});
  };
  std::vector<std::uint8_t> mask(63, 1);
  const auto all = step(whole, mask);
  CHECK(make<float>().step({windows}).grad_norm == all.grad_norm);
  std::fill(mask.begin() + 5, mask.end(), std::uint8_t{0});
  CHECK(step(masked, mask).grad_norm != all.grad_norm);
  const auto nothing = step(none, std::vector<std::uint8_t>(63, 0));
  CHECK(nothing.grad_norm == 0);
  CHECK(nothing.metrics.loss() == 0);
  CHECK(none.next_step() == 1);
  CHECK(same_parameters(none, make<float>()));  // an update would decay the weights
  CHECK(nothing.skipped);
  CHECK(none.unsupervised() == 1);
  mask.assign(63, 0);
  const auto seen = none.evaluate({windows, Vector<const std::uint8_t>(mask.data(), 63)});
  CHECK(seen.loss() == 0);
  CHECK(seen.accuracy().denominator == 0);
  CHECK_THROWS_WITH_AS(step(none, std::vector<std::uint8_t>(62, 1)), "windows: loss_mask: found 62, wanted 63 or none",
                       Error);
  CHECK_THROWS_WITH_AS(none.step({Matrix<const index_t>(ids.data(), 2, 21)}),
                       "windows: found 2 x 21, wanted 3 x 21, packed", Error);
}

TEST_CASE(KIND ": held-out text is only looked at, and always in the same way") {
  const Text text;
  auto a = make<float>(), b = make<float>();
  train(a, text.open(), 2);
  const auto seen = a.evaluate(text.open(), 3);
  CHECK(a.evaluate(text.open(), 3) == seen);
  train(a, text.open(), 4);
  train(b, text.open(), 4);
  CHECK(same_parameters(a, b));
  CHECK(a.evaluate(text.open(), 0).simulated_accept_length() == 1);
}

TEST_CASE(KIND ": blocks of held-out text stand elsewhere than those of a training step of the same number") {
  auto trainer = make<float>();
  std::vector<index_t> ids;
  for (index_t i = 0; i < 63; ++i) ids.push_back(i * 5 % 47);
  const TextWindows windows{Matrix<const index_t>(ids.data(), 3, 21)};
  const double looked_at = trainer.evaluate(windows, 0).loss();
  const double trained = trainer.step(windows).metrics.loss();  // the same weights
  CHECK((looked_at != trained) == (TrainerOf<float>::Draft::kind != DraftKind::eagle3));
}

TEST_CASE(KIND ": the number of steps may be fixed during warmup, and then the run is as if it always had been") {
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
  // Step 5 has the highest rate with any number of steps; step 6 is the first that has not.
  auto soon = make<float>();
  train(soon, text.open(), 6);
  CHECK_NOTHROW(soon.set_total_steps(50));
  train(soon, text.open(), 7);
  CHECK_THROWS_WITH_AS(soon.set_total_steps(60), "total steps: found 60 set after step 6, wanted set during warmup",
                       Error);
}

TEST_CASE(KIND ": a run can be given more steps, or fewer, but not fewer than it made") {
  const Text text;
  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  auto s = settings();
  s.schedule.total_steps = 8;
  auto run = make<float>(1, s);
  train(run, text.open(), 8);
  CHECK_THROWS_WITH_AS(run.change_total_steps(7), "total steps: found 7, wanted 8 or more, the steps made", Error);
  run.change_total_steps(12);
  s.schedule.total_steps = 12;
  CHECK(run.step(text.open()).lr == s.schedule(8));
  run.save(checkpoints);
  auto resumed = make<float>(2, s);
  resumed.resume(*checkpoints.latest());
  CHECK(train(run, text.open(), 12) == train(resumed, text.open(), 12));
  CHECK(same_parameters(run, resumed));
}

TEST_CASE_TEMPLATE(KIND ": a run that starts from a draft has its parameters, and all else anew", T, float, bfloat16) {
  const Text text;
  auto trained = make<T>(), fresh = make<T>();
  train(trained, text.open(), 4);
  const auto copy = [&] {
    Parameters<typename TrainerOf<T>::Draft, T> parameters;
    const auto from = trained.parameters().all();
    std::copy_n(from.data(), from.size(), parameters.all().data());
    return parameters;
  };
  auto s = settings();
  s.schedule.lr = 0;  // a step writes what the masters say
  auto run = make<T>(1, s);
  CHECK_FALSE(same_parameters(run, trained));
  run.start_from(copy());
  CHECK(same_parameters(run, trained));
  CHECK(run.next_step() == 0);
  CHECK(run.optimizer().steps() == 0);
  train(run, text.open(), 1);
  CHECK(same_parameters(run, trained));
  CHECK_THROWS_WITH_AS(run.start_from(copy()), "step: found 1, wanted 0, where a run can start from a draft", Error);
  auto broken = copy();
  broken.trainable()(3) = T(std::numeric_limits<float>::quiet_NaN());
  CHECK_THROWS_WITH_AS(fresh.start_from(std::move(broken)), doctest::Contains("element 3: found nan"), Error);
  CHECK(same_parameters(fresh, make<T>()));
}

namespace {

/// Calls f(frozen, values) for each tensor: whether it is one of the layers' MLPs, and its elements.
template <class Trainer, class F>
void for_tensors(const Trainer& trainer, F&& f) {
  const auto w = trainer.parameters().weights();
  Trainer::Draft::visit(w, Path{}, [&](const Path& at, const auto& view, auto init) {
    if constexpr (std::is_same_v<decltype(init), Init>) {
      f(at.str().find(".mlp.") != std::string::npos, std::vector(view.data(), view.data() + view.size()));
    }
  });
}

}  // namespace

TEST_CASE(KIND ": frozen tensors stay as they are, whatever the run began with, and a run goes on bit for bit") {
  const Text text;
  const test::TemporaryDirectory directory;
  auto other = make<float>();
  train(other, text.open(), 2);
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::muon}) {
    auto s = settings();
    s.optimizer_kind = kind, s.optimizer.weight_decay = 0.5, s.freeze = {"*.mlp.*"};
    auto run = make<float>(1, s), resumed = make<float>(2, s);
    Parameters<typename TrainerOf<float>::Draft, float> begun;
    std::copy_n(other.parameters().all().data(), other.parameters().all().size(), begun.all().data());
    run.start_from(std::move(begun));
    train(run, text.open(), 2);
    CheckpointDirectory checkpoints(directory / std::to_string(static_cast<int>(kind)));
    run.save(checkpoints);
    resumed.resume(*checkpoints.latest());
    const auto file = text.open();
    run.step(file), resumed.step(file);
    const long before = allocations();
    run.step(file);
    CHECK(allocations() == before);
    resumed.step(file);
    CHECK(same_parameters(run, resumed));
    std::vector<std::vector<float>> first;
    for_tensors(other, [&](bool, const auto& values) { first.push_back(values); });
    std::size_t i = 0, frozen = 0;
    for_tensors(run, [&](bool stays, const auto& values) {
      CAPTURE(i);
      CHECK((std::memcmp(values.data(), first[i].data(), values.size() * sizeof(float)) == 0) == stays);
      ++i, frozen += stays ? 1U : 0U;
    });
    CHECK(frozen >= 3);
    CHECK_THROWS_WITH_AS(
        TrainerOf<float>::check_resume(*checkpoints.latest(), Kind::template setup<float>(), settings()),
        doctest::Contains("trainer.json: settings"), Error);
  }
  auto s = settings();
  s.freeze = {"*.mpl.*"};
  CHECK_THROWS_WITH_AS(TrainerOf<float>::check(Kind::template setup<float>(), s),
                       doctest::Contains("freeze: found '*.mpl.*', no tensor's name, wanted "), Error);
}

namespace {

/// Lengths of the pieces of a row that end behind each newline.
std::vector<index_t> lengths_of(const Matrix<const index_t>& ids) {
  std::vector<index_t> lens(static_cast<std::size_t>(ids.size()));
  for (index_t r = 0; r < ids.extent(0); ++r) {
    index_t* at = lens.data() + r * ids.extent(1);
    for (index_t t = 0; t < ids.extent(1); ++t) {
      ++*at;
      if (ids(r, t) == 10) ++at;
    }
  }
  return lens;
}

}  // namespace

TEST_CASE(KIND ": packed windows are cut behind newlines, the packing alone decides, and a run goes on bit for bit") {
  const Text text;
  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  auto s = settings();
  s.packing = Packing::apart;
  auto plain = make<float>(), packed = make<float>(1, s), given = make<float>(2, s), resumed = make<float>(1, s);
  auto seen = settings();
  seen.packing = Packing::none;
  TextCutter cutter(seen);
  const Matrix<const index_t> windows = cutter.of_step(text.open(), 0).ids;
  const auto lens = lengths_of(windows);
  REQUIRE(std::count(windows.data(), windows.data() + 63, 10) > 0);
  const Matrix<const index_t> seq_lens(lens.data(), 3, 21);
  const auto of_text = packed.step(text.open()).grad_norm;
  CHECK(given.step({windows, {}, seq_lens}).grad_norm == of_text);
  CHECK(plain.step({windows}).grad_norm != of_text);
  packed.save(checkpoints);
  resumed.resume(*checkpoints.latest());
  train(packed, text.open(), 4), train(resumed, text.open(), 4);
  CHECK(same_parameters(packed, resumed));
  CHECK_THROWS_WITH_AS(plain.resume(*checkpoints.latest()), doctest::Contains("trainer.json: settings"), Error);
  CHECK(packed.evaluate(text.open(), 2) == resumed.evaluate(text.open(), 2));
  const auto file = text.open();
  const long before = allocations();
  for (int i = 0; i < 3; ++i) packed.step(file);
  CHECK(allocations() == before);
  CHECK_THROWS_WITH_AS(plain.step({windows, {}, seq_lens}),
                       "windows: seq_lens: found documents, wanted none, or packing apart", Error);
}
