// Trainers on memory that the host cannot read: the numbers and the files of the host's.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tests/support/far_device.hpp>

#include "tests/support/temporary.hpp"
#include "tests/support/trainer_kinds.hpp"

using namespace k3spec;
using test::OfDFlash, test::OfDSpark, test::OfEagle3;

namespace {

/// Two steps, what held-out text says then, a checkpoint, and a step of a run that goes on from it.
template <class Kind, class D>
std::vector<std::string> run(const D& device) {
  using Trained = Trainer<typename Kind::template Method<float, D>>;
  const test::TemporaryDirectory directory;
  std::string bytes;
  for (std::uint64_t i = 0; i < 600; ++i) bytes += static_cast<char>((i / 3 * 7 + Philox(1).below(i, 3)) % 48);
  test::write(directory / "text", bytes);
  const TokenData text(directory / "text", 256);
  TrainSettings s;
  s.batch = 2, s.accumulate = 2, s.length = 21, s.ttt_steps = 3, s.anchors = 6;
  s.packing = Packing::apart;
  s.schedule = {.lr = 1e-2, .warmup_steps = 1, .total_steps = 9, .min_lr_ratio = 0.1};
  const auto make = [&] {
    Trained trainer(device, test::small_target<float>(), Kind::template setup<typename Trained::Setup>(), s);
    trainer.set_data(DataFingerprints::of(device, text, text, Packing::apart));
    return trainer;
  };
  std::vector<std::string> all;
  CheckpointDirectory out(directory / "out");
  const auto step = [&](Trained& trainer) {
    const auto report = trainer.step(text);
    CHECK_FALSE(report.skipped);
    all.push_back(number_text(report.metrics.loss()) + " " + number_text(report.grad_norm));
    all.push_back(number_text(trainer.evaluate(text, 2).loss()));
    trainer.save(out);
    for (const char* file : {"model.safetensors", "trainer.safetensors", "trainer.json"}) {
      all.push_back(test::contents(*out.latest() / file));
    }
  };
  Trained first = make();
  step(first), step(first);
  Trained second = make();
  second.resume(*out.latest());
  step(second);
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("a run on any memory has the numbers and the files of the host's", Kind, OfEagle3, OfDFlash,
                   OfDSpark) {
  const auto on_host = run<Kind>(Cpu{2});
  CHECK(on_host[2] != on_host[7]);
  CHECK(run<Kind>(Far{}) == on_host);
}
