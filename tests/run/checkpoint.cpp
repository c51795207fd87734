#include <k3spec/run/trainer_checkpoint.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/io/draft_checkpoint.hpp>

#include "tests/support/poke.hpp"
#include "tests/support/temporary.hpp"

using namespace k3spec;

namespace {

struct Model {
  static constexpr index_t draft_vocabulary = 3, vocabulary = 6;
  template <class T>
  struct Weights {
    View<T, 6, 4> embed;
    View<T, 3, 4> head;
    View<T, 5> norm;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "model" / "embed_tokens" / "weight", w.embed, Frozen{Init::normal});
    v(at / "lm_head" / "weight", w.head, Init::normal);
    v(at / "model" / "norm" / "weight", w.norm, Init::ones);
  }
};

TrainSettings settings() {
  TrainSettings s;
  s.schedule = {.lr = 1.0 / 3, .warmup_steps = 2, .total_steps = 40, .min_lr_ratio = 0.1};
  s.optimizer.weight_decay = 0.01;
  s.seed = 0xfedcba9876543210U;
  return s;
}

/// A run whose gradient is a function of weights and step, so that every bit of the state matters.
template <class T>
struct Run {
  Parameters<Model, T> parameters;
  Gradients<Model, T> gradients;
  TrainerProgress progress{settings(), 0};
  DraftVocabulary vocabulary{std::vector<index_t>{0, 2, 5}, 6};
  AdamW<Model, T> optimizer{progress.settings.optimizer, (parameters.initialize(1), parameters)};

  void train(index_t until) {
    for (; progress.next_step < until; ++progress.next_step) {
      draw_gradients();
      if (progress.next_step == 7) gradients.weights().norm(0) = std::numeric_limits<accumulate_t<T>>::infinity();
      optimizer.step(Cpu{}, progress.settings.schedule(progress.next_step), parameters, gradients);
    }
  }
  void draw_gradients() {
    const auto w = parameters.weights();
    const auto d = gradients.weights();
    const Philox random(9, static_cast<std::uint64_t>(progress.next_step));
    std::uint64_t index = 0;
    const auto draw = [&](const auto& weight, const auto& gradient) {
      for (index_t i = 0; i < weight.size(); ++i) {
        const double x = static_cast<double>(weight.data()[i]) + 0.1 * random.normal(index++);
        gradient.data()[i] = static_cast<accumulate_t<T>>(x);
      }
    };
    draw(w.head, d.head);
    draw(w.norm, d.norm);
  }
  void save(const std::filesystem::path& at) {
    save_draft(at, parameters, vocabulary, io::json::object(), step_metadata(progress.next_step));
    save_trainer(at, optimizer, progress);
  }
  void load(const std::filesystem::path& at) {
    load_draft(at, parameters);
    load_trainer(at, optimizer);
    progress = read_trainer_progress(at);
  }
};

/// The bytes of both safetensors files and the counts.
std::vector<std::string> files(const std::filesystem::path& at) {
  std::vector<std::string> all;
  for (const char* name : {"model.safetensors", "config.json", "trainer.safetensors", "trainer.json"}) {
    all.push_back(test::contents(at / name));
    CHECK_FALSE(all.back().empty());
  }
  return all;
}

template <class T>
void check_resume() {
  const test::TemporaryDirectory directory;
  CheckpointDirectory unbroken(directory / "unbroken"), broken(directory / "broken");
  Run<T> whole, first, second;
  whole.train(40);
  unbroken.save(40, [&](const auto& at) { whole.save(at); });
  first.train(20);
  broken.save(20, [&](const auto& at) { first.save(at); });
  second.load(*broken.latest());
  CHECK(second.progress.next_step == 20);
  CHECK(second.optimizer.steps() == 19);
  CHECK(second.optimizer.skipped() == 1);
  second.train(40);
  broken.save(40, [&](const auto& at) { second.save(at); });
  CHECK(files(*unbroken.latest()) == files(*broken.latest()));
}

/// A saved run of 9 steps, one of them skipped, whose trainer.json is changed. \param field  its dotted name
void refuse(const char* field, const io::json& value, const char* message) {
  CAPTURE(field);
  CAPTURE(value.dump());
  const test::TemporaryDirectory directory;
  Run<float> run;
  run.train(9);
  run.save(directory.path());
  const auto file = directory / "trainer.json";
  auto j = io::parse_json(test::contents(file), "test");
  io::detail::set_field(j, field, value);
  test::write(file, j.dump());
  CHECK_THROWS_WITH_AS(run.load(directory.path()), doctest::Contains(message), Error);
}

}  // namespace

TEST_CASE("20 steps, resumed, and 20 more are 40 unbroken ones, bit for bit") {
  check_resume<float>();
  check_resume<double>();
  check_resume<bfloat16>();
}

TEST_CASE("settings come back exactly") {
  // Each with a number of its own, so that none is written or read in another's place.
  TrainSettings s;
  s.batch = 2, s.accumulate = 3, s.length = 14, s.ttt_steps = 6, s.anchors = 7;
  s.lk = LkLoss::lambda, s.lk_kl_scale = 0.25, s.lk_kl_decay = 1.5;
  s.fc_init = FcInit::last_identity, s.packing = Packing::apart, s.sampling = WindowSampling::packed;
  s.gamma = 3.5, s.variable_prefix = true, s.prefix_base = 0.75;
  s.ce_alpha = 0.125, s.l1_alpha = 0.5, s.confidence_alpha = 2.5, s.markov_deviation = 4.5;
  s.seed = 0xfedcba9876543210U;
  s.schedule = {.lr = 1.0 / 3, .warmup_steps = 8, .total_steps = 40, .min_lr_ratio = 0.1};
  s.optimizer = {.beta1 = 0.8, .beta2 = 0.85, .eps = 1e-7, .weight_decay = 0.01, .max_grad_norm = 5.5};
  s.optimizer.max_skipped_in_a_row = 9;
  s.optimizer_kind = OptimizerKind::muon, s.muon = {.momentum = 0.7, .scale = MuonScale::original};
  s.ema = 0.995;
  s.freeze = {"fc.*", "a\"b"};
  const auto j = settings_json(s);
  std::size_t named = 0;
  const auto is = [&](const char* name, const auto& value) {
    CAPTURE(name);
    CHECK(j[name] == io::json(value));
    ++named;
  };
  is("batch", 2), is("accumulate", 3), is("length", 14), is("ttt_steps", 6), is("anchors", 7);
  is("lk", "lambda"), is("lk_kl_scale", 0.25), is("lk_kl_decay", 1.5);
  is("fc_init", "last_identity"), is("packing", "apart"), is("sampling", "packed");
  is("gamma", 3.5), is("variable_prefix", true), is("prefix_base", 0.75);
  is("ce_alpha", 0.125), is("l1_alpha", 0.5), is("confidence_alpha", 2.5), is("markov_deviation", 4.5);
  is("seed", std::uint64_t{0xfedcba9876543210U});
  is("lr", 1.0 / 3), is("warmup_steps", 8), is("total_steps", 40), is("min_lr_ratio", 0.1);
  is("beta1", 0.8), is("beta2", 0.85), is("eps", 1e-7), is("weight_decay", 0.01), is("max_grad_norm", 5.5);
  is("max_skipped_in_a_row", 9);
  is("optimizer", "muon"), is("muon_momentum", 0.7), is("muon_scale", "original");
  is("ema", 0.995), is("freeze", s.freeze);
  CHECK(j.size() == named);
  CHECK(settings_json(settings_from_json(io::parse_json(j.dump(), "test"), "test")) == j);
}

TEST_CASE("a trainer's file that does not fit is refused") {
  for (const int old : {1, 2, 3}) {
    const std::string message = "trainer.json: format: found " + std::to_string(old) +
                                ", wanted 4: a run of an older version does not say which target and text";
    refuse("format", old, message.c_str());
  }
  refuse("format", 5, "trainer.json: format: found 5, wanted 4: it was written by a newer version");
  refuse("next_step", -1, "trainer.json: next_step: found -1, wanted a count");
  refuse("skipped", "x", "trainer.json: skipped: found \"x\", wanted a count");
  refuse("settings.lr", "x", "trainer.json: settings: lr");
  refuse("settings.batch", 0, "batch: found 0, wanted at least 1");
  refuse("settings", nullptr, "trainer.json: settings");
}

TEST_CASE("counts that no run can have are refused") {
  constexpr index_t most = std::numeric_limits<index_t>::max(), half = index_t{1} << 62;
  for (const index_t count : {most, half, index_t{1000}, index_t{10}}) {
    for (const char* name : {"optimizer_steps", "skipped", "unsupervised"}) {
      const std::string message =
          std::string(name) + ": found " + std::to_string(count) + ", wanted at most 9, the steps made";
      refuse(name, count, message.c_str());
    }
  }
  refuse("optimizer_steps", 0, "optimizer_steps + skipped + unsupervised: found 1, wanted 9, next_step");
  refuse("optimizer_steps", 9, "optimizer_steps + skipped + unsupervised: found 10, wanted 9, next_step");
  refuse("skipped", 0, "optimizer_steps + skipped + unsupervised: found 8, wanted 9, next_step");
  refuse("unsupervised", 1, "optimizer_steps + skipped + unsupervised: found 10, wanted 9, next_step");
  refuse("next_step", most, "next_step: found 9223372036854775807, wanted at most 4294967296");
  refuse("next_step", half, "next_step: found 4611686018427387904, wanted at most 4294967296");
  refuse("next_step", std::numeric_limits<std::uint64_t>::max(), "next_step: found 18446744073709551615");
  refuse("next_step", 0, "optimizer_steps: found 8, wanted at most 0, the steps made");
  refuse("next_step", 1000, "optimizer_steps + skipped + unsupervised: found 9, wanted 1000, next_step");
  refuse("skipped_in_a_row", 2, "skipped_in_a_row: found 2, wanted at most 1, the steps skipped");
}

TEST_CASE("steps skipped in a row come back") {
  const test::TemporaryDirectory directory;
  Run<float> saved, run;
  saved.train(8);  // the eighth is skipped
  REQUIRE(saved.optimizer.skipped_in_a_row() == 1);
  saved.save(directory.path());
  run.load(directory.path());
  CHECK(run.optimizer.skipped_in_a_row() == 1);
}

TEST_CASE("moments that no run can have are refused, and the optimizer stays as it was") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto refuse_moment = [](const char* tensor, std::size_t at, float value, const char* message) {
    const test::TemporaryDirectory directory;
    Run<float> saved, run;
    saved.train(3);
    saved.save(directory.path());
    test::poke(directory / "trainer.safetensors", tensor, at, value);
    CHECK_THROWS_WITH_AS(load_trainer(directory.path(), run.optimizer), doctest::Contains(message), Error);
    CHECK(run.optimizer.first_moments().head(0, 0) == 0);
    CHECK(run.optimizer.steps() == 0);
  };
  refuse_moment("first_moment.lm_head.weight", 11, nan,
                "'first_moment.lm_head.weight': element 11: found nan, wanted a finite number");
  refuse_moment("first_moment.model.norm.weight", 0, -inf,
                "'first_moment.model.norm.weight': element 0: found -inf, wanted a finite number");
  refuse_moment("second_moment.model.norm.weight", 4, inf,
                "'second_moment.model.norm.weight': element 4: found inf, wanted a finite number >= 0");
  refuse_moment(
      "second_moment.lm_head.weight", 5, -1e-30F,
      "'second_moment.lm_head.weight': element 5: found -1.0000000031710769e-30, wanted a finite number >= 0");
}

TEST_CASE("what a run learns from comes back, and must be there") {
  const Fingerprint a{0x0123456789abcdefU}, b{7}, c{0xf000000000000000U};
  for (const auto& data : {std::optional<DataFingerprints>(), std::optional(DataFingerprints{b, c})}) {
    const RunSources sources{a, data};
    const auto back = RunSources::from_json(io::parse_json(sources.to_json().dump(), "test"), "test");
    CHECK(back.target == a);
    CHECK(back.data == data);
  }
  refuse("sources", nullptr, "trainer.json: sources: target: found nothing, wanted a fingerprint");
  refuse("sources.target", nullptr, "trainer.json: sources: target: found null, wanted 16 hexadecimal digits");
  refuse("heldout.looks_since", -1, "trainer.json: heldout: looks_since: found -1, wanted a count");
  refuse("heldout.best_look", 0.5,
         "trainer.json: heldout: best_look: found 0.5, wanted a number of at least 1, or null");
  refuse("sources.training_text", "0123456789abcdeX", "sources: training_text: found \"0123456789abcdeX\"");
  refuse("sources.training_text", "0123456789abcdef", "sources: heldout_text: found null");
}

TEST_CASE("other bytes have another fingerprint, on any number of threads") {
  const auto of = [](const std::vector<std::byte>& bytes, int threads = 1) {
    return fingerprint(Cpu{threads}, bytes).bits;
  };
  std::vector<std::byte> bytes(77);
  std::vector<std::uint64_t> all{of(bytes), of({}), of(std::vector<std::byte>(78)), of(std::vector<std::byte>(1))};
  for (auto& byte : bytes) {
    for (const int bit : {1, 128}) {
      byte ^= std::byte(bit);
      all.push_back(of(bytes));
      byte ^= std::byte(bit);
    }
  }
  // Of a tensor each number counts, the last one too.
  std::vector<float> numbers(77, 1);
  const auto of_tensor = [&] {
    return host_fingerprint(Cpu{2}, Vector<const float>(numbers.data(), static_cast<index_t>(numbers.size()))).bits;
  };
  for (float& number : numbers) {
    number = 2;
    all.push_back(of_tensor());
    number = 1;
  }
  // The signs of two numbers.
  for (const std::size_t other : {15U, 39U, 71U}) {
    bytes[7] ^= std::byte{128}, bytes[other] ^= std::byte{128};
    all.push_back(of(bytes));
    bytes[7] ^= std::byte{128}, bytes[other] ^= std::byte{128};
  }
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  std::vector<std::byte> long_one((std::size_t{5} << 19U) + 3);
  for (std::size_t i = 0; i < long_one.size(); ++i) long_one[i] = static_cast<std::byte>(i * i >> 3U);
  const auto whole = of(long_one);
  CHECK(of(long_one, 3) == whole);
  std::rotate(long_one.begin(), long_one.begin() + (1 << 20), long_one.end());
  CHECK(of(long_one) != whole);
}

TEST_CASE("a run in another precision is another run") {
  const test::TemporaryDirectory directory;
  Run<double> saved;
  saved.save(directory.path());
  Run<float> run;
  const double moment = run.optimizer.first_moments().head(0, 0);
  CHECK_THROWS_WITH_AS(load_trainer(directory.path(), run.optimizer),
                       doctest::Contains("'first_moment.lm_head.weight': found F64, wanted F32"), Error);
  Run<bfloat16> with_masters;
  run.save(directory.path());
  CHECK_THROWS_WITH_AS(load_trainer(directory.path(), with_masters.optimizer),
                       doctest::Contains("'master.lm_head.weight': found no such tensor"), Error);
  CHECK(run.optimizer.first_moments().head(0, 0) == moment);
}

TEST_CASE("no clipping and a number of steps not fixed yet come back, too") {
  auto s = settings();
  s.optimizer.max_grad_norm = std::numeric_limits<double>::infinity();
  s.schedule.total_steps = WarmupCosine::open;
  const auto j = io::parse_json(settings_json(s).dump(), "test");
  CHECK(j["max_grad_norm"] == "infinity");
  CHECK(j["total_steps"] == nullptr);
  const auto back = settings_from_json(j, "test");
  CHECK(back.optimizer.max_grad_norm == s.optimizer.max_grad_norm);
  CHECK(back.schedule.total_steps == WarmupCosine::open);
  CHECK(settings_json(back) == settings_json(s));
}

TEST_CASE("settings of another type are refused by name, not converted") {
  const auto refuse_setting = [](const char* name, const char* value, const char* message) {
    auto j = settings_json(settings());
    j[name] = io::parse_json(value, "test");
    CHECK_THROWS_WITH_AS(settings_from_json(j, "file"), doctest::Contains(message), Error);
  };
  refuse_setting("batch", "8.9", "file: batch: found 8.9, wanted an integer");
  refuse_setting("batch", "true", "file: batch: found true");
  refuse_setting("length", "9223372036854775808", "file: length: found 9223372036854775808, wanted an integer");
  refuse_setting("seed", "-1", "file: seed: found -1, wanted an integer of 0 to 2^64 - 1");
  refuse_setting("seed", "1.0", "file: seed: found 1.0");
  refuse_setting("total_steps", "1e300", "file: total_steps: found 1e+300, wanted an integer");
  refuse_setting("total_steps", "9223372036854775807", "file: total_steps: found 9223372036854775807, wanted a number");
  refuse_setting("lr", "null", "file: lr: found null, wanted a number");
  refuse_setting("max_grad_norm", "null", "file: max_grad_norm: found null");
  refuse_setting("max_grad_norm", "\"none\"", "file: max_grad_norm: found \"none\"");
  refuse_setting("max_skipped_in_a_row", "1e3", "file: max_skipped_in_a_row");
  refuse_setting("ttt_steps", "0", "file: ttt_steps: found 0, wanted 1 to 16");
  refuse_setting("lk", "\"beta\"", "file: lk: found \"beta\", wanted none or alpha or lambda");
  refuse_setting("lk", "1", "file: lk: found 1, wanted none or alpha or lambda");
  refuse_setting("lk_kl_scale", "1.5", "file: lk_kl_scale: found 1.5, wanted 0 to 1");
  refuse_setting("lk_kl_scale", "\"infinity\"", "file: lk_kl_scale: found \"infinity\", wanted a number");
  refuse_setting("lk_kl_decay", "-1", "file: lk_kl_decay: found -1, wanted a number >= 0");
  refuse_setting("fc_init", "\"identity\"", "file: fc_init: found \"identity\", wanted normal or last_identity");
  refuse_setting("packing", "\"on\"", "file: packing: found \"on\", wanted none or apart or through_target");
  refuse_setting(
      "packing", "\"through_target\"",
      "file: packing: found through_target, wanted none or apart: Kimi K3's recurrent layers carry their state "
      "over a document's end");
  refuse_setting("freeze", "\"fc.*\"", "file: freeze: found \"fc.*\", wanted a list of texts");
  refuse_setting("freeze", "null", "file: freeze: found null, wanted a list of texts");
  refuse_setting("freeze", "[\"fc.*\", 1]", "file: freeze: found 1, wanted a text");
  refuse_setting("ema", "1", "file: ema: found 1, wanted more than 0, below 1");
  refuse_setting("ema", "0", "file: ema: found 0, wanted more than 0, below 1");
  refuse_setting("ema", "\"0.9\"", "file: ema: found \"0.9\", wanted a number");
  auto j = settings_json(settings());
  CHECK(j["ema"] == nullptr);
  CHECK_FALSE(settings_from_json(j, "file").ema.has_value());
  j.erase("freeze"), j.erase("ema");  // of a checkpoint made before there was any
  CHECK(settings_from_json(j, "file").freeze.empty());
  CHECK_FALSE(settings_from_json(j, "file").ema.has_value());
  j.erase("eps");
  CHECK_THROWS_WITH_AS(settings_from_json(j, "file"), doctest::Contains("file: eps: found nothing"), Error);
}

TEST_CASE("a step of more tokens than can be counted is refused") {
  auto s = settings();
  s.batch = 4611686018427387905;  // times 4 is 4, modulo 2^64
  s.length = 4;
  CHECK_THROWS_WITH_AS(
      s.check(), "batch and length: found 4611686018427387905 windows of 4, wanted at most 2147483647 tokens a step",
      Error);
}
