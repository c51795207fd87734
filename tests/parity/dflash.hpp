#pragma once
// The DFlash reference cases on any device: outputs, every gradient, counters exactly.
#include <tests/parity/block_case.hpp>
#include <k3spec/objectives/dflash_objective.hpp>

namespace k3spec::test {

template <class Cases>
using DFlashCases = BlockCases<Cases, configs::DFlash<Cases>>;

template <class Config, class T, class D>
struct DFlashCase : BlockInputs<DFlashDraft<Config>, T, D> {
  using Draft = DFlashDraft<Config>;
  using Inputs = BlockInputs<Draft, T, D>;
  using typename Inputs::S, typename Inputs::E;
  using Objective = DFlashObjective<Draft, T, chunk_rows(Draft::vocabulary), D>;
  static constexpr double tolerance = parity_tolerance<T>;
  using Inputs::ref, Inputs::device, Inputs::compare, Inputs::model;

  Mirror<T, D> embed{ref.template values<T>("param.target.embed_tokens.weight")};
  Mirror<T, D> head{ref.template values<T>("param.target.lm_head.weight")};

  explicit DFlashCase(const std::string& name) : Inputs(Config::folder + name) {}

  DFlashTarget<E> target() { return {embed.matrix(Draft::hidden), head.matrix(Draft::hidden)}; }

  void run() {
    Objective objective(this->sequences, this->length, this->blocks, this->gamma(), device());
    const auto w = std::as_const(model->parameters).weights();
    const auto sums = objective.forward_backward(device(), w, model->gradients.weights(), target(), this->batch(),
                                                 std::nullopt, this->d_target());
    CHECK(objective.evaluate_only(device(1), w, target(), this->batch()) == sums);
    compare_sums(sums);
    compare_rows(objective);
    this->compare_gradients(tolerance);
    // The target is frozen; the reference has gradients of it because its tensors stand among the parameters.
    for (const char* name : {"grad.param.target.embed_tokens.weight", "grad.param.target.lm_head.weight"}) {
      if (ref.contains(name)) ref.omit(name, "the target is frozen");
    }
    ref.finish();
  }

  void compare_sums(const DFlashSums<Draft::block_size>& sums) {
    ref.compare("output.loss", sums.mean_loss(), tolerance);
    ref.compare("output.loss_weight", sums.loss.denominator, 1e-15);
    ref.compare("output.valid_tokens", static_cast<double>(sums.supervised), 0);
    ref.compare("output.correct_tokens", static_cast<double>(sums.correct), 0);
    ref.compare("output.accept_len_sum", static_cast<double>(sums.accept_len_sum), 0);
    ref.compare("output.valid_blocks", static_cast<double>(sums.supervised_blocks), 0);
    // A block's length is the anchor and, of each depth, whether the token is reached and right.
    double length = static_cast<double>(sums.supervised_blocks), reached = length;
    for (const Ratio& depth : sums.depth_acceptance) {
      length += depth.numerator;
      CHECK(depth.numerator <= depth.denominator);
      CHECK(depth.denominator <= reached);
    }
    CHECK(length == static_cast<double>(sums.accept_len_sum));
  }

  void compare_rows(const Objective& objective) {
    const auto& out = objective.out();
    const index_t rows = out.extent(0);
    compare("output.hidden", out, tolerance);
    auto logits = empty<T, D>(rows, Draft::vocabulary);
    const auto view = logits.matrix(Draft::vocabulary);
    gemm(device(1), out.matrix(), Op::plain, target().lm_head, Op::transposed, view);
    compare("output.logits", view, tolerance);
    compare_view(ref, "output.target_ids", objective.targets().labels, 0);
    compare_mask(objective.targets(), rows);
  }

  /// The reference's mask knows neither that slot 0 predicts nothing nor the prefix: where they are, the anchor and
  /// the tokens shown say what it holds.
  void compare_mask(const BlockTargets& targets, index_t rows) {
    std::vector<double> mask;
    for (index_t r = 0; r < rows; ++r) {
      const index_t block = r / Draft::block_size, k = r % Draft::block_size;
      const index_t at = this->anchors[static_cast<std::size_t>(block)] + k;
      const auto row = static_cast<std::size_t>(block / this->blocks * this->length + at);
      const bool shown = k == 0 || (!this->prefix.empty() && k < this->prefix[static_cast<std::size_t>(block)]);
      const bool kept = this->keep[static_cast<std::size_t>(block)] != 0;
      mask.push_back(shown ? (kept && at < this->length && this->loss_mask[row] != 0) : targets.supervised(r) != 0);
    }
    ref.compare("output.block_mask", mask, 0);
  }
};

template <class Cases>
struct DFlashNoQLora : DFlashCases<Cases> {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
};
template <class Cases>
struct DFlashCausalWindow : DFlashCases<Cases> {
  static constexpr bool block_causal = true;
  static constexpr std::optional<index_t> sliding_window = 6;
};

/// All of them, in sizes of either set.
template <class Cases, class T, class D = Cpu>
void dflash_cases() {
  for (const char* name : {"dflash", "dflash_variable_prefix", "dflash_packed"}) {
    DFlashCase<DFlashCases<Cases>, T, D>(name).run();
  }
  DFlashCase<DFlashNoQLora<Cases>, T, D>("dflash_no_decay_no_q_lora").run();
  DFlashCase<DFlashCausalWindow<Cases>, T, D>("dflash_causal_window").run();
}

}  // namespace k3spec::test
