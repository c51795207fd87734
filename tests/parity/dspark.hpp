#pragma once
// One DSpark reference case: outputs, every gradient, diagnostics.
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

template <class Config, class T>
struct DSparkCase : BlockInputs<DSparkDraft<Config>, T> {
  using Draft = DSparkDraft<Config>;
  using Objective = DSparkObjective<Draft, T>;
  using S = accumulate_t<T>;
  static constexpr double tolerance = parity_tolerance<T>;
  using BlockInputs<Draft, T>::ref;

  std::vector<T> last_hidden = ref.template values<T>("input.target_last_hidden");
  Parameters<Draft, T> parameters;
  Gradients<Draft, T> gradients;

  explicit DSparkCase(const std::string& name) : BlockInputs<Draft, T>(Config::folder + name) {
    auto w = parameters.mutable_weights();
    ref.template fill<Draft>(w);
  }

  typename Objective::Batch spark_batch() const {
    return {this->batch(), Rows<const T, Draft::hidden>(last_hidden.data(), this->sequences * this->length)};
  }

  void run() {
    Objective objective(this->sequences, this->length, this->blocks, {.gamma = this->gamma()});
    auto d_w = gradients.weights();
    const auto sums =
        objective.forward_backward(Cpu{2}, parameters.weights(), d_w, spark_batch(), std::nullopt, this->d_target());
    CHECK(objective.evaluate_only(Cpu{1}, parameters.weights(), spark_batch()) == sums);
    compare_sums(sums);
    compare_rows(objective);
    ref.template compare_gradients<Draft>(d_w, tolerance);
    compare_view(ref, "grad.input.target_hidden", this->d_target(), tolerance);
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
    const auto w = parameters.weights();
    const auto& out = objective.out();
    const auto& targets = objective.targets();
    const index_t rows = out.extent(0);
    std::vector<T> logits(static_cast<std::size_t>(rows * Draft::vocabulary));
    const Rows<T, Draft::vocabulary> view(logits.data(), rows);
    Draft::Head::forward(Cpu{}, w.lm_head, out, view);
    if constexpr (Draft::has_markov) Draft::Markov::add_logits(Cpu{}, w.markov_head, objective.latents(), view);
    compare_view(ref, "output.draft_logits", view, tolerance);
    std::vector<T> last(static_cast<std::size_t>(rows * Draft::hidden));
    const Rows<T, Draft::hidden> last_view(last.data(), rows);
    gather_rows(Cpu{}, targets.teacher_rows, spark_batch().target_last_hidden, last_view);
    Draft::Head::forward(Cpu{}, w.lm_head, last_view, view);
    compare_view(ref, "output.aligned_target_logits", view, tolerance);
    compare_view(ref, "output.hidden", out, tolerance);
    compare_view(ref, "output.target_ids", targets.labels, 0);
    compare_view(ref, "output.eval_mask", targets.supervised, 0);
    if constexpr (Draft::has_confidence) compare_view(ref, "output.confidence", objective.confidence(), tolerance);
  }
};

}  // namespace k3spec::test
