// What training moves, in memory that the host cannot read: the same bits as on the host, and the same files.
#include <k3spec/run/trained_draft.hpp>

#include <doctest/doctest.h>

#include <cmath>
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
TrainedDraft<Draft, T, D> fresh(const D& device, std::uint64_t seed, OptimizerKind kind = OptimizerKind::adamw) {
  Parameters<Draft, T> parameters;
  parameters.initialize(seed);
  TrainSettings settings;
  settings.optimizer.weight_decay = 0.1, settings.optimizer_kind = kind;
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
  draft.save(device, [&](const Parameters<Draft, T>& parameters, AdamW<Draft, T>& optimizer) {
    save_draft(at, parameters, vocabulary(), io::json::object());
    TrainerProgress progress;
    progress.next_step = optimizer.steps();
    save_trainer(at, optimizer, progress);
  });
  std::string all;
  for (const char* name : {"model.safetensors", "trainer.safetensors", "trainer.json"})
    all += test::contents(at / name);
  return all;
}

/// The files of a draft after two updates, and of one that goes on from them.
template <class T, class D>
std::vector<std::string> run(const D& device, OptimizerKind kind = OptimizerKind::adamw) {
  const test::TemporaryDirectory directory;
  auto draft = fresh<T>(device, 1, kind);
  std::vector<std::string> all{saved(device, draft, directory / "fresh")};
  for (const std::uint64_t seed : {1, 2}) all.push_back(std::to_string(update(device, draft, seed)));
  all.push_back(saved(device, draft, directory / "two"));
  auto other = fresh<T>(device, 2, kind);
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
