#pragma once
// One DFlash reference case: outputs, every gradient, counters exactly.
#include <tests/parity/block_case.hpp>
#include <k3spec/objectives/dflash_objective.hpp>

namespace k3spec::test {

template <class Cases>
using DFlashCases = BlockCases<Cases, configs::DFlash<Cases>>;

template <class Config, class T>
struct DFlashCase : BlockInputs<DFlashDraft<Config>, T> {
  using Draft = DFlashDraft<Config>;
  using S = accumulate_t<T>;
  static constexpr double tolerance = parity_tolerance<T>;
  using BlockInputs<Draft, T>::ref;

  std::vector<T> embed = ref.template values<T>("param.target.embed_tokens.weight");
  std::vector<T> head = ref.template values<T>("param.target.lm_head.weight");
  Parameters<Draft, T> parameters;
  Gradients<Draft, T> gradients;

  explicit DFlashCase(const std::string& name) : BlockInputs<Draft, T>(Config::folder + name) {
    auto w = parameters.mutable_weights();
    ref.template fill<Draft>(w);
  }

  DFlashTarget<T> target() const {
    return {Matrix<const T>(embed.data(), Draft::vocabulary, Draft::hidden),
            Matrix<const T>(head.data(), Draft::vocabulary, Draft::hidden)};
  }

  void run() {
    DFlashObjective<Draft, T> objective(this->sequences, this->length, this->blocks, this->gamma());
    auto d_w = gradients.weights();
    const auto sums = objective.forward_backward(Cpu{2}, parameters.weights(), d_w, target(), this->batch(),
                                                 std::nullopt, this->d_target());
    CHECK(objective.evaluate_only(Cpu{1}, parameters.weights(), target(), this->batch()) == sums);
    compare_sums(sums);
    compare_rows(objective);
    ref.template compare_gradients<Draft>(d_w, tolerance);
    compare_view(ref, "grad.input.target_hidden", this->d_target(), tolerance);
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

  void compare_rows(const DFlashObjective<Draft, T>& objective) {
    const auto& out = objective.out();
    const index_t rows = out.extent(0);
    compare_view(ref, "output.hidden", out, tolerance);
    std::vector<T> logits(static_cast<std::size_t>(rows * Draft::vocabulary));
    const Matrix<T> view(logits.data(), rows, Draft::vocabulary);
    gemm(Cpu{}, out.matrix(), Op::plain, target().lm_head, Op::transposed, view);
    compare_view(ref, "output.logits", view, tolerance);
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

}  // namespace k3spec::test
