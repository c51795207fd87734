#pragma once
// One EAGLE-3 reference case: outputs, every gradient, counters exactly.
#include <doctest/doctest.h>

#include <memory>

#include <tests/support/case_configs.hpp>
#include <tests/support/reference_case.hpp>
#include <tests/support/ttt_numbers.hpp>
#include <k3spec/objectives/ttt_objective.hpp>

namespace k3spec::test {

template <class Config, class T>
struct Eagle3Case {
  using Draft = Eagle3Draft<Config>;
  using S = accumulate_t<T>;
  static constexpr double tolerance = parity_tolerance<T>;

  ReferenceCase ref;
  std::vector<index_t> ids = ref.template values<index_t>("input.input_ids");
  std::vector<index_t> selected = ref.template values<index_t>("input.selected_token_ids");
  std::vector<std::uint8_t> attention_mask = ref.template values<std::uint8_t>("input.attention_mask");
  std::vector<std::uint8_t> loss_mask = ref.template values<std::uint8_t>("input.loss_mask");
  std::vector<std::uint8_t> t2d = ref.template values<std::uint8_t>("input.t2d");
  std::vector<T> aux = ref.template values<T>("input.aux_hidden_states");
  std::vector<T> target_logits = ref.template values<T>("input.target_logits");
  std::vector<index_t> start, remaining, position_ids;
  index_t rows = static_cast<index_t>(ids.size()), length = ref.shape("input.input_ids")[1];
  std::vector<index_t> top = std::vector<index_t>(ids.size());
  std::vector<S> d_aux = std::vector<S>(aux.size(), S(NAN));
  Parameters<Draft, T> parameters;
  Gradients<Draft, T> gradients;
  std::unique_ptr<TttObjective<Draft, T>> objective;

  explicit Eagle3Case(const std::string& name) : ref(ReferenceCase::load(Config::folder + name)) {
    auto w = parameters.mutable_weights();
    ref.template fill<Draft>(w);
    argmax(Cpu{}, Matrix<const T>(target_logits.data(), rows, Draft::vocabulary), Vector<index_t>(top.data(), rows));
    if (ref.contains("input.seq_lens")) read_documents();
  }

  TttBatch<T, Draft::aux_width> batch() const {
    return {length,
            Vector<const index_t>(ids.data(), rows),
            Vector<const std::uint8_t>(attention_mask.data(), rows),
            Vector<const std::uint8_t>(loss_mask.data(), rows),
            Rows<const T, Draft::aux_width>(aux.data(), rows),
            Vector<const index_t>(top.data(), rows),
            Vector<const std::uint8_t>(t2d.data(), Draft::vocabulary),
            {view(start), view(remaining)},
            view(position_ids)};
  }
  LogitsTeacher<T> teacher() const {
    return {Matrix<const T>(target_logits.data(), rows, Draft::vocabulary),
            Vector<const index_t>(selected.data(), Draft::draft_vocabulary)};
  }

  static Vector<const index_t> view(const std::vector<index_t>& v) {
    return Vector<const index_t>(v.data(), static_cast<index_t>(v.size()));
  }

  /// The objective gets the reference's position ids in double, and makes them itself in other types.
  void read_documents() {
    const auto lens = ref.template values<index_t>("input.seq_lens");
    const auto& shape = ref.shape("input.seq_lens");
    start.resize(ids.size()), remaining.resize(ids.size());
    document_bounds(Matrix<const index_t>(lens.data(), shape[0], shape[1]), length, Vector<index_t>(start.data(), rows),
                    Vector<index_t>(remaining.data(), rows));
    CHECK(remaining == ref.template values<index_t>("input.doc_remaining"));
    if constexpr (std::is_same_v<T, double>) position_ids = ref.template values<index_t>("input.position_ids");
  }

  TttLoss loss() const {
    const io::json c = ref.config();
    TttLoss loss;
    if (c.contains("lk") && !c["lk"].is_null()) loss.lk = c["lk"] == "alpha" ? LkLoss::alpha : LkLoss::lambda;
    loss.kl_scale = c.value("lk_kl_scale", loss.kl_scale);
    loss.kl_decay = c.value("lk_kl_decay", loss.kl_decay);
    return loss;
  }

  void run() {
    const TttNumbers r = forward_backward();
    compare_counters(r, steps());
    for (index_t k = 0; k < steps(); ++k) ref.compare("output.logits." + std::to_string(k), logits(k), tolerance);
    compare_teacher();
    auto d_w = gradients.weights();
    ref.template compare_gradients<Draft>(d_w, tolerance);
    ref.compare("grad.input.aux_hidden_states", d_aux.data(), static_cast<index_t>(d_aux.size()), tolerance);
    ref.finish();
  }

  index_t steps() const { return ref.config()["ttt_steps"]; }

  TttNumbers forward_backward() {
    objective = std::make_unique<TttObjective<Draft, T>>(rows, steps(), loss());
    return objective->forward_backward(Cpu{2}, parameters.weights(), gradients.weights(), batch(), teacher(),
                                       std::nullopt, Matrix<S>(d_aux.data(), rows, Draft::aux_width));
  }

  /// Of step k, as wide as sums are.
  std::vector<double> logits(index_t k) const {
    std::vector<T> x(static_cast<std::size_t>(rows * Draft::hidden));
    std::vector<S> y(static_cast<std::size_t>(rows * Draft::draft_vocabulary));
    const Rows<T, Draft::hidden> xv(x.data(), rows);
    Draft::head_input(Cpu{}, parameters.weights(), objective->out(k), xv);
    Draft::compute_logits(Cpu{}, parameters.weights(), xv, Rows<S, Draft::draft_vocabulary>(y.data(), rows));
    return {y.begin(), y.end()};
  }

  void compare_counters(const TttNumbers& r, index_t steps) {
    ref.compare("output.loss", r.loss, tolerance);
    ref.compare("output.step_losses", r.step_losses.data(), steps, tolerance);
    ref.compare("output.correct", static_cast<double>(r.correct), 0);
    ref.compare("output.valid", static_cast<double>(r.supervised), 0);
    ref.compare("output.step_prefix_hits", r.step_prefix_hits.data(), steps, 0);
    ref.compare("output.step_valid", r.step_chains.data(), steps, 0);
    ref.compare("output.accept_length", r.accept_length, 1e-15);
  }

  void compare_teacher() {
    std::vector<S> p(static_cast<std::size_t>(rows * Draft::draft_vocabulary));
    const Matrix<S> pv(p.data(), rows, Draft::draft_vocabulary);
    teacher().selected_logits(Cpu{}, 0, pv);
    evaluate(Cpu{}, softmax_formula(), pv, pv);
    ref.compare("output.target_probs", p.data(), static_cast<index_t>(p.size()), tolerance);
    std::vector<double> supervised;
    for (std::size_t r = 0; r < ids.size(); ++r) {
      supervised.push_back(loss_mask[r] != 0 && t2d[static_cast<std::size_t>(top[r])] != 0 ? 1 : 0);
    }
    ref.compare("output.position_mask", supervised, 0);
  }
};

}  // namespace k3spec::test
