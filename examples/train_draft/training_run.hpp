#pragma once
/// \file
/// A run: steps, looks at held-out text, checkpoints, and how it ends.
/// defines: Run

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <k3spec/core/format.hpp>
#include <k3spec/io/json_log.hpp>
#include <k3spec/run/trainer.hpp>

#include "../common/progress.hpp"
#include "best_checkpoint.hpp"
#include "log_records.hpp"
#include "outputs.hpp"

namespace k3spec::examples {

class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

template <class Trainer>
class Run {
 public:
  /// \param held_out  of the text that decides which checkpoint is the best
  Run(const Job& job, Trainer& trainer, const Fingerprint& held_out)
      : options_(job.options),
        stop_(job.stop),
        trainer_(trainer),
        train_(job.train),
        heldout_(job.heldout),
        further_(job.further),
        checkpoints_(job.checkpoints),
        log_(options_.log, trainer.next_step(), is_log_record),
        progress_({.style = style(options_.progress)}),
        planned_(!options_.timed),
        begun_at_(trainer.next_step()),
        saved_at_(begun_at_),
        before_(options_.other_data ? counts(trainer) : Counts{}) {
    const index_t windows = options_.windows_of_look();
    if (job.resumed) {
      const auto before = read_trainer_progress(*job.resumed).sources.data;
      const bool same = before && before->held_out == held_out && trainer.heldout().windows == windows;
      if (!same) trainer.heldout() = {};  // of another text, or of another part of it
      best_ = find_best(checkpoints_, held_out, windows);
    }
    trainer.heldout().windows = windows;
  }

  /// \returns the exit status
  /// \throws Error, which names the last good checkpoint
  int operator()() {
    try {
      return train();
    } catch (const Error& e) {
      const auto latest = checkpoints_.latest();
      throw Error(e.subject(), e.found(),
                  e.wanted() + (latest ? "; the last good checkpoint is " + latest->string()
                                       : std::string("; there is no good checkpoint")));
    }
  }

 private:
  /// Runs with more steps than this share without anything to supervise are warned of.
  static constexpr double unsupervised_share = 0.1;

  int train() {
    if (trainer_.next_step() == 0 && !stopped()) look();
    while (trainer_.next_step() < total() && !late() && !stopped() && !stale()) {
      step();
      if (!planned_ && trainer_.next_step() >= trainer_.settings().schedule.warmup_steps) plan();
      const index_t done = trainer_.next_step();
      const bool better = done % options_.eval_every == 0 && look() && options_.early_stop;
      if ((better || done % options_.save_every == 0) && worth_saving()) save();
    }
    if (stopped() && trainer_.next_step() < total()) return stop();
    finish();
    return 0;
  }

  static ProgressOptions::Style style(const std::string& name) {
    using Style = ProgressOptions::Style;
    return std::map<std::string, Style>{
        {"auto", Style::automatic}, {"bar", Style::bar}, {"lines", Style::lines}, {"none", Style::none}}
        .at(name);
  }

  index_t total() const { return trainer_.settings().schedule.total_steps; }
  struct Counts {
    index_t steps = 0, updates = 0, unsupervised = 0, skipped = 0;
  };
  static Counts counts(const Trainer& t) {
    return {t.next_step(), t.optimizer().steps(), t.unsupervised(), t.optimizer().skipped()};
  }

  bool stopped() const { return stop_.received() != 0 || log_failure_; }
  /// A machine that became slower after its speed was measured must not stretch the time that was asked for.
  bool late() const { return options_.timed && planned_ && clock_.seconds() > 1.1 * 60 * options_.minutes; }

  /// Whether the last looks were no better than one before them.
  bool stale() const {
    return planned_ && options_.early_stop && trainer_.heldout().looks_since >= *options_.early_stop;
  }

  void step() {
    const Clock clock;
    const auto report = trainer_.step(train_);
    const double seconds = clock.seconds();
    const index_t done = trainer_.next_step();
    // The first step touches memory for the first time; it counts only if it is all that is measured.
    if (done <= begun_at_ + 2) step_seconds_ = 0;
    step_seconds_ += seconds;
    const auto& sums = report.metrics;
    progress_.update({done, planned_ ? total() : 0, sums.loss(), sums.simulated_accept_length(), report.lr},
                     trainer_.rows());
    JsonLog::Record record{{"step", done}};
    record.add(numbers_record(sums));
    record.add({{"lr", report.lr},
                {"grad_norm", report.grad_norm},
                {"skipped", trainer_.optimizer().skipped() + trainer_.unsupervised()},
                {"seconds", seconds},
                {"tokens", trainer_.rows()}});
    log(record);
  }

  /// A log that cannot be written ends the run as a signal does: what it made is saved first.
  void log(const JsonLog::Record& record) {
    if (log_failure_) return;
    try {
      log_.write(record);
    } catch (const Error& e) {
      log_failure_ = e;
    }
  }

  /// Held-out text. \returns whether it is better than at all looks before
  /// \throws Error when its loss is not finite
  bool look() {
    const Clock clock;
    measure();
    JsonLog::Record record{{"step", trainer_.next_step()}, {"heldout", look_record(*seen_)}};
    if (const auto& ema = trainer_.settings().ema) record.add("ema", *ema);
    const std::string& name = options_.heldout_files.front().name;
    note(further_.empty() ? "" : name, *seen_);
    JsonLog::Record sets;
    for (const HeldoutSet& set : further_) {
      const auto sums = evaluate(set.data);
      note(set.name, sums);
      sets.add(set.name, look_record(sums));
    }
    if (!further_.empty()) record.add({{"heldout_name", name}, {"heldout_sets", sets}});
    look_seconds_ = clock.seconds();
    log(record);
    shown_at_ = trainer_.next_step();
    // One that is made only because the run ends is none of a longer run.
    if (trainer_.next_step() % options_.eval_every != 0) return false;
    return trainer_.heldout().look(seen_->simulated_accept_length());
  }

  /// \param name  of the set, where there are several
  void note(const std::string& name, const typename Trainer::Metrics& sums) {
    progress_.note(fmt::format("step {}: held-out{} loss {:.4f}, simulated accept length {:.3f}", trainer_.next_step(),
                               name.empty() ? "" : " " + printable(name), sums.loss(), sums.simulated_accept_length()));
  }

  void measure() {
    seen_ = evaluate(heldout_);
    seen_at_ = trainer_.next_step();
  }

  /// \throws Error when the loss is not finite
  typename Trainer::Metrics evaluate(const TokenData& data) {
    const auto sums = trainer_.evaluate(data, options_.eval_batches());
    if (sums.accuracy().denominator == 0) {
      throw Error(data.path(), "nothing supervised in the windows that are looked at", "text to measure on");
    }
    const double loss = sums.loss();
    if (!std::isfinite(loss)) {
      throw Error(fmt::format("step {}: held-out loss", trainer_.next_step()), number_text(loss), "a finite number");
    }
    return sums;
  }

  bool learnt() const { return counts(trainer_).updates != before_.updates; }
  /// A run may begin with steps that learn nothing, but not with many: these fail when they are to be saved.
  bool worth_saving() const {
    return learnt() || trainer_.next_step() - before_.steps > trainer_.settings().optimizer.max_skipped_in_a_row;
  }

  /// What learnt nothing, or does not know the held-out text any more, is not saved.
  void save() {
    const index_t done = trainer_.next_step();
    if (!learnt()) {
      const Counts now = counts(trainer_);
      throw Error(train_.path(),
                  fmt::format("no update in {} steps, {} with nothing supervised and {} with a gradient that is not "
                              "finite",
                              now.steps - before_.steps, now.unsupervised - before_.unsupervised,
                              now.skipped - before_.skipped),
                  "text to learn from");
    }
    if (seen_at_ != done) measure();
    const double length = seen_->simulated_accept_length();
    trainer_.heldout().accept_length = length;
    const bool best = !best_ || length > *best_;
    trainer_.save(checkpoints_, best);
    if (best) best_ = length;
    saved_at_ = done;
  }

  void warn_of_unsupervised() const {
    const auto all = static_cast<double>(trainer_.next_step()),
               share = static_cast<double>(trainer_.unsupervised()) / all;
    if (!(share > unsupervised_share)) return;
    say(fmt::format("warning: {} of {} steps ({:.0f} %) had nothing supervised; more than {:.0f} % is much",
                    trainer_.unsupervised(), trainer_.next_step(), 100 * share, 100 * unsupervised_share));
  }

  /// \returns the exit status
  int stop() {
    const index_t done = trainer_.next_step();
    if (saved_at_ != done && learnt()) save();
    if (log_failure_) throw *log_failure_;
    const auto latest = checkpoints_.latest();
    const std::string kept = saved_at_ != done ? "nothing was learnt" : latest ? "" : "there is nothing to save";
    fmt::print("stopped by {} after {} steps: {}\n", StopSignals::name(stop_.received()), done,
               kept.empty() ? "saved as " + printable(latest->string()) + "; --resume goes on" : kept);
    warn_of_unsupervised();
    return StopSignals::status(stop_.received());
  }

  void finish() {
    const index_t done = trainer_.next_step();
    if (shown_at_ != done) look();
    if (saved_at_ != done) save();
    if (log_failure_) throw *log_failure_;
    warn_of_unsupervised();
    // A resumed run may have had other texts, or another number of steps, before.
    const char* note = stale()          ? ": no look was better any more"
                       : done < total() ? ": the time was over; --resume goes on"
                       : begun_at_ == 0 && !options_.init_from
                           ? ": --steps with this number repeats the run bit for bit"
                           : "";
    fmt::print("trained {} of {} steps in {}, {} tokens{}\n", done, total(), duration_string(clock_.seconds()),
               done * trainer_.rows(), note);
    fmt::print("held-out text: loss {:.4f}, accuracy {:.3f}, simulated accept length {:.3f}\n", seen_->loss(),
               seen_->accuracy().value(), seen_->simulated_accept_length());
    if (best_) {
      fmt::print("best checkpoint: {}, simulated accept length {:.3f}\n",
                 printable((options_.out / CheckpointDirectory::best_name).string()), *best_);
    }
    fmt::print("draft: {}\n", printable((options_.out / CheckpointDirectory::latest_name).string()));
  }

  /// Fixes the number of steps so that the rest fits into what is left of the time.
  void plan() {
    const index_t done = trainer_.next_step();
    const auto measured = static_cast<double>(std::max<index_t>(1, done - begun_at_ - 1));
    const double each = step_seconds_ / measured + look_seconds_ / static_cast<double>(options_.eval_every);
    const double left = 0.97 * 60 * options_.minutes - clock_.seconds() - look_seconds_;
    const auto most = static_cast<double>(WarmupCosine::max_steps - done - 1);  // any number of minutes is a count
    const auto more = static_cast<index_t>(std::clamp(left / each, 0.0, most));
    trainer_.set_total_steps(std::max(done + more, done + 1));
    planned_ = true;
    progress_.note(fmt::format("{:.3f} s a step: {} steps in {:.1f} minutes", each, total(), options_.minutes));
  }

  const Options& options_;
  const StopSignals& stop_;
  Trainer& trainer_;
  const TokenData& train_;
  const TokenData& heldout_;
  const std::vector<HeldoutSet>& further_;
  CheckpointDirectory& checkpoints_;
  JsonLog log_;
  std::optional<Error> log_failure_;
  Progress progress_;
  Clock clock_;
  std::optional<typename Trainer::Metrics> seen_;
  std::optional<double> best_;  // accept length of the best checkpoint
  bool planned_;
  index_t begun_at_, saved_at_, seen_at_ = -1, shown_at_ = -1;  // steps
  Counts before_;  // of a run that goes on with another text, what it did with the first
  double step_seconds_ = 0, look_seconds_ = 0;
};

}  // namespace k3spec::examples
