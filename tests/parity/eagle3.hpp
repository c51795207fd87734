#pragma once
// One EAGLE-3 reference case on any device: outputs, every gradient, counters exactly.
#include <doctest/doctest.h>

#include <optional>

#include <tests/parity/draft_model.hpp>
#include <tests/support/case_configs.hpp>
#include <tests/support/reference_case.hpp>
#include <tests/support/ttt_numbers.hpp>
#include <k3spec/objectives/ttt_objective.hpp>

namespace k3spec::test {

template <class Config, class T, class D = Cpu>
struct Eagle3Case {
  using Draft = Eagle3Draft<Config>;
  using S = accumulate_t<T>;
  using E = element_t<D, T>;
  using Objective = TttObjective<Draft, T, TttObjective<Draft, T>::chunk, D>;
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
  /// What the device has of it, once it has run.
  struct OnDevice {
    DraftModel<Draft, T, D> model;
    Mirror<T, D> aux, logits;
    Mirror<index_t, D> selected;
    Mirror<S, D> d_aux;
    Objective objective;
  };
  std::optional<OnDevice> run_on;

  explicit Eagle3Case(const std::string& name) : ref(ReferenceCase::load(Config::folder + name)) {
    auto w = parameters.mutable_weights();
    ref.template fill<Draft>(w);
    argmax(Cpu{}, Matrix<const T>(target_logits.data(), rows, Draft::vocabulary), Vector<index_t>(top.data(), rows));
    if (ref.contains("input.seq_lens")) read_documents();
  }

  TttBatch<T, Draft::aux_width> batch() const { return batch_of<T>(Rows<const T, Draft::aux_width>(aux.data(), rows)); }
  template <class A>
  TttBatch<A, Draft::aux_width> batch_of(const Rows<const A, Draft::aux_width>& states) const {
    return {length,
            Vector<const index_t>(ids.data(), rows),
            Vector<const std::uint8_t>(attention_mask.data(), rows),
            Vector<const std::uint8_t>(loss_mask.data(), rows),
            states,
            Vector<const index_t>(top.data(), rows),
            Vector<const std::uint8_t>(t2d.data(), Draft::vocabulary),
            {view(start), view(remaining)},
            view(position_ids)};
  }
  LogitsTeacher<T> teacher() const {
    return {Matrix<const T>(target_logits.data(), rows, Draft::vocabulary),
            Vector<const index_t>(selected.data(), Draft::draft_vocabulary)};
  }

  LogitsTeacher<E> device_teacher() { return {run_on->logits.matrix(Draft::vocabulary), run_on->selected.vector()}; }
  static decltype(auto) device() { return test::device<D>(2); }

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
    auto& on = run_on.emplace(OnDevice{DraftModel<Draft, T, D>(parameters), Mirror<T, D>(aux),
                                       Mirror<T, D>(target_logits), Mirror<index_t, D>(selected), Mirror<S, D>(d_aux),
                                       Objective(rows, steps(), loss(), device())});
    const TttNumbers r =
        on.objective.forward_backward(device(), on.model.parameters.weights(), on.model.gradients.weights(),
                                      batch_of<E>(rows_of<Draft::aux_width>(on.aux)), device_teacher(), std::nullopt,
                                      on.d_aux.matrix(Draft::aux_width));
    on.model.get(gradients), on.d_aux.get(d_aux);
    return r;
  }

  /// Of step k, as wide as sums are.
  std::vector<double> logits(index_t k) {
    const auto w = run_on->model.parameters.weights();
    auto x = empty<T, D>(rows, Draft::hidden);
    auto y = empty<S, D>(rows, Draft::draft_vocabulary);
    Draft::head_input(device(), w, run_on->objective.out(k), rows_of<Draft::hidden>(x));
    Draft::compute_logits(device(), w, rows_of<Draft::hidden>(x), rows_of<Draft::draft_vocabulary>(y));
    const auto values = y.get();
    return {values.begin(), values.end()};
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
    auto p = empty<S, D>(rows, Draft::draft_vocabulary);
    const auto pv = p.matrix(Draft::draft_vocabulary);
    device_teacher().selected_logits(device(), 0, pv);
    evaluate(device(), softmax_formula(), pv, pv);
    const auto values = p.get();
    ref.compare("output.target_probs", values.data(), static_cast<index_t>(values.size()), tolerance);
    std::vector<double> supervised;
    for (std::size_t r = 0; r < ids.size(); ++r) {
      supervised.push_back(loss_mask[r] != 0 && t2d[static_cast<std::size_t>(top[r])] != 0 ? 1 : 0);
    }
    ref.compare("output.position_mask", supervised, 0);
  }
};

}  // namespace k3spec::test
