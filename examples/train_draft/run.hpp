#pragma once
/// \file
/// defines: load_target_from, Run, conventions_of, layers_of, run

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/format.hpp>
#include <k3spec/target/load.hpp>
#include <k3spec/train/json_log.hpp>
#include <k3spec/train/progress.hpp>
#include <k3spec/train/trainer.hpp>

#include "options.hpp"

namespace k3spec::examples {

inline Parameters<K3Target<TargetConfig>, float> load_target_from(const std::filesystem::path& directory) {
  const auto config = directory / "config.json";
  io::check_target_config<TargetConfig>(io::read_json(config), config.string());
  Parameters<K3Target<TargetConfig>, float> parameters;
  load_target<TargetConfig, float>(io::Checkpoint::open(directory, "language_model."), parameters);
  return parameters;
}

class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A run: steps, looks at held-out text, checkpoints.
template <class Trainer>
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
    const auto sums = trainer_.metrics(report.result);
    progress_.update({done, planned_ ? total() : 0, sums.loss(), sums.simulated_accept_length(), report.lr},
                     trainer_.rows());
    JsonLog::Record record{{"step", done}};
    record.update(numbers(sums));
    record.update({{"lr", report.lr},
                   {"grad_norm", report.grad_norm},
                   {"skipped", trainer_.optimizer().skipped() + trainer_.unsupervised()},
                   {"seconds", seconds}});
    log_.write(record);
  }

  static JsonLog::Record numbers(const typename Trainer::Metrics& sums) {
    JsonLog::Record record{{"loss", sums.loss()},
                           {"accept_length", sums.simulated_accept_length()},
                           {"accuracy", sums.accuracy().value()}};
    sums.visit([&](const std::string& name, double value) { record[name] = value; });
    return record;
  }

  /// Held-out text.
  void look() {
    const Clock clock;
    seen_ = trainer_.evaluate(heldout_, std::max<index_t>(1, options_.eval_windows / trainer_.settings().batch));
    seen_at_ = trainer_.next_step();
    look_seconds_ = clock.seconds();
    progress_.note(fmt::format("step {}: held-out loss {:.4f}, simulated accept length {:.3f}", trainer_.next_step(),
                               seen_->loss(), seen_->simulated_accept_length()));
    log_.write({{"step", trainer_.next_step()}, {"heldout", numbers(*seen_)}});
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
  std::optional<typename Trainer::Metrics> seen_;
  bool planned_;
  index_t begun_at_, saved_at_, seen_at_ = -1;
  double step_seconds_ = 0, look_seconds_ = 0;
};

/// How a run's draft reads its target: a resumed run's own, or as asked for.
template <DraftKind Kind>
typename DraftForm<Kind>::Conventions conventions_of(const Job& job) {
  if (job.resumed) {
    const auto file = *job.resumed / draft_config_name;
    return io::draft_conventions<Kind>(io::read_json(file), file.string());
  }
  typename DraftForm<Kind>::Conventions conventions;
  conventions.aux_stream = job.options.aux_stream;
  conventions.layer_ids = job.options.layer_ids;
  return conventions;
}

/// The layers of a run that is resumed, or those asked for, else `defaults()`, which are counted from 0.
template <class Draft, class Conventions, class F>
std::vector<index_t> layers_of(const Job& job, const Conventions& conventions, F&& defaults) {
  if (job.resumed) {
    const auto file = *job.resumed / draft_config_name;
    return io::draft_layer_ids<Draft::kind, typename Draft::config>(io::read_json(file), file.string());
  }
  if (!job.options.layers.empty()) return job.options.layers;
  std::vector<index_t> layers = defaults();
  for (index_t& layer : layers) layer = layer_id(layer, conventions.layer_ids);
  return layers;
}

/// \param make_setup  (text) -> the method's setup
template <class Trainer, class F>
void run(const Job& job, F&& make_setup) {
  const Options& o = job.options;
  const ByteText text(o.train), heldout(o.heldout);
  text.check_length(o.settings.length);
  heldout.check_length(o.settings.rows());
  if constexpr (Trainer::Draft::kind != DraftKind::eagle3) {
    const std::string warning = mask_token_warning<typename Trainer::Config>();
    if (!warning.empty()) fmt::print(stderr, "warning: {}\n", warning);
  }
  auto setup = make_setup(text);
  Trainer::check(setup, o.settings);  // the target takes longest: what cannot be is said before
  if (job.resumed) Trainer::check_resume(*job.resumed, setup, o.settings);
  const std::string layers = io::json(setup.layer_ids).dump();
  Trainer trainer(job.cpu, load_target_from(o.target), std::move(setup), o.settings);
  if (job.resumed) trainer.resume(*job.resumed);
  std::filesystem::create_directories(o.out);
  using Draft = typename Trainer::Draft;
  fmt::print("{}: {} trained parameters, target layers {}, {} of {} tokens, {:.0f} MB of activations\n", o.draft,
             trainable_count<Draft>, layers, Draft::draft_vocabulary, Draft::vocabulary,
             static_cast<double>(Trainer::activation_bytes(o.settings)) / 1e6);
  Run<Trainer>(o, trainer, text, heldout)();
}

}  // namespace k3spec::examples
