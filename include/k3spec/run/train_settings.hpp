#pragma once
/// \file
/// What decides a run's numbers, apart from data and model. A checkpoint carries it, so that a resumed run goes on with
/// the same.
/// defines: TrainSettings

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <k3spec/batches/documents.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/range.hpp>
#include <k3spec/drafts/fc_init.hpp>
#include <k3spec/io/config_json.hpp>
#include <k3spec/objectives/ttt_loss.hpp>
#include <k3spec/objectives/ttt_metrics.hpp>
#include <k3spec/optimiser/adamw.hpp>
#include <k3spec/optimiser/schedule.hpp>

namespace K3SPEC_NAMESPACE {

/// The numbers of a training run.
struct TrainSettings {
  /// Far more than a step can hold, and so few that no size made of them overflows.
  static constexpr index_t max_rows = std::numeric_limits<std::int32_t>::max();

  index_t batch = 8;                        ///< windows that go through the draft together
  index_t accumulate = 1;                   ///< batches a step: their gradients add up to those of one large batch
  index_t length = 192;                     ///< tokens a window
  index_t ttt_steps = 5;                    ///< EAGLE-3: drafted tokens the unroll trains
  LkLoss lk = LkLoss::none;                 ///< EAGLE-3: the loss, see TttLoss
  double lk_kl_scale = 1, lk_kl_decay = 3;  ///< of LkLoss::lambda
  FcInit fc_init = FcInit::normal;          ///< EAGLE-3
  Packing packing = Packing::none;          ///< apart: windows are cut into documents behind their newlines
  index_t anchors = 24;                     ///< block drafts: blocks in a window
  /// Block drafts: slots weigh exp(-k / gamma), k counted from the first supervised one; infinity: all alike.
  double gamma = 4;
  /// DFlash: blocks begin with a random number of the text's own tokens, `l` of them with a chance as prefix_base^l.
  bool variable_prefix = false;
  double prefix_base = 0.9;
  /// DSpark: weights of cross-entropy, |p - q| and the confidence head's loss.
  double ce_alpha = 0.1, l1_alpha = 0.9, confidence_alpha = 1;
  /// DSpark: deviation of the Markov head's fresh table of previous tokens. Wide: W2 starts small, and an update of its
  /// values then moves the logits as fast as the rest of the draft learns.
  double markov_deviation = 4;
  std::uint64_t seed = 1;  ///< of fresh parameters and of the choice of windows
  WarmupCosine schedule;
  AdamWOptions optimizer;

  /// Rows, and so tokens, of a batch.
  constexpr index_t rows() const { return batch * length; }
  /// Windows of a step, and their tokens.
  constexpr index_t windows() const { return accumulate * batch; }
  constexpr index_t tokens() const { return accumulate * rows(); }
  constexpr TttLoss ttt_loss() const { return {lk, lk_kl_scale, lk_kl_decay}; }

  /// What each may be for itself.
  static constexpr Range<index_t> batch_range{1}, accumulate_range{1}, length_range{2}, anchors_range{1};
  static constexpr Range<index_t> ttt_steps_range{1, TttMetrics::max_steps};
  static constexpr Range<double> gamma_range{.least = 0,
                                             .most = std::numeric_limits<double>::infinity(),
                                             .above = true,
                                             .meaning = "infinity: slots weigh alike"};
  static constexpr Range<double> positive{.least = 0, .above = true}, weight_range{.least = 0};

  /// Refuses numbers out of range.
  /// \throws Error naming the setting
  void check() const {
    batch_range.check("batch", batch);
    accumulate_range.check("accumulate", accumulate);
    length_range.check("length", length);
    ttt_steps_range.check("ttt_steps", ttt_steps);
    anchors_range.check("anchors", anchors);
    ttt_loss().check();
    if (packing == Packing::through_target) {
      throw Error("packing", "through_target",
                  "none or apart: Kimi K3's recurrent layers carry their state over a document's end");
    }
    gamma_range.check("gamma", gamma);
    positive.check("markov_deviation", markov_deviation);
    positive.check("prefix_base", prefix_base);
    weight_range.check("ce_alpha", ce_alpha);
    weight_range.check("l1_alpha", l1_alpha);
    weight_range.check("confidence_alpha", confidence_alpha);
    if (batch > max_rows / length) {
      throw Error("batch and length", fmt::format("{} windows of {}", batch, length),
                  fmt::format("at most {} tokens a step", max_rows));
    }
    if (accumulate > max_rows / rows()) {
      throw Error("accumulate", fmt::format("{} batches of {} tokens", accumulate, rows()),
                  fmt::format("at most {} tokens a step", max_rows));
    }
    schedule.check();
    optimizer.check();
  }

  /// Numbers, truths and names, but for a number of steps that is not fixed (null) and what may be infinite
  /// ("infinity").
  io::json to_json() const {
    const bool open = schedule.total_steps == WarmupCosine::open;
    const auto or_infinity = [](double x) { return std::isfinite(x) ? io::json(x) : io::json(infinity); };
    return {{"batch", batch},
            {"accumulate", accumulate},
            {"length", length},
            {"ttt_steps", ttt_steps},
            {"lk", io::detail::value_name(lk)},
            {"lk_kl_scale", lk_kl_scale},
            {"lk_kl_decay", lk_kl_decay},
            {"fc_init", io::detail::value_name(fc_init)},
            {"packing", io::detail::value_name(packing)},
            {"anchors", anchors},
            {"gamma", or_infinity(gamma)},
            {"variable_prefix", variable_prefix},
            {"prefix_base", prefix_base},
            {"ce_alpha", ce_alpha},
            {"l1_alpha", l1_alpha},
            {"confidence_alpha", confidence_alpha},
            {"markov_deviation", markov_deviation},
            {"seed", seed},
            {"lr", schedule.lr},
            {"warmup_steps", schedule.warmup_steps},
            {"total_steps", open ? io::json(nullptr) : io::json(schedule.total_steps)},
            {"min_lr_ratio", schedule.min_lr_ratio},
            {"beta1", optimizer.beta1},
            {"beta2", optimizer.beta2},
            {"eps", optimizer.eps},
            {"weight_decay", optimizer.weight_decay},
            {"max_grad_norm", or_infinity(optimizer.max_grad_norm)},
            {"max_skipped_in_a_row", optimizer.max_skipped_in_a_row}};
  }

  /// Reads settings from a checkpoint's JSON.
  /// \param subject  what the JSON is, for messages
  /// \throws Error naming the setting that is absent, of another type or out of range
  static TrainSettings from_json(const io::json& j, const std::string& subject) {
    TrainSettings s;
    const Fields fields{j, subject};
    fields.read("batch", s.batch);
    fields.read("accumulate", s.accumulate);
    fields.read("length", s.length);
    fields.read("ttt_steps", s.ttt_steps);
    fields.read("lk", s.lk);
    fields.read("lk_kl_scale", s.lk_kl_scale);
    fields.read("lk_kl_decay", s.lk_kl_decay);
    fields.read("fc_init", s.fc_init);
    fields.read("packing", s.packing);
    fields.read("anchors", s.anchors);
    fields.read_or("gamma", infinity, std::numeric_limits<double>::infinity(), s.gamma);
    fields.read("variable_prefix", s.variable_prefix);
    fields.read("prefix_base", s.prefix_base);
    fields.read("ce_alpha", s.ce_alpha);
    fields.read("l1_alpha", s.l1_alpha);
    fields.read("confidence_alpha", s.confidence_alpha);
    fields.read("markov_deviation", s.markov_deviation);
    fields.read("seed", s.seed);
    fields.read("lr", s.schedule.lr);
    fields.read("warmup_steps", s.schedule.warmup_steps);
    fields.read_or("total_steps", nullptr, WarmupCosine::open, s.schedule.total_steps);
    fields.read("min_lr_ratio", s.schedule.min_lr_ratio);
    fields.read("beta1", s.optimizer.beta1);
    fields.read("beta2", s.optimizer.beta2);
    fields.read("eps", s.optimizer.eps);
    fields.read("weight_decay", s.optimizer.weight_decay);
    fields.read_or("max_grad_norm", infinity, std::numeric_limits<double>::infinity(), s.optimizer.max_grad_norm);
    fields.read("max_skipped_in_a_row", s.optimizer.max_skipped_in_a_row);
    try {
      s.check();
    } catch (const Error& e) {
      throw e.within(subject);
    }
    return s;
  }

 private:
  static constexpr const char* infinity = "infinity";

  /// Settings by name. No value is converted to another type: 8.9 windows are an error, not 8.
  struct Fields {
    const io::json& j;
    const std::string& subject;

    void read(const char* name, index_t& value) const {
      const io::json& found = at(name);
      if (!is_index(found)) fail(name, found, "an integer");
      value = found.get<index_t>();
    }
    void read(const char* name, std::uint64_t& value) const {
      const io::json& found = at(name);
      if (!found.is_number_unsigned() && !(is_index(found) && found.get<index_t>() >= 0)) {
        fail(name, found, "an integer of 0 to 2^64 - 1");
      }
      value = found.get<std::uint64_t>();
    }
    void read(const char* name, double& value) const {
      const io::json& found = at(name);
      if (!found.is_number()) fail(name, found, "a number");
      value = found.get<double>();
    }
    void read(const char* name, bool& value) const {
      const io::json& found = at(name);
      if (!found.is_boolean()) fail(name, found, "true or false");
      value = found.get<bool>();
    }
    template <class E>
      requires std::is_enum_v<E>
    void read(const char* name, E& value) const {
      const auto known = io::detail::named_value<E>(at(name));
      if (!known) fail(name, at(name), io::detail::all_names<E>());
      value = *known;
    }
    /// `meaning` where the file has `word`, and only there.
    template <class T>
    void read_or(const char* name, const io::json& word, T meaning, T& value) const {
      if (at(name) == word) {
        value = meaning;
      } else {
        read(name, value);
        if (value == meaning) fail(name, at(name), "a number that is in range, or " + word.dump());
      }
    }

   private:
    static bool is_index(const io::json& found) {
      constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<index_t>::max());
      return found.is_number_integer() && !(found.is_number_unsigned() && found.get<std::uint64_t>() > most);
    }
    [[noreturn]] void fail(const char* name, const io::json& found, const std::string& wanted) const {
      throw Error(subject + ": " + name, io::detail::excerpt(found), wanted);
    }
    const io::json& at(const char* name) const {
      const auto found = j.is_object() ? j.find(name) : j.end();
      if (found == j.end()) throw Error(subject + ": " + name, "nothing", "the setting it was written with");
      return *found;
    }
  };
};

}  // namespace K3SPEC_NAMESPACE
