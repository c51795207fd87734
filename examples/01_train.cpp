// Trains an EAGLE-3 draft for the bundled miniature of Kimi K3 and saves it: 03_decode.cpp drafts with it. To be run
// where the project is, with a folder for the draft.
#include <k3spec/run/eagle3_method.hpp>
#include <k3spec/target/load.hpp>

using namespace k3spec;
using Config = configs::KimiK3Tiny;

int main(int argc, char** argv) {
  const TokenData text("examples/data/k3-tiny/train.txt", Config::vocab_size);
  const TargetCheckpoint<Config, float> target("examples/data/k3-tiny");
  std::vector<std::int64_t> counts(Config::vocab_size);
  text.count_supervised(counts);

  TrainSettings settings;
  settings.batch = 2, settings.length = 64, settings.ttt_steps = 3;
  settings.schedule.lr = 4e-3, settings.schedule.warmup_steps = 2, settings.schedule.total_steps = 16;
  Eagle3Trainer<Config, Config, float> trainer(
      Cpu{}, target.weights(), {DraftVocabulary::most_frequent(counts, Config::draft_vocab_size), {2, 4, 5}}, settings);
  const double before = trainer.evaluate(text, 4).loss();
  for (index_t i = 0; i < settings.schedule.total_steps; ++i) (void)trainer.step(text);
  const double after = trainer.evaluate(text, 4).loss();
  fmt::print("loss {:.3f}, after {} steps {:.3f}\n", before, trainer.next_step(), after);

  CheckpointDirectory checkpoints(argc > 1 ? argv[1] : "build/first_draft");
  trainer.save(checkpoints);
  return after < before ? 0 : 1;
}
