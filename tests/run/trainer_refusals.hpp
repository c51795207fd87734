#pragma once
/// \file
/// What a trainer must refuse with a draft of any kind. To be included behind trainer_cases.hpp; of the same Kind:
///
///     // The setup's layers in messages, and the first there can be.
///     static constexpr const char *layers_of_setup = "aux layer", *first_layer = "0";
///     static std::vector<std::pair<void (*)(TrainSettings&), const char*>> refused_settings();  // with messages
/// defines: test cases

#include <limits>

#include "tests/run/trainer_cases.hpp"
#include "tests/support/poke.hpp"

TEST_CASE(KIND ": a step that fails is still to be made") {
  const Text text;
  auto whole = make<float>(), failing = make<float>();
  std::vector<index_t> ids(63, 1);
  ids[40] = 1000;
  const auto fail = [&] {
    CHECK_THROWS_AS(failing.step({Matrix<const index_t>(ids.data(), 3, 21)}), Error);
    CHECK_THROWS_AS(failing.step({Matrix<const index_t>(ids.data(), 2, 21)}), Error);
  };
  fail();
  CHECK(failing.next_step() == 0);
  auto numbers = train(failing, text.open(), 2);
  fail();
  CHECK(failing.next_step() == 2);
  CHECK(failing.unsupervised() == 0);
  for (const double x : train(failing, text.open(), 4)) numbers.push_back(x);
  CHECK(numbers == train(whole, text.open(), 4));
  CHECK(same_parameters(failing, whole));
}

TEST_CASE(KIND ": a checkpoint of another run is refused, and the trainer stays as it was") {
  const Text text;
  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  auto saved = make<float>();
  train(saved, text.open(), 2);
  saved.save(checkpoints);
  const auto at = *checkpoints.latest();
  const auto refuse = [&](typename TrainerOf<float>::Setup setup, const TrainSettings& s, const std::string& message) {
    CHECK_THROWS_WITH_AS(TrainerOf<float>::check_resume(at, setup, s), doctest::Contains(message.c_str()), Error);
    TrainerOf<float> trainer(Cpu{}, test::small_target<float>(), std::move(setup), s);
    CHECK_THROWS_WITH_AS(trainer.resume(at), doctest::Contains(message.c_str()), Error);
    CHECK(trainer.next_step() == 0);
  };
  CHECK(TrainerOf<float>::check_resume(at, Kind::setup<float>(), settings()).next_step == 2);
  auto other = settings();
  other.optimizer.beta2 = 0.9;
  refuse(Kind::setup<float>(), other, "trainer.json: settings");
  auto setup = Kind::setup<float>();
  setup.layer_ids = {0, 2, 4};
  refuse(std::move(setup), settings(), std::string(Kind::layers) + ": found [1,2,4], wanted [0,2,4]");
  setup = Kind::setup<float>();
  setup.conventions.layer_ids = LayerIds::layers_executed;
  refuse(std::move(setup), settings(), "layer_ids: found \"after_layer_0\", wanted \"layers_executed\"");
  auto config = io::read_json(at / "config.json");
  config["hidden_size"] = 28;
  test::write(at / "config.json", config.dump());
  refuse(Kind::setup<float>(), settings(), "hidden_size: found 28, wanted 27");
}

TEST_CASE(KIND ": another text is taken only when told so, another target never") {
  const Text text(100), other(101);
  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  const auto data = [](const Text& training, const Text& held_out) {
    return DataFingerprints::of(Cpu{}, training.open(), held_out.open(), Packing::none);
  };
  auto saved = make<float>(), resumed = make<float>();
  saved.set_data(data(text, text));
  train(saved, text.open(), 2);
  saved.save(checkpoints);
  const auto at = *checkpoints.latest();
  const auto refuse = [&](const std::optional<DataFingerprints>& own, const char* message) {
    CHECK_THROWS_WITH_AS(TrainerOf<float>::check_resume(at, Kind::setup<float>(), settings(), own),
                         doctest::Contains(message), Error);
    if (own) resumed.set_data(*own);
    CHECK_THROWS_WITH_AS(resumed.resume(at), doctest::Contains(message), Error);
    CHECK(resumed.next_step() == 0);
  };
  refuse({}, "trainer.json: training_text: found ");
  refuse(data(other, text), "trainer.json: training_text: found ");
  refuse(data(text, other), "trainer.json: heldout_text: found ");
  resumed.resume(at, OtherData::take);
  resumed.save(checkpoints);
  saved.set_data(data(text, other));
  CHECK_NOTHROW(saved.resume(*checkpoints.latest()));

  auto weights = test::small_target<float>();
  weights.mutable_weights().embed_tokens(2, 3) *= 1.0000002F;
  TrainerOf<float> changed(Cpu{2}, std::move(weights), Kind::setup<float>(), settings());
  changed.set_data(data(text, text));
  CHECK_THROWS_WITH_AS(changed.resume(*checkpoints.latest(), OtherData::take),
                       doctest::Contains("trainer.json: target: found "), Error);
  CHECK(changed.next_step() == 0);
  weights = test::small_target<float>();
  weights.mutable_weights().norm(1) = std::numeric_limits<float>::infinity();
  CHECK_THROWS_WITH_AS(TrainerOf<float>(Cpu{}, std::move(weights), Kind::setup<float>(), settings()),
                       "target: 'model.norm.weight': element 1: found inf, wanted a finite number", Error);
}

TEST_CASE(KIND ": files of two steps are no checkpoint") {
  const Text text(100);
  const test::TemporaryDirectory directory;
  auto run = make<float>(), resumed = make<float>();
  std::vector<std::filesystem::path> steps;
  for (const char* name : {"a", "b", "c"}) {
    CheckpointDirectory checkpoints(directory / name);
    run.save(checkpoints);
    steps.push_back(*checkpoints.latest());
    if (name[0] == 'a') run.step(text.open());
  }
  const auto refuse = [&](std::size_t at, const char* file, const std::string& message) {
    std::filesystem::copy_file(steps[0] / file, steps[at] / file, std::filesystem::copy_options::overwrite_existing);
    CHECK_THROWS_WITH_AS(resumed.resume(steps[at]), doctest::Contains((file + message).c_str()), Error);
    CHECK(resumed.next_step() == 0);
  };
  refuse(1, "model.safetensors", ": step: found 0, wanted 1, as in trainer.json");
  refuse(2, "trainer.safetensors", ": step: found 0, wanted 1, as in trainer.json");
}

TEST_CASE(KIND ": what is not finite is neither saved nor resumed") {
  const Text text(100);
  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory.path());
  auto s = settings();
  s.schedule = {.lr = 1e39, .warmup_steps = 2, .total_steps = 4};
  auto run = make<float>(1, s);
  train(run, text.open(), 1);  // parameters of up to 5e38, more than a float can hold
  CHECK_THROWS_WITH_AS(run.save(checkpoints), doctest::Contains("wanted a finite number"), Error);
  CHECK_FALSE(checkpoints.latest().has_value());
  auto good = make<float>(), resumed = make<float>();
  good.save(checkpoints);
  const auto file = *checkpoints.latest() / "model.safetensors";
  std::string tensor;
  const auto opened = io::SafetensorsFile::open(file);
  for (const auto& [name, info] : opened.tensors()) {
    if (info.dtype == DType::F32) tensor = name;
  }
  test::poke(file, tensor, 1, std::numeric_limits<float>::quiet_NaN());
  const std::string message = file.string() + ": '" + tensor + "': element 1: found nan, wanted a finite number";
  CHECK_THROWS_WITH_AS(resumed.resume(*checkpoints.latest()), message.c_str(), Error);
  CHECK(same_parameters(resumed, good));
}

TEST_CASE(KIND ": what cannot be is refused before there is a target") {
  const auto refuse_setup = [](auto change, const std::string& message) {
    auto setup = Kind::setup<float>();
    change(setup);
    CHECK_THROWS_WITH_AS(TrainerOf<float>::check(setup, settings()), message.c_str(), Error);
    CHECK_THROWS_WITH_AS(TrainerOf<float>(Cpu{}, test::small_target<float>(), std::move(setup), settings()),
                         message.c_str(), Error);
  };
  const auto layers = [&](std::vector<index_t> ids, const std::string& message) {
    refuse_setup([&](auto& setup) { setup.layer_ids = ids; }, message);
  };
  TrainerOf<float>::check(Kind::setup<float>(), settings());
  layers({1, 2}, std::string(Kind::layers_of_setup) + "s: found 2, wanted 3");
  layers({4, 2, 4}, std::string(Kind::layers_of_setup) + " id: found 4 more than once, wanted different layers");
  layers({1, 2, 6}, std::string(Kind::layers_of_setup) + " id: found 6, wanted " + Kind::first_layer +
                        " to 5, counted as after_layer_0");
  const auto refuse = [](auto change, const char* message) {
    auto s = settings();
    change(s);
    CHECK_THROWS_WITH_AS(TrainerOf<float>::check(Kind::setup<float>(), s), message, Error);
    CHECK_THROWS_WITH_AS(make<float>(1, s), message, Error);
  };
  refuse([](TrainSettings& s) { s.batch = 0; }, "batch: found 0, wanted at least 1");
  refuse([](TrainSettings& s) { s.accumulate = 0; }, "accumulate: found 0, wanted at least 1");
  refuse([](TrainSettings& s) { s.accumulate = 34087043; },
         "accumulate: found 34087043 batches of 63 tokens, wanted at most 2147483647 tokens a step");
  refuse([](TrainSettings& s) { s.length = 1; }, "length: found 1, wanted at least 2");
  refuse([](TrainSettings& s) { s.lk_kl_scale = 2; }, "lk_kl_scale: found 2, wanted 0 to 1");
  refuse([](TrainSettings& s) { s.packing = Packing::through_target; },
         "packing: found through_target, wanted none or apart: Kimi K3's recurrent layers carry their state over a "
         "document's end");
  for (const auto& [change, message] : Kind::refused_settings()) refuse(change, message);
}

TEST_CASE(KIND ": documents that do not fill their windows are refused by name") {
  auto s = settings();
  s.packing = Packing::apart;
  auto trainer = make<float>(1, s);
  std::vector<index_t> ids(63, 1), lens{21, 0, 10, 11, 9, 12};
  const auto step = [&](index_t rows) {
    return trainer.step({Matrix<const index_t>(ids.data(), 3, 21), {}, Matrix<const index_t>(lens.data(), rows, 2)});
  };
  step(3);
  CHECK_THROWS_WITH_AS(step(2), "windows: seq_lens: found 2 rows, wanted 3", Error);
  lens[3] = 10;
  CHECK_THROWS_WITH_AS(step(3), "documents of row 1: found 20 tokens, wanted 21", Error);
  lens[3] = 12;
  CHECK_THROWS_WITH_AS(step(3), "documents of row 1: found 22 tokens, wanted 21", Error);
  lens[2] = 22, lens[3] = -1;
  CHECK_THROWS_WITH_AS(step(3), "documents of row 1: length of document 1: found -1, wanted 0 or more", Error);
  lens[2] = lens[3] = std::numeric_limits<index_t>::max();
  CHECK_THROWS_WITH_AS(step(3), "documents of row 1: found 9223372036854775807 tokens, wanted 21", Error);
}
