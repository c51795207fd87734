#pragma once
/// \file
/// The flags of train_draft, and which of them go together.
/// defines: add_flags, refuse_others_flags, refuse_idle_flags

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

namespace k3spec::examples {

inline void add_files(CLI::App& app, Options& o) {
  app.add_option("--target", o.target, "The target's checkpoint, a directory")->required();
  app.add_option("--train", o.train, "Text to train on [TARGET/train.txt]");
  app.add_option("--heldout", o.heldout, "Text to measure on [TARGET/heldout.txt]");
  app.add_option("--out,--output", o.out, "Where checkpoints go; OUT/latest is the newest")->required();
  app.add_option("--log", o.log, "JSON lines, one a step [OUT/train.jsonl]");
  app.add_flag("--resume", o.resume,
               "Go on from OUT/latest, with its settings; --steps N goes on to N steps, at the rates of a run of N");
  app.add_flag("--other-data", o.other_data, "With --resume: go on with another text than the run was begun with");
  app.add_option("--init-from", o.init_from,
                 "Begin a new run with the parameters of this draft, its kind, layers, conventions and vocabulary");
}

/// What the draft is and reads.
inline void add_draft(CLI::App& app, Options& o) {
  o.backbone_flag = add_named(app, "--backbone", o.form.backbone, "eagle3: the draft's attention block");
  o.version_flag = app.add_option("--eagle3-version", o.form.version, "eagle3: 3.1 adds fc_norm and norm_output")
                       ->check(CLI::IsMember({"3", "3.1"}))
                       ->capture_default_str();
  o.draft_only.push_back(
      app.add_option("--layers", o.layers,
                     "The target's layers that the draft reads, comma-separated; dflash, dspark: -1 is the embedding "
                     "[eagle3: 1, L/2 - 1, L - 4; dflash: from 1 to L - 3; dspark: -1, L/2 - 1, L - 1]")
          ->delimiter(',')
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
  o.draft_only.push_back(add_named(app, "--layer-ids", o.layer_ids,
                                   "What layer id i is: the output of layer i from 0, or the state after i "
                                   "layers"));
  o.draft_only.push_back(add_named(app, "--aux-stream", o.aux_stream,
                                   "What a layer's state is: the running sum, or what the next "
                                   "layer's attention reads"));
  o.vocabulary_flag = app.add_option("--vocabulary-from", o.vocabulary_from,
                                     "eagle3: the draft vocabulary of this draft [the most frequent bytes]");
  o.draft_only.push_back(o.vocabulary_flag);
}

/// This program is one process that does not split a model.
inline void add_parallel(CLI::App& app, Options& o) {
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

inline void add_settings(CLI::App& app, Options& o) {
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
  add("batch", "--batch", s.batch, "Windows that go through the draft together");
  add("accumulate", "--accumulate", s.accumulate, "Batches a step, with the gradient of one large batch");
  add("length", "--length", s.length, "Tokens a window");
  add("ttt_steps", "--ttt-steps", s.ttt_steps, "eagle3: drafted tokens that training unrolls");
  o.flags["lk"] = add_named(app, "--lk", s.lk, "eagle3: loss of the acceptance rate, instead of cross-entropy");
  add("lk_kl_scale", "--lk-kl-scale", s.lk_kl_scale, "eagle3, --lk lambda: cross-entropy weighs s * exp(-d * rate)");
  add("lk_kl_decay", "--lk-kl-decay", s.lk_kl_decay, "eagle3, --lk lambda: d of that");
  o.flags["fc_init"] = add_named(app, "--fc-init", s.fc_init,
                                 "eagle3: fresh fc; last_identity is [0 0 I], the last layer's state as it is");
  o.flags["packing"] = add_named(
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

inline void add_reports(CLI::App& app, Options& o) {
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
  add_device_options(app, o.device);
}

/// Settings that only some kinds of draft have.
inline void refuse_others_flags(const Options& o) {
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

/// Settings that only some losses, or only fresh parameters, have.
inline void refuse_idle_flags(const Options& o) {
  for (const char* key : {"lk_kl_scale", "lk_kl_decay"}) {
    const CLI::Option* flag = o.flags.at(key);
    if (flag->count() == 0 || o.settings.lk == LkLoss::lambda) continue;
    throw Error(flag->get_name(), "it with --lk " + name_of(o.settings.lk), "--lk lambda");
  }
  for (const char* key : {"fc_init", "markov_deviation"}) {
    const CLI::Option* flag = o.flags.at(key);
    if (flag->count() > 0 && o.init_from) throw Error(flag->get_name(), "it with --init-from", "fresh parameters");
  }
}

inline void add_flags(CLI::App& app, Options& o) {
  // A flag given again overrides, so that a script's arguments can be followed by one's own.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_files(app, o);
  add_settings(app, o);
  add_reports(app, o);
  add_parallel(app, o);
  app.footer(
      "Exit status: 0 when all steps are made or the time is over, 1 on an error, 128 + n when signal n stopped it: "
      "on\n"
      "SIGINT (130), SIGTERM (143) and SIGHUP (129) it finishes the step and saves; another one, half a second later "
      "or\n"
      "more, ends it at once.");
}

}  // namespace k3spec::examples
