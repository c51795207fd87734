#pragma once
/// \file
/// The flags of train_draft, and which of them go together.
/// defines: add_flags, in_flags, refuse_others_flags, refuse_idle_flags

#include <cctype>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

namespace k3spec::examples {

inline void add_files(Arguments& arguments, Options& o) {
  arguments.path("--target", o.target, "The target's checkpoint, a directory")->required();
  arguments.path("--train", o.train, "Text to train on [TARGET/train.txt]");
  arguments.path("--heldout", o.heldout, "Text to measure on [TARGET/heldout.txt]");
  arguments.path("--out,--output", o.out, "Where checkpoints go; OUT/latest is the newest")->required();
  arguments.path("--log", o.log, "JSON lines, one a step [OUT/train.jsonl]");
  arguments.toggle(
      "--resume", o.resume,
      "Go on from OUT/latest, with its settings; --steps N goes on to N steps, at the rates of a run of N");
  arguments.toggle("--other-data", o.other_data, "With --resume: go on with another text than the run was begun with");
  arguments.path("--init-from", o.init_from,
                 "Begin a new run with the parameters of this draft, its kind, layers, conventions and vocabulary");
}

/// What the draft is and reads.
inline void add_draft(Arguments& arguments, Options& o) {
  o.draft_flag = arguments.one_of("--draft", o.draft, {"eagle3", "dflash", "dspark"}, "The kind of draft");
  o.backbone_flag = arguments.named("--backbone", o.form.backbone, "eagle3: the draft's attention block");
  o.version_flag =
      arguments.one_of("--eagle3-version", o.form.version, {"3", "3.1"}, "eagle3: 3.1 adds fc_norm and norm_output");
  o.vocabulary_flag = arguments.path("--vocabulary-from", o.vocabulary_from,
                                     "eagle3: the draft vocabulary of this draft [the most frequent bytes]");
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

/// Settings that a checkpoint carries, by their names there.
class SettingFlags {
 public:
  SettingFlags(Arguments& arguments, Options& o) : arguments_(arguments), o_(o) {}

  template <class T>
  void number(const char* key, const char* flag, T& value, const Range<T>& range, const char* help) {
    keep(key, arguments_.number(flag, value, range, help));
  }
  template <class E>
  void named(const char* key, const char* flag, E& value, const char* help) {
    keep(key, arguments_.named(flag, value, help));
  }
  void toggle(const char* key, const char* flag, bool& value, const char* help) {
    keep(key, arguments_.toggle(flag, value, help));
  }

 private:
  void keep(const char* key, CLI::Option* option) {
    o_.flags[key] = option;
    o_.names[key] = option->get_name();
  }

  Arguments& arguments_;
  Options& o_;
};

inline void add_time(Arguments& arguments, Options& o) {
  using S = WarmupCosine;
  S& s = o.settings.schedule;
  SettingFlags flags(arguments, o);
  flags.number("total_steps", "--steps", s.total_steps, S::total_range, "Steps to train, instead of --minutes");
  o.flags["total_steps"]->default_str("");
  o.minutes_flag = arguments.number("--minutes", o.minutes, TrainSettings::positive,
                                    "Time to train. The steps of the warmup are measured; then the number of steps is "
                                    "fixed, and with it the schedule");
  flags.number("lr", "--lr", s.lr, S::lr_range, "Highest learning rate");
  flags.number("warmup_steps", "--warmup", s.warmup_steps, S::warmup_range, "Steps over which the learning rate rises");
  flags.number("min_lr_ratio", "--min-lr-ratio", s.min_lr_ratio, S::min_lr_ratio_range,
               "Last learning rate, as a part of the highest");
}

inline void add_batches(Arguments& arguments, Options& o) {
  using S = TrainSettings;
  S& s = o.settings;
  SettingFlags flags(arguments, o);
  flags.number("batch", "--batch", s.batch, S::batch_range, "Windows that go through the draft together");
  flags.number("accumulate", "--accumulate", s.accumulate, S::accumulate_range,
               "Batches a step, with the gradient of one large batch");
  flags.number("length", "--length", s.length, S::length_range, "Tokens a window");
  flags.named("packing", "--packing", s.packing,
              "Windows are several documents, lines of the text, that do not see each other; apart: nor in the target");
  flags.number("seed", "--seed", s.seed, Range<std::uint64_t>{}, "Of fresh parameters and the choice of windows");
}

inline void add_losses(Arguments& arguments, Options& o) {
  using S = TrainSettings;
  S& s = o.settings;
  SettingFlags flags(arguments, o);
  flags.number("ttt_steps", "--ttt-steps", s.ttt_steps, S::ttt_steps_range,
               "eagle3: drafted tokens that training unrolls");
  flags.named("lk", "--lk", s.lk, "eagle3: loss of the acceptance rate, instead of cross-entropy");
  flags.number("lk_kl_scale", "--lk-kl-scale", s.lk_kl_scale, TttLoss::kl_scale_range,
               "eagle3, --lk lambda: cross-entropy weighs s * exp(-d * rate)");
  flags.number("lk_kl_decay", "--lk-kl-decay", s.lk_kl_decay, TttLoss::kl_decay_range,
               "eagle3, --lk lambda: d of that");
  flags.named("fc_init", "--fc-init", s.fc_init,
              "eagle3: fresh fc; last_identity is [0 0 I], the last layer's state as it is");
  flags.number("anchors", "--anchors", s.anchors, S::anchors_range, "dflash, dspark: blocks in a window");
  flags.number("gamma", "--gamma", s.gamma, S::gamma_range, "dflash, dspark: slot k of a block weighs exp(-k / gamma)");
  flags.toggle("variable_prefix", "--variable-prefix", s.variable_prefix,
               "dflash: blocks begin with a random number of true tokens");
  flags.number("prefix_base", "--prefix-base", s.prefix_base, S::positive,
               "dflash, --variable-prefix: a prefix of l tokens has a chance as this to the power l");
  flags.number("ce_alpha", "--ce-alpha", s.ce_alpha, S::weight_range, "dspark: weight of cross-entropy");
  flags.number("l1_alpha", "--l1-alpha", s.l1_alpha, S::weight_range, "dspark: weight of |p - q|");
  flags.number("confidence_alpha", "--confidence-alpha", s.confidence_alpha, S::weight_range,
               "dspark: weight of the confidence head's loss");
  flags.number("markov_deviation", "--markov-deviation", s.markov_deviation, S::positive,
               "dspark: deviation of the Markov head's fresh table of previous tokens");
}

inline void add_optimizer(Arguments& arguments, Options& o) {
  using S = AdamWOptions;
  S& s = o.settings.optimizer;
  SettingFlags flags(arguments, o);
  flags.number("max_grad_norm", "--clip", s.max_grad_norm, S::max_grad_norm_range, "Largest norm of the gradient");
  flags.number("weight_decay", "--weight-decay", s.weight_decay, S::weight_decay_range, "Decay of matrices");
  flags.number("beta1", "--beta1", s.beta1, S::beta_range, "AdamW's");
  flags.number("beta2", "--beta2", s.beta2, S::beta_range, "AdamW's");
  flags.number("eps", "--eps", s.eps, S::eps_range, "AdamW's");
}

inline void add_reports(Arguments& arguments, Options& o) {
  constexpr Range<index_t> count{1}, pause{0};
  arguments.number("--eval-every", o.eval_every, pause,
                   "Steps between looks at held-out text; 0: only where the run begins and ends");
  arguments.number("--eval-windows", o.eval_windows, count,
                   "Windows of held-out text that are looked at, in whole batches");
  arguments.number("--save-every", o.save_every, pause, "Steps between checkpoints; 0: only where the run ends");
  arguments.number("--keep", o.keep, count, "Checkpoints that are kept");
  arguments.one_of("--progress", o.progress, {"auto", "bar", "lines", "none"}, "What to show");
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

/// Settings that only some losses or blocks have, whatever the draft's kind.
inline void refuse_idle_flags(const Options& o) {
  if (o.flags.at("prefix_base")->count() > 0 && !o.settings.variable_prefix) {
    throw UsageError("--prefix-base", "it without --variable-prefix", "--variable-prefix");
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
  refuse(o.init_from && o.resume, "--init-from", "with --resume", "one of them");
  refuse(o.other_data && !o.resume, "--other-data", "without --resume", "--resume");
  refuse(o.minutes_flag->count() > 0 && o.flags.at("total_steps")->count() > 0, "--minutes", "with --steps",
         "one of them");
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

inline void add_flags(Arguments& arguments, Options& o) {
  add_files(arguments, o);
  add_draft(arguments, o);
  add_time(arguments, o);
  add_batches(arguments, o);
  add_losses(arguments, o);
  add_optimizer(arguments, o);
  add_reports(arguments, o);
  add_parallel(arguments, o);
  arguments.add_to_footer(
      "On SIGINT (130), SIGTERM (143) and SIGHUP (129) it finishes the step and saves; another one, half a second "
      "later\n"
      "or more, ends it at once.");
}

}  // namespace k3spec::examples
