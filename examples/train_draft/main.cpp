// Trains a draft for a Kimi K3 target on tokens, and prints how many tokens a target forward would yield with it.
// Compiled for the types that k3spec_add_programs names.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <k3spec/core/format.hpp>
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/run/trainer_checkpoint.hpp>

#include "../common/memory.hpp"
#include "../common/notes.hpp"
#include "../common/places.hpp"
#include "data.hpp"
#include "features.hpp"
#include "flags.hpp"
#include "outputs.hpp"

using namespace k3spec;
using examples::Job;
using examples::Options;
namespace fs = std::filesystem;

namespace {

/// A resumed run of a fixed number of steps may be given another.
void take_steps(Options& o, const TrainerProgress& saved) {
  if (o.flags["total_steps"]->count() == 0) return;
  o.total_steps = o.settings.schedule.total_steps;
  if (*o.total_steps >= saved.next_step) return;
  throw Error("--steps", fmt::format("{} for a run that has made {} steps", *o.total_steps, saved.next_step),
              "as many or more");
}

/// With --resume the checkpoint's settings hold; a flag that says otherwise is an error, but for the number of steps.
/// A run that was stopped before these were fixed goes on measuring.
void take_settings(Options& o, const TrainerProgress& progress) {
  const TrainSettings& saved = progress.settings;
  o.timed = saved.schedule.total_steps == WarmupCosine::open;
  if (!o.timed && o.minutes_flag->count() > 0) {
    throw Error("--minutes",
                fmt::format("{} for a run that is fixed to {} steps", o.minutes, saved.schedule.total_steps),
                "--resume without it; --steps with more of them goes on");
  }
  if (o.timed && o.flags["total_steps"]->count() > 0) {
    throw Error("--steps", fmt::format("{} for a run with --minutes", o.settings.schedule.total_steps),
                "--resume without it");
  }
  const io::json given = settings_json(o.settings), own = settings_json(saved);
  for (const auto& [key, flag] : o.flags) {
    if (flag->count() == 0 || given[key] == own[key] || key == "total_steps") continue;
    throw Error(flag->get_name(), io::detail::excerpt(given[key]),
                io::detail::excerpt(own[key]) + ", the resumed run's own");
  }
  take_steps(o, progress);
  o.settings = saved;
}

/// What the flags and the draft's kind, both known now, come to.
void complete(Options& o) {
  refuse_others_flags(o);
  const bool own = o.features.empty();
  if (o.train.empty()) o.train = own ? o.target / "train.txt" : o.features / FeatureFiles::training;
  if (o.heldout_given.empty()) {
    o.heldout_files = {{"heldout", own ? o.target / "heldout.txt" : o.features / FeatureFiles::held_out}};
  } else {
    o.heldout_files = examples::heldout_files(o.heldout_given);
  }
  o.heldout = o.heldout_files.front().path;
  if (o.log.empty()) o.log = o.out / "train.jsonl";
  // 0: never on the way.
  if (o.eval_every == 0) o.eval_every = WarmupCosine::max_steps + 1;
  if (o.save_every == 0) o.save_every = WarmupCosine::max_steps + 1;
  o.timed = o.flags["total_steps"]->count() == 0 && !o.epochs;
  if (!o.timed || o.resume) return;
  if (o.settings.schedule.warmup_steps < 2) {
    throw Error("--warmup", fmt::format("{}", o.settings.schedule.warmup_steps),
                "at least 2 with --minutes: speed is measured while the rate rises");
  }
  o.settings.schedule.total_steps = WarmupCosine::open;
}

/// The draft of a resumed run, or one to begin with, which flags may name but not change.
/// \param owner  whose draft it is \returns its type's place in draft_types
std::size_t take_draft(Options& o, const fs::path& checkpoint, const std::string& owner) {
  const auto file = checkpoint / draft_config_name;
  const io::json config = io::read_json(file);
  const auto take = [&](const CLI::Option* flag, auto& value, const auto& own, const std::string& name,
                        const std::string& own_name) {
    if (flag->count() > 0 && value != own) throw Error(flag->get_name(), name, own_name + ", " + owner);
    value = own;
  };
  const std::size_t type = examples::draft_type_of(config, file.string());
  const examples::DraftType& found = examples::draft_types[type];
  const std::string kind = examples::name_of(found.kind), version(found.version), name(found.name);
  take(o.draft_flag, o.draft, kind, o.draft, kind);
  take(o.config_flag, o.config, name, o.config, name);
  if (found.kind == DraftKind::eagle3) {
    take(o.backbone_flag, o.backbone, found.backbone, examples::name_of(o.backbone), examples::name_of(found.backbone));
    take(o.version_flag, o.version, version, o.version, version);
  }
  return type;
}

/// A resumed run's own element type. A new one that begins with a draft has another if flags say so.
void take_dtype(Options& o, const fs::path& checkpoint) {
  const auto file = checkpoint / draft_config_name;
  const std::string stored = io::read_json(file).value("dtype", std::string("none"));
  const std::string own = stored == "float32" ? "float" : stored;
  const auto& names = examples::dtype_names;
  if (std::find(names.begin(), names.end(), own) == names.end()) {
    std::string there;
    for (const auto name : names) there += (there.empty() ? "" : ", ") + std::string(name);
    throw Error(file.string() + ": dtype", stored, "one of those compiled in: " + there);
  }
  if (o.dtype_flag->count() > 0 && o.dtype != own) throw Error("--dtype", o.dtype, own + ", the resumed run's own");
  o.dtype = own;
}

/// \returns whether the run to go on with has all its steps already
bool finished(Options& o, const fs::path& checkpoint) {
  const TrainerProgress saved = read_trainer_progress(checkpoint);
  take_settings(o, saved);
  if (o.eval_windows_flag->count() == 0 && saved.heldout.windows > 0) o.eval_windows = saved.heldout.windows;
  const index_t total = o.total_steps.value_or(saved.settings.schedule.total_steps);
  const bool stale = o.early_stop && saved.heldout.looks_since >= *o.early_stop && !o.other_data &&
                     saved.heldout.windows == o.windows_of_look();
  if (saved.next_step < total && !stale) return false;
  fmt::print("trained {} of {} steps{}: nothing is left to do\ndraft: {}\n", saved.next_step, total,
             stale ? fmt::format(", {} looks without a better one", saved.heldout.looks_since) : "",
             printable((o.out / CheckpointDirectory::latest_name).string()));
  return true;
}

/// Of each process alone.
void check_settings(const Options& o) {
  check_flags(o, [&] {
    if (!o.resume) o.settings.check();
    o.parallel.check<examples::TargetConfig>();
    if (o.parallel.expert_parallel == 1) return;
    throw Error("--expert-parallel", fmt::format("{}", o.parallel.expert_parallel), "1: this program is one process");
  });
}

/// A type that is named says which kind it is.
void take_kind(Options& o) {
  if (o.draft_flag->count() > 0) return;
  for (const examples::DraftType& type : examples::draft_types) {
    if (type.name == o.config) o.draft = examples::name_of(type.kind);
  }
}

/// \returns the exit status
int train(Options o, const examples::StopSignals& stop) {
  examples::refuse_pairs(o);
  take_kind(o);
  if (!o.features.empty()) examples::take_windows(o);
  if (!o.resume) examples::refuse_idle_flags(o);
  if (!o.resume && !o.init_from) check_flags(o, [&] { complete(o); });
  if (!o.resume) check_settings(o);
  std::size_t type = o.resume || o.init_from ? 0 : wished_draft(o);
  const Cpu cpu = examples::make_host(o.device, examples::compiled_for_cuda);
  examples::check_output_folder("--out", o.out);
  const auto latest = CheckpointDirectory(o.out).latest();
  if (o.resume) {
    if (!latest) {
      const auto unnamed = CheckpointDirectory(o.out).newest();  // a copy of a run may have lost its link
      if (!unnamed) throw Error("--resume", "no checkpoint in " + o.out.string(), "one to go on from");
      throw Error("--resume",
                  fmt::format("{}, which no link '{}' names", unnamed->string(), CheckpointDirectory::latest_name),
                  "such a link to a checkpoint: with it the run goes on");
    }
    type = take_draft(o, *latest, "the resumed run's own");
    take_dtype(o, *latest);
  } else if (o.init_from) {
    o.init_from = examples::found_draft(*o.init_from);
    type = take_draft(o, *o.init_from, "that of " + o.init_from->string());
  }
  if (o.resume || o.init_from) check_flags(o, [&] { complete(o); });
  check_flags(o, [&] {
    if (o.features.empty() || o.dtype == "float") return;
    throw Error("--dtype", o.dtype + " with --features", "float: what capture writes is of a target in float");
  });
  examples::check_output_file("--log", o.log, o.out);
  if (o.resume) {
    if (finished(o, *latest)) return 0;
    check_settings(o);
  }
  examples::check_outputs(o);
  std::uint64_t bytes = io::held_bytes(o.train);
  for (const auto& file : o.heldout_files) bytes += io::held_bytes(file.path);
  examples::check_memory("--train and --heldout", bytes);
  CheckpointDirectory checkpoints(o.out, o.keep);
  examples::take_folder(checkpoints, latest, o.resume);
  const auto held = examples::check_log(o);
  const auto [train, heldout] = examples::open_data(o);
  auto further = examples::open_further(o.heldout_files, examples::TargetConfig::vocab_size, o.bin_type);
  const Job job{o,           cpu,  train,      heldout, std::move(further), o.resume ? latest : std::nullopt,
                o.init_from, stop, checkpoints};
  return examples::with_draft(type, [&]<class Config> {
    return examples::with_dtype(o.dtype, [&]<class T> {
      return examples::with_device(o.device.device, [&]<class D> { return examples::train<Config, T, D>(job); });
    });
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("train_draft", "Trains a draft for a Kimi K3 target on text.",
                               [&](examples::Arguments& arguments) {
                                 Options options;
                                 examples::add_flags(arguments, options);
                                 arguments.parse(argc, argv);
                                 const examples::StopSignals stop;
                                 return train(options, stop);
                               });
}
