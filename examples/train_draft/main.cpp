// Trains a draft for a Kimi K3 target on text, and prints how many tokens a target forward would yield with it.
// Compiled for the bundled miniature (configs::KimiK3Tiny), whose tokens are bytes.

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <CLI/CLI.hpp>

#include <k3spec/core/format.hpp>
#include <k3spec/drafts/draft_checkpoint.hpp>
#include <k3spec/train/checkpoint.hpp>
#include <k3spec/train/checkpoint_directory.hpp>

#include "options.hpp"

using namespace k3spec;
using examples::Job;
using examples::Options;
namespace fs = std::filesystem;

namespace {

void add_files(CLI::App& app, Options& o) {
  app.add_option("--target", o.target, "The target's checkpoint, a directory")->required();
  app.add_option("--train", o.train, "Text to train on [TARGET/train.txt]");
  app.add_option("--heldout", o.heldout, "Text to measure on [TARGET/heldout.txt]");
  app.add_option("--out,--output", o.out, "Where checkpoints go; OUT/latest is the newest")->required();
  app.add_option("--log", o.log, "JSON lines, one a step [OUT/train.jsonl]");
  app.add_flag("--resume", o.resume, "Go on from OUT/latest, with its settings");
}

/// What the draft is and reads.
void add_draft(CLI::App& app, Options& o) {
  o.backbone_flag = examples::add_named(app, "--backbone", o.form.backbone, "eagle3: the draft's attention block");
  o.version_flag = app.add_option("--eagle3-version", o.form.version, "eagle3: 3.1 adds fc_norm and norm_output")
                       ->check(CLI::IsMember({"3", "3.1"}))
                       ->capture_default_str();
  o.draft_only.push_back(
      app.add_option("--layers", o.layers,
                     "The target's layers that the draft reads, comma-separated; dflash, dspark: -1 is the embedding "
                     "[eagle3: 1, L/2 - 1, L - 4; dflash: from 1 to L - 3; dspark: -1, L/2 - 1, L - 1]")
          ->delimiter(',')
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
  o.draft_only.push_back(examples::add_named(app, "--layer-ids", o.layer_ids,
                                             "What layer id i is: the output of layer i from 0, or the state after i "
                                             "layers"));
  o.draft_only.push_back(examples::add_named(app, "--aux-stream", o.aux_stream,
                                             "What a layer's state is: the running sum, or what the next "
                                             "layer's attention reads"));
  o.vocabulary_flag = app.add_option("--vocabulary-from", o.vocabulary_from,
                                     "eagle3: the draft vocabulary of this draft [the most frequent bytes]");
  o.draft_only.push_back(o.vocabulary_flag);
}

/// This program is one process that does not split a model.
void add_parallel(CLI::App& app, Options& o) {
  ParallelOptions& p = o.parallel;
  const auto add = [&](const char* flag, auto& value, const char* help) {
    return app.add_option(flag, value, help)->capture_default_str()->group("Parallelism");
  };
  add("--expert-parallel", p.expert_parallel, "Processes that the target's experts are spread over");
  add("--tensor-parallel", p.tensor_parallel, "1 only");
  add("--context-parallel", p.context_parallel, "1 only");
  add("--pipeline-parallel", p.pipeline_parallel, "1 only");
  app.add_flag("--uneven-experts", p.uneven_experts, "Processes may have different numbers of experts")
      ->group("Parallelism");
  app.add_flag("--parallel-drafting", p.parallel_drafting, "Not supported")->group("Parallelism");
}

void add_settings(CLI::App& app, Options& o) {
  TrainSettings& s = o.settings;
  const auto add = [&](const char* key, const char* flag, auto& value, const std::string& help) {
    o.flags[key] = app.add_option(flag, value, help)->capture_default_str();
  };
  o.draft_flag = app.add_option("--draft", o.draft, "The kind of draft")
                     ->check(CLI::IsMember({"eagle3", "dflash", "dspark"}))
                     ->capture_default_str();
  add_draft(app, o);
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
  add("ttt_steps", "--ttt-steps", s.ttt_steps, "eagle3: drafted tokens that training unrolls");
  o.flags["lk"] =
      examples::add_named(app, "--lk", s.lk, "eagle3: loss of the acceptance rate, instead of cross-entropy");
  add("lk_kl_scale", "--lk-kl-scale", s.lk_kl_scale, "eagle3, --lk lambda: cross-entropy weighs s * exp(-d * rate)");
  add("lk_kl_decay", "--lk-kl-decay", s.lk_kl_decay, "eagle3, --lk lambda: d of that");
  o.flags["fc_init"] = examples::add_named(
      app, "--fc-init", s.fc_init, "eagle3: fresh fc; last_identity is [0 0 I], the last layer's state as it is");
  o.flags["packing"] = examples::add_named(
      app, "--packing", s.packing,
      "Windows are several documents, lines of the text, that do not see each other; apart: nor in the target");
  add("anchors", "--anchors", s.anchors, "dflash, dspark: blocks in a window");
  add("gamma", "--gamma", s.gamma, "dflash, dspark: slot k of a block weighs exp(-k / gamma); inf: all alike");
  o.flags["variable_prefix"] =
      app.add_flag("--variable-prefix", s.variable_prefix, "dflash: blocks begin with a random number of true tokens");
  add("prefix_base", "--prefix-base", s.prefix_base,
      "dflash: a prefix of l tokens has a chance as this to the power l");
  add("ce_alpha", "--ce-alpha", s.ce_alpha, "dspark: weight of cross-entropy");
  add("l1_alpha", "--l1-alpha", s.l1_alpha, "dspark: weight of |p - q|");
  add("markov_deviation", "--markov-deviation", s.markov_deviation,
      "dspark: deviation of the Markov head's fresh table of previous tokens");
  add("confidence_alpha", "--confidence-alpha", s.confidence_alpha, "dspark: weight of the confidence head's loss");
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

/// Settings that only some kinds of draft have.
void refuse_others_flags(const Options& o) {
  static const std::map<std::string, std::set<std::string>> kinds{{"lk", {"eagle3"}},
                                                                  {"lk_kl_scale", {"eagle3"}},
                                                                  {"lk_kl_decay", {"eagle3"}},
                                                                  {"fc_init", {"eagle3"}},
                                                                  {"ttt_steps", {"eagle3"}},
                                                                  {"anchors", {"dflash", "dspark"}},
                                                                  {"gamma", {"dflash", "dspark"}},
                                                                  {"variable_prefix", {"dflash"}},
                                                                  {"prefix_base", {"dflash"}},
                                                                  {"ce_alpha", {"dspark"}},
                                                                  {"l1_alpha", {"dspark"}},
                                                                  {"confidence_alpha", {"dspark"}},
                                                                  {"markov_deviation", {"dspark"}}};
  std::vector<std::pair<const CLI::Option*, std::set<std::string>>> all{
      {o.backbone_flag, {"eagle3"}}, {o.version_flag, {"eagle3"}}, {o.vocabulary_flag, {"eagle3"}}};
  for (const auto& [key, those] : kinds) all.emplace_back(o.flags.at(key), those);
  for (const auto& [flag, those] : all) {
    if (flag->count() == 0 || those.count(o.draft) != 0) continue;
    std::string wanted;
    for (const auto& kind : those) wanted.append(wanted.empty() ? "" : " or ").append(kind);
    throw Error(flag->get_name(), "it with --draft " + o.draft, "--draft " + wanted);
  }
}

/// Settings that only some losses have.
void refuse_idle_flags(const Options& o) {
  for (const char* key : {"lk_kl_scale", "lk_kl_decay"}) {
    const CLI::Option* flag = o.flags.at(key);
    if (flag->count() == 0 || o.settings.lk == LkLoss::lambda) continue;
    throw Error(flag->get_name(), "it with --lk " + examples::name_of(o.settings.lk), "--lk lambda");
  }
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
  refuse_others_flags(o);
  if (!o.resume) refuse_idle_flags(o);
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

/// A resumed run's draft, which flags may name but not change.
void take_draft(Options& o, const fs::path& checkpoint) {
  for (const CLI::Option* flag : o.draft_only) {
    if (flag->count() > 0) throw Error(flag->get_name(), "it with --resume", "--resume without it");
  }
  const auto file = checkpoint / draft_config_name;
  const io::json config = io::read_json(file);
  const auto take = [](const CLI::Option* flag, auto& value, const auto& own, const std::string& name,
                       const std::string& own_name) {
    if (flag->count() > 0 && value != own) throw Error(flag->get_name(), name, own_name + ", the resumed run's own");
    value = own;
  };
  const auto kind = io::draft_kind(config);
  if (!kind) throw Error(file.string() + ": architectures", "none of a draft", "a draft's");
  const std::string own(examples::name_of(*kind));
  take(o.draft_flag, o.draft, own, o.draft, own);
  if (kind != DraftKind::eagle3) return;
  const examples::Eagle3Form form = examples::eagle3_form_of(config);
  take(o.backbone_flag, o.form.backbone, form.backbone, examples::name_of(o.form.backbone),
       examples::name_of(form.backbone));
  take(o.version_flag, o.form.version, form.version, o.form.version, form.version);
}

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
  const auto latest = CheckpointDirectory(o.out).latest();
  if (o.resume) {
    if (!latest) throw Error("--resume", "no checkpoint in " + o.out.string(), "one to go on from");
    take_draft(o, *latest);
  }
  complete(o);
  if (o.resume) {
    if (finished(o, *latest)) return;
  } else if (latest) {
    throw Error("--out", latest->string(), "a directory without a run, or --resume");
  }
  o.settings.check();
  o.parallel.check<examples::TargetConfig>();
  if (o.parallel.expert_parallel != 1) {
    throw Error("--expert-parallel", fmt::format("{}", o.parallel.expert_parallel), "1: this program is one process");
  }
  const Job job{o, cpu, o.resume ? latest : std::nullopt};
  if (o.draft == "dflash") return examples::train_dflash(job);
  if (o.draft == "dspark") return examples::train_dspark(job);
  if (o.form.backbone == Backbone::deepseek_v3) return examples::train_eagle3_deepseek_v3(job);
  examples::train_eagle3_kimi_k3(job);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains a draft for a Kimi K3 target on text.");
  // A flag given again overrides, so that a script's arguments can be followed by one's own.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  Options options;
  add_files(app, options);
  add_settings(app, options);
  add_reports(app, options);
  add_parallel(app, options);
  CLI11_PARSE(app, argc, argv);
  return examples::run_program("train_draft", [&] { train(options); });
}
