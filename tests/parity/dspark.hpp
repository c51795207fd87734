#pragma once
// The DSpark reference cases on any device: outputs, every gradient, diagnostics.
#include <tests/parity/block_case.hpp>
#include <k3spec/objectives/dspark_objective.hpp>

namespace k3spec::test {

/// As the cases are when they say nothing else: a vanilla head, and confidence that reads it.
template <class Cases>
struct DSparkCases : BlockCases<Cases, configs::DSpark<Cases>> {
  static constexpr index_t markov_rank = BlockSizes<Cases>::markov_rank;
  static constexpr bool train_embeddings = false;
};
template <class Cases>
struct DSparkPlain : DSparkCases<Cases> {
  static constexpr index_t markov_rank = 0;
  static constexpr bool enable_confidence_head = false, confidence_head_with_markov = false;
};
template <class Cases>
struct DSparkWithoutConfidence : DSparkCases<Cases> {
  static constexpr bool enable_confidence_head = false, confidence_head_with_markov = false;
};
template <class Cases>
struct DSparkGated : DSparkCases<Cases> {
  static constexpr MarkovHeadType markov_head_type = MarkovHeadType::gated;
  static constexpr bool confidence_head_with_markov = false;
};
template <class Cases>
struct DSparkRnn : DSparkCases<Cases> {
  static constexpr MarkovHeadType markov_head_type = MarkovHeadType::rnn;
};
template <class Cases>
struct DSparkTrainable : DSparkCases<Cases> {
  static constexpr bool train_embeddings = true;
};

template <class Config, class T, class D>
struct DSparkCase : BlockInputs<DSparkDraft<Config>, T, D> {
  using Draft = DSparkDraft<Config>;
  using Inputs = BlockInputs<Draft, T, D>;
  using typename Inputs::S, typename Inputs::E;
  using Objective = DSparkObjective<Draft, T, chunk_rows(Draft::vocabulary), D>;
  static constexpr double tolerance = parity_tolerance<T>;
  using Inputs::ref, Inputs::device, Inputs::compare, Inputs::model;

  Mirror<T, D> last_hidden{ref.template values<T>("input.target_last_hidden")};

  explicit DSparkCase(const std::string& name) : Inputs(Config::folder + name) {}

  typename Objective::Batch spark_batch() { return {this->batch(), rows_of<Draft::hidden>(last_hidden)}; }

  void run() {
    Objective objective(this->sequences, this->length, this->blocks, {.gamma = this->gamma()}, device());
    const auto w = std::as_const(model->parameters).weights();
    const auto sums = objective.forward_backward(device(), w, model->gradients.weights(), spark_batch(), std::nullopt,
                                                 this->d_target());
    CHECK(objective.evaluate_only(device(1), w, spark_batch()) == sums);
    compare_sums(sums);
    compare_rows(objective);
    this->compare_gradients(tolerance);
    ref.finish();
  }

  void compare_sums(const typename Objective::Sums& sums) {
    ref.compare("output.loss", sums.mean_loss(), tolerance);
    ref.compare("output.ce_loss", block_loss_mean(sums.cross_entropy), tolerance);
    ref.compare("output.l1_loss", block_loss_mean(sums.distance), tolerance);
    ref.compare("output.confidence_loss", block_loss_mean(sums.confidence), tolerance);
    std::vector<double> rate, slots;
    for (const Ratio& r : sums.accept_rate) rate.push_back(r.numerator), slots.push_back(r.denominator);
    ref.compare("output.accept_rate_per_pos_num", rate, tolerance);
    ref.compare("output.accept_rate_per_pos_den", slots, 0);
    ref.compare("output.tau_num", sums.accept_length.numerator, tolerance);
    ref.compare("output.tau_den", sums.accept_length.denominator, 0);
    if constexpr (Draft::has_confidence) {
      ref.compare("output.confidence_abs_error_num", sums.confidence_error.numerator, tolerance);
      ref.compare("output.confidence_bias_num", sums.confidence_bias.numerator, tolerance);
      ref.compare("output.confidence_cumprod_bias_num", sums.confidence_prefix_bias.numerator, tolerance);
      ref.compare("output.confidence_diag_den", sums.confidence_bias.denominator, 1e-15);
      CHECK(sums.confidence_error.denominator == sums.confidence_bias.denominator);
      CHECK(sums.confidence_prefix_bias.denominator == sums.confidence_bias.denominator);
    }
  }

  void compare_rows(const Objective& objective) {
    const auto w = std::as_const(model->parameters).weights();
    const auto& out = objective.out();
    const auto& targets = objective.targets();
    const index_t rows = out.extent(0);
    auto logits = empty<T, D>(rows, Draft::vocabulary), last = empty<T, D>(rows, Draft::hidden);
    Mirror<index_t, D> teacher_rows(
        std::vector<index_t>(targets.teacher_rows.data(), targets.teacher_rows.data() + targets.teacher_rows.size()));
    const auto view = rows_of<Draft::vocabulary>(logits);
    const auto last_view = rows_of<Draft::hidden>(last);
    Draft::Head::forward(device(1), w.lm_head, out, view);
    if constexpr (Draft::has_markov) Draft::Markov::add_logits(device(1), w.markov_head, objective.latents(), view);
    compare("output.draft_logits", view, tolerance);
    gather_rows(device(1), teacher_rows.vector(), spark_batch().target_last_hidden, last_view);
    Draft::Head::forward(device(1), w.lm_head, last_view, view);
    compare("output.aligned_target_logits", view, tolerance);
    compare("output.hidden", out, tolerance);
    compare_view(ref, "output.target_ids", targets.labels, 0);
    compare_view(ref, "output.eval_mask", targets.supervised, 0);
    if constexpr (Draft::has_confidence) compare("output.confidence", objective.confidence(), tolerance);
  }
};

// ---- In sizes of either set

template <class Cases, class T, class D = Cpu>
void dspark_cases() {
  DSparkCase<DSparkPlain<Cases>, T, D>("dspark_plain").run();
  DSparkCase<DSparkCases<Cases>, T, D>("dspark_vanilla").run();
  DSparkCase<DSparkWithoutConfidence<Cases>, T, D>("dspark_packed").run();
}
/// Of the other heads.
template <class Cases, class T, class D = Cpu>
void dspark_head_cases() {
  DSparkCase<DSparkGated<Cases>, T, D>("dspark_gated").run();
  DSparkCase<DSparkRnn<Cases>, T, D>("dspark_rnn").run();
  DSparkCase<DSparkTrainable<Cases>, T, D>("dspark_trainable_head").run();
}

}  // namespace k3spec::test
