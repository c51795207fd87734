// Trains an EAGLE-3 draft for a Kimi K3 target on text, and prints how many tokens a target forward would yield with
// it. Compiled for the bundled miniature (configs::KimiK3Tiny), whose tokens are bytes.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <k3spec/core/format.hpp>
#include <k3spec/target/load.hpp>
#include <k3spec/train/json_log.hpp>
#include <k3spec/train/progress.hpp>
#include <k3spec/train/trainer.hpp>

#include "common/program.hpp"

using namespace k3spec;
namespace fs = std::filesystem;

namespace {

using Config = configs::KimiK3Tiny;
using Trainer = Eagle3Trainer<Config, float>;

struct Options {
  fs::path target, train, heldout, out, log;
  TrainSettings settings;
  double minutes = 4;
  index_t eval_every = 50, eval_windows = 32, save_every = 200, keep = 2;
  bool resume = false;
  std::string draft = "eagle3", progress = "auto";
  examples::DeviceOptions device;
  /// The options behind the settings that a checkpoint carries, by the settings' names there.
  std::map<std::string, CLI::Option*> flags;
  CLI::Option* minutes_flag = nullptr;
  bool timed = false;
};

void add_files(CLI::App& app, Options& o) {
  app.add_option("--target", o.target, "The target's checkpoint, a directory")->required();
  app.add_option("--train", o.train, "Text to train on [TARGET/train.txt]");
  app.add_option("--heldout", o.heldout, "Text to measure on [TARGET/heldout.txt]");
  app.add_option("--out,--output", o.out, "Where checkpoints go; OUT/latest is the newest")->required();
  app.add_option("--log", o.log, "JSON lines, one a step [OUT/train.jsonl]");
  app.add_flag("--resume", o.resume, "Go on from OUT/latest, with its settings");
}

void add_settings(CLI::App& app, Options& o) {
  TrainSettings& s = o.settings;
  const auto add = [&](const char* key, const char* flag, auto& value, const std::string& help) {
    o.flags[key] = app.add_option(flag, value, help)->capture_default_str();
  };
  app.add_option("--draft", o.draft, "The kind of draft")->check(CLI::IsMember({"eagle3"}))->capture_default_str();
  add("total_steps", "--steps", s.schedule.total_steps, "Steps to train, instead of --minutes");
  o.minutes_flag =
      app.add_option("--minutes", o.minutes,
                     "Time to train. The steps of the warmup are measured; then the number of steps is fixed, "
                     "and with it the schedule")
          ->check(CLI::PositiveNumber)
          ->capture_default_str();
  o.minutes_flag->excludes(o.flags["total_steps"]);
  add("batch", "--batch", s.batch, "Windows a step");
  add("length", "--length", s.length, "Tokens a window");
  add("ttt_steps", "--ttt-steps", s.ttt_steps, "Drafted tokens that training unrolls");
  add("lr", "--lr", s.schedule.lr, "Highest learning rate");
  add("warmup_steps", "--warmup", s.schedule.warmup_steps, "Steps over which the learning rate rises");
  add("min_lr_ratio", "--min-lr-ratio", s.schedule.min_lr_ratio, "Last learning rate, as a part of the highest");
  add("max_grad_norm", "--clip", s.optimizer.max_grad_norm, "Largest norm of the gradient; inf never clips");
  add("weight_decay", "--weight-decay", s.optimizer.weight_decay, "Decay of matrices");
  add("beta1", "--beta1", s.optimizer.beta1, "AdamW's");
  add("beta2", "--beta2", s.optimizer.beta2, "AdamW's");
  add("eps", "--eps", s.optimizer.eps, "AdamW's");
  add("seed", "--seed", s.seed, "Of fresh parameters and the choice of windows");
}

void add_reports(CLI::App& app, Options& o) {
  app.add_option("--eval-every", o.eval_every, "Steps between looks at held-out text")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--eval-windows", o.eval_windows, "Windows of held-out text that are looked at")
      ->capture_default_str();
  app.add_option("--save-every", o.save_every, "Steps between checkpoints")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--keep", o.keep, "Checkpoints that are kept")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--progress", o.progress, "What to show")
      ->check(CLI::IsMember({"auto", "bar", "lines", "none"}))
      ->capture_default_str();
  examples::add_device_options(app, o.device);
}

/// With --resume the checkpoint's settings hold; a flag that says otherwise is an error. A run whose number of steps
/// was fixed keeps it; one that was stopped before goes on measuring.
void take_settings(Options& o, const TrainSettings& saved) {
  o.timed = saved.schedule.total_steps == WarmupCosine::open;
  if (!o.timed && o.minutes_flag->count() > 0) {
    throw Error("--minutes",
                fmt::format("{} for a run that is fixed to {} steps", o.minutes, saved.schedule.total_steps),
                "--resume without it");
  }
  if (o.timed && o.flags["total_steps"]->count() > 0) {
    throw Error("--steps", fmt::format("{} for a run with --minutes", o.settings.schedule.total_steps),
                "--resume without it");
  }
  const io::json given = o.settings.to_json(), own = saved.to_json();
  for (const auto& [key, flag] : o.flags) {
    if (flag->count() == 0 || given[key] == own[key]) continue;
    throw Error(flag->get_name(), given[key].dump(), own[key].dump() + ", the resumed run's own");
  }
  o.settings = saved;
}

void complete(Options& o) {
  if (o.train.empty()) o.train = o.target / "train.txt";
  if (o.heldout.empty()) o.heldout = o.target / "heldout.txt";
  if (o.log.empty()) o.log = o.out / "train.jsonl";
  o.timed = o.flags["total_steps"]->count() == 0;
  if (o.timed && !o.resume) {
    if (o.settings.schedule.warmup_steps < 2) {
      throw Error("--warmup", fmt::format("{}", o.settings.schedule.warmup_steps),
                  "at least 2 with --minutes: speed is measured while the rate rises");
    }
    o.settings.schedule.total_steps = WarmupCosine::open;
  }
}

Parameters<K3Target<Config>, float> load_target_from(const fs::path& directory) {
  const fs::path config = directory / "config.json";
  io::check_target_config<Config>(io::read_json(config), config.string());
  Parameters<K3Target<Config>, float> parameters;
  load_target<Config, float>(io::Checkpoint::open(directory, "language_model."), parameters);
  return parameters;
}

/// The most frequent bytes of the training text; a resumed run keeps its own.
DraftVocabulary choose_vocabulary(const std::optional<fs::path>& resumed, const ByteText& text) {
  if (resumed) {
    return DraftVocabulary::read(io::Checkpoint::open(*resumed), Config::draft_vocab_size, Config::vocab_size);
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(Config::vocab_size));
  count_tokens(text.bytes(), std::span(counts));
  return DraftVocabulary::most_frequent(counts, Config::draft_vocab_size);
}

class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A run: steps, looks at held-out text, checkpoints.
class Run {
 public:
  Run(const Options& o, Trainer& trainer, const ByteText& train, const ByteText& heldout)
      : options_(o),
        trainer_(trainer),
        train_(train),
        heldout_(heldout),
        checkpoints_(o.out, o.keep),
        log_(o.log, trainer.next_step()),
        progress_({.style = style(o.progress)}),
        planned_(!o.timed),
        begun_at_(trainer.next_step()),
        saved_at_(begun_at_) {}

  void operator()() {
    if (trainer_.next_step() == 0) look();
    while (trainer_.next_step() < total() && !late()) {
      step();
      if (!planned_ && trainer_.next_step() >= trainer_.settings().schedule.warmup_steps) plan();
      const index_t done = trainer_.next_step();
      if (done % options_.eval_every == 0) look();
      if (done % options_.save_every == 0) save();
    }
    finish();
  }

 private:
  static ProgressOptions::Style style(const std::string& name) {
    using Style = ProgressOptions::Style;
    return std::map<std::string, Style>{
        {"auto", Style::automatic}, {"bar", Style::bar}, {"lines", Style::lines}, {"none", Style::none}}
        .at(name);
  }

  index_t total() const { return trainer_.settings().schedule.total_steps; }
  /// A machine that became slower after its speed was measured must not stretch the time that was asked for.
  bool late() const { return options_.timed && planned_ && clock_.seconds() > 1.1 * 60 * options_.minutes; }

  void step() {
    const Clock clock;
    const auto report = trainer_.step(train_);
    const double seconds = clock.seconds();
    const index_t done = trainer_.next_step();
    // The first step touches memory for the first time; it counts only if it is all that is measured.
    if (done <= begun_at_ + 2) step_seconds_ = 0;
    step_seconds_ += seconds;
    const double accept = report.result.simulated_accept_length(trainer_.settings().ttt_steps);
    const auto accuracy = trainer_.metrics(report.result).accuracy().value();
    progress_.update({done, planned_ ? total() : 0, report.result.loss, accept, report.lr}, trainer_.rows());
    log_.write({{"step", done},
                {"loss", report.result.loss},
                {"accept_length", accept},
                {"accuracy", accuracy},
                {"lr", report.lr},
                {"grad_norm", report.grad_norm},
                {"skipped", trainer_.optimizer().skipped()},
                {"seconds", seconds}});
  }

  /// Held-out text.
  void look() {
    const Clock clock;
    seen_ = trainer_.evaluate(heldout_, std::max<index_t>(1, options_.eval_windows / trainer_.settings().batch));
    seen_at_ = trainer_.next_step();
    look_seconds_ = clock.seconds();
    const double accept = seen_->simulated_accept_length();
    progress_.note(fmt::format("step {}: held-out loss {:.4f}, simulated accept length {:.3f}", trainer_.next_step(),
                               seen_->loss(), accept));
    log_.write(
        {{"step", trainer_.next_step()},
         {"heldout", {{"loss", seen_->loss()}, {"accuracy", seen_->accuracy().value()}, {"accept_length", accept}}}});
  }

  void save() {
    trainer_.save(checkpoints_);
    saved_at_ = trainer_.next_step();
  }

  void finish() {
    const index_t done = trainer_.next_step();
    if (seen_at_ != done) look();
    if (saved_at_ != done) save();
    const char* note =
        done < total() ? "the time was over; --resume goes on" : "--steps with this number repeats the run bit for bit";
    fmt::print("trained {} of {} steps in {}, {} tokens: {}\n", done, total(), duration_string(clock_.seconds()),
               done * trainer_.rows(), note);
    fmt::print("held-out text: loss {:.4f}, accuracy {:.3f}, simulated accept length {:.3f}\n", seen_->loss(),
               seen_->accuracy().value(), seen_->simulated_accept_length());
    fmt::print("draft: {}\n", (options_.out / CheckpointDirectory::latest_name).string());
  }

  /// Fixes the number of steps so that the rest fits into what is left of the time.
  void plan() {
    const index_t done = trainer_.next_step();
    const auto measured = static_cast<double>(std::max<index_t>(1, done - begun_at_ - 1));
    const double each = step_seconds_ / measured + look_seconds_ / static_cast<double>(options_.eval_every);
    const double left = 0.97 * 60 * options_.minutes - clock_.seconds() - look_seconds_;
    const auto more = static_cast<index_t>(std::clamp(left / each, 0.0, 1e12));  // any number of minutes is a count
    trainer_.set_total_steps(std::max(done + more, done + 1));
    planned_ = true;
    progress_.note(fmt::format("{:.3f} s a step: {} steps in {:.1f} minutes", each, total(), options_.minutes));
  }

  const Options& options_;
  Trainer& trainer_;
  const ByteText& train_;
  const ByteText& heldout_;
  CheckpointDirectory checkpoints_;
  JsonLog log_;
  Progress progress_;
  Clock clock_;
  std::optional<TttMetrics> seen_;
  bool planned_;
  index_t begun_at_, saved_at_, seen_at_ = -1;
  double step_seconds_ = 0, look_seconds_ = 0;
};

/// \returns whether the run to go on with has all its steps already
bool finished(Options& o, const fs::path& checkpoint) {
  const TrainerProgress saved = read_trainer_progress(checkpoint);
  take_settings(o, saved.settings);
  const index_t total = saved.settings.schedule.total_steps;
  if (saved.next_step < total) return false;
  fmt::print("trained {} of {} steps: nothing is left to do\ndraft: {}\n", saved.next_step, total,
             (o.out / CheckpointDirectory::latest_name).string());
  return true;
}

void train(Options o) {
  const Cpu cpu = examples::make_device(o.device);
  complete(o);
  const auto latest = CheckpointDirectory(o.out).latest();
  if (o.resume) {
    if (!latest) throw Error("--resume", "no checkpoint in " + o.out.string(), "one to go on from");
    if (finished(o, *latest)) return;
  } else if (latest) {
    throw Error("--out", latest->string(), "a directory without a run, or --resume");
  }
  const auto resumed = o.resume ? latest : std::nullopt;
  o.settings.check();
  const ByteText text(o.train), heldout(o.heldout);
  text.check_length(o.settings.length);
  heldout.check_length(o.settings.length * o.settings.batch);
  const auto layers = resumed ? io::draft_layer_ids<Trainer::Draft::kind, Config>(
                                    io::read_json(*resumed / draft_config_name), resumed->string())
                              : default_aux_layer_ids(Config::num_hidden_layers);
  Trainer trainer(cpu, load_target_from(o.target), choose_vocabulary(resumed, text), layers, o.settings);
  if (resumed) trainer.resume(*resumed);
  fs::create_directories(o.out);
  fmt::print(
      "{} trained parameters, target layers {}, {} of {} tokens, {:.0f} MB of activations\n",
      trainable_count<Trainer::Draft>, io::json(layers).dump(), Config::draft_vocab_size, Config::vocab_size,
      static_cast<double>(Trainer::activation_bytes(o.settings.batch, o.settings.length, o.settings.ttt_steps)) / 1e6);
  Run(o, trainer, text, heldout)();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains an EAGLE-3 draft for a Kimi K3 target on text.");
  // A flag given again overrides, so that a script's arguments can be followed by one's own.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  Options options;
  add_files(app, options);
  add_settings(app, options);
  add_reports(app, options);
  CLI11_PARSE(app, argc, argv);
  return examples::run_program("train_draft", [&] { train(options); });
}
