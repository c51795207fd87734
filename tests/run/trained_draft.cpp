// What training moves, in memory that the host cannot read: the same bits as on the host, and the same files.
#include <k3spec/run/trained_draft.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/drafts/eagle3_draft.hpp>

#include <tests/support/far_device.hpp>

#include "tests/support/small_target.hpp"
#include "tests/support/temporary.hpp"

using namespace k3spec;

namespace {

using Draft = Eagle3Draft<test::SmallTarget>;

DraftVocabulary vocabulary() {
  std::vector<index_t> ids;
  for (index_t i = 0; i < Draft::draft_vocabulary; ++i) ids.push_back(2 + 2 * i);
  return DraftVocabulary(ids, Draft::vocabulary);
}

template <class T, class D>
TrainedDraft<Draft, T, D> fresh(const D& device, std::uint64_t seed, OptimizerKind kind = OptimizerKind::adamw,
                                std::optional<double> ema = {}) {
  Parameters<Draft, T> parameters;
  parameters.initialize(seed);
  TrainSettings settings;
  settings.optimizer.weight_decay = 0.1, settings.optimizer_kind = kind, settings.ema = ema;
  return {device, settings, std::move(parameters)};
}

/// An update by gradients that `seed` draws, beside those of nothing.
template <class T, class D>
double update(const D& device, TrainedDraft<Draft, T, D>& draft, std::uint64_t seed) {
  using S = accumulate_t<T>;
  Buffer<S> g(trainable_slots<Draft>);
  draft.zero_gradients(device);
  download<S>(device, draft.gradients().flat(), Vector<S>(g.data(), g.size()));
  for (index_t i = 0; i < g.size(); ++i) g[i] += static_cast<S>(Philox(seed).normal(static_cast<std::uint64_t>(i)));
  upload<S>(device, Vector<const S>(g.data(), g.size()), draft.gradients().flat());
  return draft.update(device, 1e-2).grad_norm;
}

template <class T, class D>
std::string saved(const D& device, TrainedDraft<Draft, T, D>& draft, const std::filesystem::path& at) {
  std::filesystem::create_directories(at);
  draft.save(device, [&](const auto& weights, AdamW<Draft, T>& optimizer, auto tensors) {
    save_draft<Draft>(at, weights, vocabulary(), io::json::object());
    TrainerProgress progress;
    progress.next_step = optimizer.steps();
    save_trainer(at, optimizer, progress, std::move(tensors));
  });
  std::string all;
  for (const char* name : {"model.safetensors", "trainer.safetensors", "trainer.json"})
    all += test::contents(at / name);
  return all;
}

/// The files of a draft after two updates, and of one that goes on from them.
template <class T, class D>
std::vector<std::string> run(const D& device, OptimizerKind kind = OptimizerKind::adamw,
                             std::optional<double> ema = {}) {
  const test::TemporaryDirectory directory;
  auto draft = fresh<T>(device, 1, kind, ema);
  std::vector<std::string> all{saved(device, draft, directory / "fresh")};
  for (const std::uint64_t seed : {1, 2}) all.push_back(std::to_string(update(device, draft, seed)));
  all.push_back(saved(device, draft, directory / "two"));
  auto other = fresh<T>(device, 2, kind, ema);
  other.load(device, directory / "two");
  CHECK(other.optimizer().steps() == 2);
  CHECK(saved(device, other, directory / "loaded") == all.back());
  update(device, draft, 3), update(device, other, 3);
  all.push_back(saved(device, draft, directory / "three"));
  CHECK(saved(device, other, directory / "resumed") == all.back());
  Parameters<Draft, T> given;
  given.initialize(5);
  other.replace(device, std::move(given));
  all.push_back(saved(device, other, directory / "replaced"));
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("a draft is trained, saved and loaded in any memory", T, float, bfloat16, double) {
  const auto on_host = run<T>(Cpu{2});
  CHECK(on_host[0] != on_host[3]);
  index_t calls = 0;
  CHECK(run<T>(Far{&calls}) == on_host);
  CHECK(calls > 10);
  const auto with_muon = run<T>(Cpu{2}, OptimizerKind::muon);
  CHECK(with_muon[0] == on_host[0]);
  CHECK(with_muon[3] != on_host[3]);
  CHECK(run<T>(Far{&calls}, OptimizerKind::muon) == with_muon);
}

namespace {

/// Where a tensor's bytes are in a file that `saved` wrote.
std::vector<float> tensor(const std::filesystem::path& file, const std::string& name) {
  const auto checkpoint = io::ModelTensors::open(file);
  const auto bytes = checkpoint.read_bytes(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

TEST_CASE_TEMPLATE("a draft with an average is trained, saved and loaded in any memory, by either optimizer", T, float,
                   bfloat16, double) {
  index_t calls = 0;
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::muon}) {
    const auto with = run<T>(Cpu{2}, kind, 0.9), without = run<T>(Cpu{2}, kind);
    CHECK(with[1] == without[1]);
    CHECK(with[2] == without[2]);
    CHECK(with[3] != without[3]);
    CHECK(run<T>(Far{&calls}, kind, 0.9) == with);
  }
}

TEST_CASE("a checkpoint's draft is the average, and what is trained stands beside it") {
  // After the first update the average has 2/11 of what it was, after the second 3/12, of 0.2 a decay.
  const test::TemporaryDirectory directory;
  auto plain = fresh<float>(Cpu{1}, 1), draft = fresh<float>(Cpu{1}, 1, OptimizerKind::adamw, 0.2);
  saved(Cpu{1}, plain, directory / "0");
  for (const char* step : {"1", "2"}) {
    update(Cpu{1}, plain, 7), update(Cpu{1}, draft, 7);
    saved(Cpu{1}, plain, directory / step);
    saved(Cpu{1}, draft, directory / "ema" / step);
  }
  const std::string name = "model.fc.weight";
  const auto w = [&](const char* step) { return tensor(directory / step / "model.safetensors", name); };
  const auto e = [&](const char* step) { return tensor(directory / "ema" / step / "model.safetensors", name); };
  const auto w0 = w("0"), w1 = w("1"), w2 = w("2"), e1 = e("1"), e2 = e("2");
  CHECK(tensor(directory / "ema" / "2" / "trainer.safetensors", "parameter." + name) == w2);
  REQUIRE(w2.size() == 27 * 81);
  for (std::size_t i = 0; i < w2.size(); ++i) {
    const double first = 2.0 / 11 * static_cast<double>(w0[i]) + 9.0 / 11 * static_cast<double>(w1[i]);
    const double second = 0.2 * first + 0.8 * static_cast<double>(w2[i]);
    CHECK(std::abs(static_cast<double>(e1[i]) - first) < 1e-7);
    CHECK(std::abs(static_cast<double>(e2[i]) - second) < 1e-7);
  }
  CHECK(std::abs(static_cast<double>(w2[5]) - static_cast<double>(w0[5])) > 1e-3);
  const auto held = draft.weights().fc.weight;
  CHECK(std::equal(e2.begin(), e2.end(), held.data()));
  CHECK(draft.weights().embed_tokens.data() == draft.parameters().weights().embed_tokens.data());
}

TEST_CASE("a draft that is replaced has an average that begins with the new parameters") {
  auto draft = fresh<float>(Cpu{1}, 1, OptimizerKind::adamw, 0.9);
  update(Cpu{1}, draft, 3);
  Parameters<Draft, float> other;
  other.initialize(5);
  const std::vector<float> given(other.trainable().data(), other.trainable().data() + other.trainable().size());
  draft.replace(Cpu{1}, std::move(other));
  CHECK(std::equal(given.begin(), given.end(),
                   draft.weights().fc.weight.data() -
                       (draft.parameters().weights().fc.weight.data() - draft.parameters().trainable().data())));
}

TEST_CASE("what is not finite is not saved from another memory, and a draft stays as it was where files do not fit") {
  const test::TemporaryDirectory directory;
  const Far far;
  auto draft = fresh<float>(far, 1);
  const auto before = saved(far, draft, directory / "before");
  test::write(directory / "before" / "trainer.json", "{}");
  CHECK_THROWS_AS(draft.load(far, directory / "before"), Error);
  CHECK(saved(far, draft, directory / "after") == before);
  Parameters<Draft, float> bad;
  bad.mutable_weights().fc.weight(0, 0) = NAN;
  CHECK_THROWS_WITH_AS(draft.replace(far, std::move(bad)),
                       "draft: 'model.fc.weight': element 0: found nan, wanted a finite number", Error);
  update(far, draft, 1);
  Buffer<float> nan(1);
  nan[0] = NAN;
  const auto w = draft.parameters().trainable();
  upload<float>(far, Vector<const float>(nan.data(), 1),
                Vector<Placed<float, Far>>(const_cast<Placed<float, Far>*>(w.data()), 1));
  CHECK_THROWS_AS(saved(far, draft, directory / "nan"), Error);
  CHECK_FALSE(std::filesystem::exists(directory / "nan" / "model.safetensors"));
}
