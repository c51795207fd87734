#pragma once
// The alpha loss's gradients with the sides of its minima given. α = Σ_v min(p_v, q_v) has a derivative that jumps
// where p_v and q_v cross: two precisions agree on it only where they agree on which is smaller. So double takes the
// sides that bfloat16 took, and each that is another than its own must be a tie within rounding.
#include <cmath>
#include <vector>

#include <tests/parity/eagle3.hpp>

namespace k3spec::test {

/// What storage in bfloat16 may cost a result of the first `steps` steps, of its tensor's largest value: on the way to
/// it stand at most two stored tensors before the steps (normed states, fc), 14 in each (fused; q_a, its norm, q, its
/// rotation; o, gate, their product; the sum, its norm; gate or up, their product; state, out) and the head's input,
/// and each value of them is rounded once, by no more than 2⁻⁹ of it. All else is kept in float32.
constexpr double bfloat16_tolerance(index_t steps) { return static_cast<double>(2 + 14 * steps + 1) * 0x1p-9; }

/// On the host, of a case that ran on D.
template <class Config, class D>
class AlphaAtSides {
 public:
  using Draft = Eagle3Draft<Config>;
  using Case = Eagle3Case<Config, double, D>;

  AlphaAtSides(Case& c, const TttNumbers& result)
      : case_(c),
        result_(result),
        memory_(plan_bytes([&](ArenaPlan& a) { Eagle3Activations<Draft, double>::allocate(a, c.rows, c.steps()); })) {
    acts_ = Eagle3Activations<Draft, double>::allocate(memory_, c.rows, c.steps());
    const auto batch = c.batch();
    Draft::template forward<double>(Cpu{}, c.parameters.weights(),
                                    typename Draft::template Inputs<double, CausalVisibility>{
                                        batch.input_ids, c.length, batch.aux, visible(), positions()},
                                    acts_);
    p_.resize(static_cast<std::size_t>(c.rows * n));
    const Matrix<double> p(p_.data(), c.rows, n);
    c.teacher().selected_logits(Cpu{}, 0, p);
    evaluate(Cpu{}, softmax_formula(), p, p);
  }

  /// Overwrites the case's gradients and d_aux. \param sides  logits of each step, whose q decides
  void run(const std::vector<std::vector<double>>& sides) {
    const Case& c = case_;
    case_.gradients.zero();
    Arena scratch(std::max(Draft::template scratch_bytes<double>(c.rows, c.steps()),
                           Draft::template head_scratch_bytes<double>(c.rows)));
    std::vector<std::vector<double>> d_outs;
    std::vector<Rows<double, Draft::hidden>> d_out;
    for (index_t k = 0; k < c.steps(); ++k) {
      d_outs.emplace_back(static_cast<std::size_t>(c.rows * Draft::hidden));
      d_out.emplace_back(d_outs.back().data(), c.rows);
      head(k, sides[static_cast<std::size_t>(k)], d_out.back(), scratch);
    }
    Draft::template backward<double>(
        Workspace(Cpu{}, scratch), c.parameters.weights(), case_.gradients.weights(),
        typename Draft::template Inputs<double, CausalVisibility>{{}, c.length, c.batch().aux, visible(), positions()},
        acts_, std::span<const Rows<double, Draft::hidden>>(d_out),
        Matrix<double>(case_.d_aux.data(), c.rows, Draft::aux_width));
  }

 private:
  static constexpr index_t n = Draft::draft_vocabulary;

  CausalVisibility visible() const {
    if (!case_.start.empty()) return {nullptr, case_.length, case_.start.data()};
    return {case_.attention_mask.data(), case_.length};
  }
  RotaryPositions positions() const {
    return {case_.position_ids.empty() ? nullptr : case_.position_ids.data(), case_.length};
  }

  void head(index_t k, const std::vector<double>& sides, const Rows<double, Draft::hidden>& d_out, Arena& scratch) {
    const auto w = case_.parameters.weights();
    std::vector<double> x(static_cast<std::size_t>(case_.rows * Draft::hidden));
    std::vector<double> logits(static_cast<std::size_t>(case_.rows * n)), other = sides, d_logits(logits.size());
    const Rows<double, Draft::hidden> xv(x.data(), case_.rows);
    const auto of = [&](std::vector<double>& v) { return Rows<double, n>(v.data(), case_.rows); };
    Draft::head_input(Cpu{}, w, acts_.step(k).out, xv);
    Draft::compute_logits(Cpu{}, w, xv, of(logits));
    evaluate(Cpu{}, softmax_formula(), of(logits), of(logits));
    evaluate(Cpu{}, softmax_formula(), of(other), of(other));
    for (index_t r = 0; r < case_.rows; ++r) {
      if (supervised(r, k)) row(k, p_.data() + (r + k) * n, of(logits).row(r), of(other).row(r), of(d_logits).row(r));
    }
    Draft::template head_backward<double>(Workspace(Cpu{}, scratch), w, case_.gradients.weights(), acts_.step(k).out,
                                          xv, of(d_logits), d_out);
  }

  bool supervised(index_t r, index_t k) const {
    if (k >= predicted_steps(case_.batch(), r)) return false;
    const auto teacher = static_cast<std::size_t>(r + k);
    return case_.loss_mask[teacher] != 0 && case_.t2d[static_cast<std::size_t>(case_.top[teacher])] != 0;
  }

  /// d(-w log α)/dx_j = -w/α · q_j (s_j - Σ s q), s = 1 where q is smaller, 1/2 on a tie, 0 where p is.
  void row(index_t k, const double* p, const double* q, const double* of_side, double* d) const {
    const auto side = [](double a, double b) { return a < b ? 1.0 : a > b ? 0.0 : 0.5; };
    double alpha = 0, mean = 0, weights = 0;
    for (index_t i = 0; i < case_.steps(); ++i) weights += std::pow(ttt_decay, i);
    for (index_t v = 0; v < n; ++v) {
      alpha += std::min(p[v], q[v]), mean += side(of_side[v], p[v]) * q[v];
      if (side(of_side[v], p[v]) != side(q[v], p[v])) CHECK(std::abs(q[v] / p[v] - 1) <= bfloat16_tolerance(k + 1));
    }
    const double weight =
        std::pow(ttt_decay, k) / weights / static_cast<double>(result_.step_supervised[static_cast<std::size_t>(k)]);
    for (index_t v = 0; v < n; ++v) d[v] = -weight / alpha * q[v] * (side(of_side[v], p[v]) - mean);
  }

  Case& case_;
  const TttNumbers& result_;
  Arena memory_;
  Eagle3Activations<Draft, double> acts_{};
  std::vector<double> p_;
};

}  // namespace k3spec::test
