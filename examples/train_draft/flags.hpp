#pragma once
/// \file
/// The flags of train_draft, and which of them go together.
/// defines: add_flags, wished_draft, in_flags, refuse_others_flags, refuse_idle_flags

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../common/token_files.hpp"
#include "add_setting_flags.hpp"
#include "options.hpp"
#include "setting_flags.hpp"

namespace k3spec::examples {

inline void add_files(Arguments& arguments, Options& o) {
  arguments.path("--target", o.target, "The target's checkpoint, a directory");
  arguments.path("--features", o.features,
                 "What `capture` wrote of a target: train from that, with the same bits, on its data and windows; no "
                 "target runs, one that is given is compared with the features' own");
  arguments.path("--train", o.train, token_files_help("Data to train on [TARGET/train.txt, or the features' own]: "));
  arguments.paths(
      "--heldout", o.heldout_given,
      "Data to measure on, of any of these kinds, or NAME=FILE, where there is no file called so as a whole; "
      "may be given several times: the first decides what is best [TARGET/heldout.txt, or the features' "
      "own]");
  add_bin_option(arguments, o.bin_type);
  arguments
      .path("--out,--output", o.out,
            "Where checkpoints go; OUT/latest is the newest, OUT/best the one with the longest accept length on "
            "held-out text")
      ->required();
  arguments.path("--log", o.log, "JSON lines, one a step [OUT/train.jsonl]");
  arguments.toggle(
      "--resume", o.resume,
      "Go on from OUT/latest, with its settings; --steps N goes on to N steps, at the rates of a run of N");
  arguments.toggle("--other-data", o.other_data, "With --resume: go on with other data than the run was begun with");
  arguments.path("--init-from", o.init_from,
                 "Begin a new run with the parameters of this draft, its kind, layers, conventions and vocabulary");
}

/// What the draft is and reads.
inline void add_draft(Arguments& arguments, Options& o) {
  o.draft_flag = arguments.one_of("--draft", o.draft, {"eagle3", "dflash", "dspark"}, "The kind of draft");
  o.backbone_flag = arguments.named("--backbone", o.backbone, "eagle3: the draft's attention block");
  o.version_flag =
      arguments.one_of("--eagle3-version", o.version, {"3", "3.1"}, "eagle3: 3.1 adds fc_norm and norm_output");
  std::vector<std::string> types;
  for (const DraftType& type : draft_types) types.emplace_back(type.name);
  o.config_flag =
      arguments.one_of("--config", o.config, types, "The draft's type, where several of a kind are compiled in");
  o.dtype_flag = arguments.one_of("--dtype", o.dtype, {dtype_names.begin(), dtype_names.end()},
                                  "What parameters, the target's too, and what is computed of them are kept in; sums "
                                  "are float, and a draft's bfloat16 parameters have float masters");
  o.vocabulary_flag =
      arguments.path("--vocabulary-from", o.vocabulary_from,
                     "eagle3: the draft vocabulary of this draft [the tokens to learn that are most frequent]");
  o.draft_only = {arguments.list("--layers", o.layers, Range<index_t>{},
                                 "The target's layers that the draft reads; dflash, dspark: -1 is the embedding "
                                 "[eagle3: 1, L/2 - 1, L - 4; dflash: from 1 to L - 3; dspark: -1, L/2 - 1, L - 1]"),
                  arguments.named("--layer-ids", o.layer_ids,
                                  "What layer id i is: the output of layer i from 0, or the state after i layers"),
                  arguments.named("--aux-stream", o.aux_stream,
                                  "What a layer's state is: the running sum, or what the next layer's attention reads"),
                  o.vocabulary_flag};
}

/// This program is one process that does not split a model.
inline void add_parallel(Arguments& arguments, Options& o) {
  ParallelOptions& p = o.parallel;
  const auto add = [&](const char* key, const char* flag, auto& value, const char* help) {
    o.names[key] = flag;
    return arguments.number(flag, value, Range<index_t>{}, help)->group("Parallelism");
  };
  const auto toggle = [&](const char* key, const char* flag, bool& value, const char* help) {
    o.names[key] = flag;
    return arguments.toggle(flag, value, help)->group("Parallelism");
  };
  add("expert_parallel", "--expert-parallel", p.expert_parallel, "Processes that the target's experts are spread over");
  add("tensor_parallel", "--tensor-parallel", p.tensor_parallel, "1 only");
  add("context_parallel", "--context-parallel", p.context_parallel, "1 only");
  add("pipeline_parallel", "--pipeline-parallel", p.pipeline_parallel, "1 only");
  toggle("uneven_experts", "--uneven-experts", p.uneven_experts, "Processes may have different numbers of experts");
  toggle("parallel_drafting", "--parallel-drafting", p.parallel_drafting, "Not supported");
}

inline void add_time(Arguments& arguments, Options& o) {
  o.minutes_flag = arguments.number("--minutes", o.minutes, TrainSettings::positive,
                                    "Time to train. The steps of the warmup are measured; then the number of steps is "
                                    "fixed, and with it the schedule");
  o.epochs_flag =
      arguments.number("--epochs", o.epochs, TrainSettings::positive,
                       "Times to go over the data's windows, instead of --minutes; --sampling shuffled or packed");
}

inline void add_reports(Arguments& arguments, Options& o) {
  constexpr Range<index_t> count{1}, pause{0};
  arguments.number("--eval-every", o.eval_every, pause,
                   "Steps between looks at held-out text; 0: only where the run begins and ends");
  o.eval_windows_flag = arguments.number("--eval-windows", o.eval_windows, count,
                                         "Windows of held-out text that are looked at, in whole batches; a resumed run "
                                         "with others looks for its best anew");
  arguments.number("--save-every", o.save_every, pause, "Steps between checkpoints; 0: only where the run ends");
  arguments.number("--keep", o.keep, count, "Checkpoints that are kept, the newest ones; and OUT/best");
  arguments.number("--early-stop", o.early_stop, count,
                   "End the run after so many looks in a row without a longer accept length; a look with one is saved");
  arguments.one_of("--progress", o.progress, {"auto", "bar", "lines", "none"}, "What to show");
  o.weights_flag = add_weights_option(arguments, o.weights);
  add_device_options(arguments, o.device);
}

/// What an error of a setting's is about, as the command line calls it: "batch and length" as "--batch and --length".
inline std::string in_flags(const Options& o, const std::string& subject) {
  if (subject.rfind("--", 0) == 0) return subject;
  if (subject.find("layer") != std::string::npos) return "--layers: " + subject;
  std::string out, word;
  for (const char c : subject + ' ') {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
      continue;
    }
    const auto at = o.names.find(word);
    out += (at == o.names.end() ? word : at->second) + c;
    word.clear();
  }
  out.pop_back();
  const std::size_t flag = out.find("--");  // "schedule: --lr", "AdamW: --eps"
  return flag == std::string::npos ? out : out.substr(flag);
}

/// Runs f, whose errors are the command line's: a run that has settings of a checkpoint or a draft may find it there.
template <class F>
void check_flags(const Options& o, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    const Error told(in_flags(o, e.subject()), e.found(), e.wanted());
    if (o.resume || o.init_from) throw told;
    throw UsageError(told);
  }
}

/// Settings that only some kinds of draft have.
inline void refuse_others_flags(const Options& o) {
  const auto refuse = [&](const CLI::Option* flag, std::string_view kinds) {
    if (flag->count() == 0 || kinds.empty() || kinds.find(o.draft) != std::string_view::npos) return;
    throw Error(flag->get_name(), "it with --draft " + o.draft, "--draft " + std::string(kinds));
  };
  refuse(o.backbone_flag, "eagle3"), refuse(o.version_flag, "eagle3"), refuse(o.vocabulary_flag, "eagle3");
  for (const SettingFlag& setting : setting_flags) refuse(o.flags.at(setting.key), setting.kinds);
}

/// Settings that only some losses or blocks have, whatever the draft's kind.
inline void refuse_idle_flags(const Options& o) {
  if (o.flags.at("prefix_base")->count() > 0 && !o.settings.variable_prefix) {
    throw UsageError("--prefix-base", "it without --variable-prefix", "--variable-prefix");
  }
  for (const char* key : {"muon_momentum", "muon_scale"}) {
    const CLI::Option* flag = o.flags.at(key);
    if (flag->count() == 0 || o.settings.optimizer_kind == OptimizerKind::muon) continue;
    throw UsageError(flag->get_name(), "it with --optimizer adamw", "--optimizer muon");
  }
  if (o.epochs && o.settings.sampling == WindowSampling::random) {
    throw UsageError("--epochs", "it with --sampling random", "--sampling shuffled or packed");
  }
  for (const char* key : {"lk_kl_scale", "lk_kl_decay"}) {
    const CLI::Option* flag = o.flags.at(key);
    if (flag->count() == 0 || o.settings.lk == LkLoss::lambda) continue;
    throw UsageError(flag->get_name(), "it with --lk " + name_of(o.settings.lk), "--lk lambda");
  }
}

/// Flags that never go together, whatever the files say.
inline void refuse_pairs(const Options& o) {
  const auto refuse = [](bool both, const char* flag, const char* other, const char* wanted) {
    if (both) throw UsageError(flag, std::string("it ") + other, wanted);
  };
  if (o.target.empty() && o.features.empty()) {
    throw UsageError("--target", "nothing", "The target's checkpoint, a directory, or --features");
  }
  refuse(!o.features.empty() && o.heldout_given.size() > 1, "--heldout", "several times with --features",
         "the one that was captured");
  refuse(!o.features.empty() && o.weights_flag->count() > 0, "--weights", "with --features", "a target that runs");
  refuse(o.init_from && o.resume, "--init-from", "with --resume", "one of them");
  refuse(o.other_data && !o.resume, "--other-data", "without --resume", "--resume");
  refuse(o.minutes_flag->count() > 0 && o.flags.at("total_steps")->count() > 0, "--minutes", "with --steps",
         "one of them");
  for (const CLI::Option* other : {o.minutes_flag, o.flags.at("total_steps")}) {
    refuse(o.epochs && other->count() > 0, "--epochs", ("with " + other->get_name()).c_str(), "one of them");
  }
  refuse(o.early_stop && o.eval_every == 0, "--early-stop", "with --eval-every 0", "looks on the way");
  refuse(o.epochs && o.resume, "--epochs", "with --resume", "--resume, or that with --steps");
  refuse(o.parallel.uneven_experts && o.parallel.expert_parallel == 1, "--uneven-experts", "with one process",
         "more of them");
  for (const CLI::Option* flag : o.draft_only) {
    const bool given = flag->count() > 0;
    refuse(given && o.resume, flag->get_name().c_str(), "with --resume", "--resume without it");
    refuse(given && o.init_from, flag->get_name().c_str(), "with --init-from", "--init-from without it");
  }
  for (const char* key : {"fc_init", "markov_deviation"}) {
    const CLI::Option* flag = o.flags.at(key);
    refuse(flag->count() > 0 && o.init_from, flag->get_name().c_str(), "with --init-from", "fresh parameters");
  }
}

/// The type that is asked for.
/// \throws UsageError when it is not compiled in, or more than one are meant
inline std::size_t wished_draft(const Options& o) {
  constexpr auto& kinds = names_of<DraftKind>;
  DraftWish wish{static_cast<DraftKind>(std::find(kinds.begin(), kinds.end(), o.draft) - kinds.begin())};
  if (o.backbone_flag->count() > 0) wish.backbone = o.backbone;
  if (o.version_flag->count() > 0) wish.version = o.version;
  wish.name = o.config;
  try {
    return choose_draft(draft_types, wish);
  } catch (const Error& e) {
    throw UsageError(e);
  }
}

inline void add_flags(Arguments& arguments, Options& o) {
  add_files(arguments, o);
  add_draft(arguments, o);
  add_time(arguments, o);
  add_setting_flags(arguments, o);
  add_reports(arguments, o);
  add_parallel(arguments, o);
  arguments.add_to_footer(
      "On SIGINT (130), SIGTERM (143) and SIGHUP (129) it finishes the step and saves; another one, half a second "
      "later\n"
      "or more, ends it at once.");
}

}  // namespace k3spec::examples
