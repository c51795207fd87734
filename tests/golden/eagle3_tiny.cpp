// The golden run: twenty optimizer steps of an EAGLE-3 draft for k3-tiny, from the raw ids on. The target makes the
// features in double; the draft trains in double and in float.
#include <doctest/doctest.h>

#include <tests/support/reference_case.hpp>
#include <tests/support/ttt_numbers.hpp>

#include <k3spec/objectives/ttt_objective.hpp>
#include <k3spec/optimiser/adamw.hpp>
#include <k3spec/optimiser/schedule.hpp>
#include <k3spec/target/forward.hpp>
#include <k3spec/target/load.hpp>

using namespace k3spec;
using Config = configs::KimiK3Tiny;
using Draft = Eagle3Draft<Config>;

namespace {

constexpr index_t sequences = 2, length = 48, rows = sequences * length, hidden = Config::hidden_size;

/// k3-tiny in double.
struct Target {
  Parameters<K3Target<Config>, double> parameters;
  std::optional<FrozenTarget<Config, double>> frozen;
  Arena arena{FrozenTarget<Config, double>::scratch_bytes(sequences, length)};

  Target() {
    load_target<Config>(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny", parameters);
    frozen.emplace(parameters.weights());
  }
};

/// A training batch in storage type T.
template <class T>
struct Batch {
  std::vector<index_t> ids, top = std::vector<index_t>(rows);
  std::vector<std::uint8_t> attention_mask = std::vector<std::uint8_t>(rows, 1), loss_mask = attention_mask;
  std::vector<T> aux, logits;

  /// All but the auxiliary states moves to the left by one; what comes in has no loss mask.
  Batch(Target& target, const std::vector<index_t>& raw) {
    std::vector<double> last(rows * hidden), tapped(last.size() * 3), all(rows * Config::vocab_size);
    const Matrix<double> states(last.data(), rows, hidden);
    const std::vector<index_t> layers{1, 3, 4};
    const auto taps = eagle3_taps(layers, Config::num_hidden_layers);
    TargetState<Config, double> state({sequences, length});
    target.frozen->forward(Cpu{1}, state, Matrix<const index_t>(raw.data(), sequences, length),
                           {states, taps, Matrix<double>(tapped.data(), rows, 3 * hidden)}, target.arena);
    target.frozen->compute_logits(Cpu{1}, states, Matrix<double>(all.data(), rows, Config::vocab_size));
    aux.assign(tapped.begin(), tapped.end());
    for (index_t r = 0; r < rows; ++r) {
      const bool end = r % length == length - 1;
      ids.push_back(end ? 0 : raw[static_cast<std::size_t>(r + 1)]);
      loss_mask[static_cast<std::size_t>(r)] = end ? 0 : 1;
      for (index_t v = 0; v < Config::vocab_size; ++v) {
        logits.push_back(static_cast<T>(end ? 0 : all[static_cast<std::size_t>((r + 1) * Config::vocab_size + v)]));
      }
    }
    argmax(Cpu{}, Matrix<const T>(logits.data(), rows, Config::vocab_size), Vector<index_t>(top.data(), rows));
  }
  TttBatch<T, Draft::aux_width> view(const std::vector<std::uint8_t>& t2d) const {
    return {length,
            Vector<const index_t>(ids.data(), rows),
            Vector<const std::uint8_t>(attention_mask.data(), rows),
            Vector<const std::uint8_t>(loss_mask.data(), rows),
            Rows<const T, Draft::aux_width>(aux.data(), rows),
            Vector<const index_t>(top.data(), rows),
            Vector<const std::uint8_t>(t2d.data(), Config::vocab_size)};
  }
};

template <class T>
struct GoldenRun {
  test::ReferenceCase ref = test::ReferenceCase::load("golden/eagle3_tiny");
  io::json settings = ref.config("train");
  index_t steps = settings["steps"];
  Parameters<Draft, T> parameters;
  Gradients<Draft, T> gradients;
  std::vector<double> losses, norms;

  void run() {
    Target target;
    auto w = parameters.mutable_weights();
    ref.template fill<Draft>(w);
    const auto selected = ref.template values<index_t>("input.selected_token_ids");
    std::vector<std::uint8_t> t2d(Config::vocab_size);
    for (const index_t id : selected) t2d[static_cast<std::size_t>(id)] = 1;
    AdamW<Draft, T> optimizer(options(), parameters);
    const WarmupCosine rate{settings["lr"], settings["warmup_steps"], settings["total_steps"],
                            settings["min_lr_ratio"]};
    TttObjective<Draft, T> objective(rows, ref.config()["ttt_steps"]);
    for (index_t i = 0; i < steps; ++i) {
      const Batch<T> batch(target, ref.template values<index_t>("input.ids." + std::to_string(i)));
      const LogitsTeacher<T> teacher{Matrix<const T>(batch.logits.data(), rows, Config::vocab_size),
                                     Vector<const index_t>(selected.data(), Draft::draft_vocabulary)};
      gradients.zero();
      const test::TttNumbers result =
          objective.forward_backward(Cpu{1}, parameters.weights(), gradients.weights(), batch.view(t2d), teacher);
      losses.push_back(result.loss);
      norms.push_back(optimizer.step(Cpu{1}, rate(i), parameters, gradients).grad_norm);
    }
  }

  AdamWOptions options() const {
    AdamWOptions o;
    o.beta1 = settings["betas"][0], o.beta2 = settings["betas"][1], o.eps = settings["eps"];
    o.weight_decay = settings["weight_decay_matrices"], o.max_grad_norm = settings["max_grad_norm"];
    return o;
  }

  /// The largest relative error of a step.
  double worst(const char* name, const std::vector<double>& found) {
    const auto wanted = ref.template values<double>(name);
    REQUIRE(found.size() == wanted.size());
    double error = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      error = std::max(error, std::abs(found[i] - wanted[i]) / std::abs(wanted[i]));
      if (!std::isfinite(found[i])) return INFINITY;
    }
    return error;
  }

  template <class F>
  void for_trained(F&& f) {
    auto w = parameters.mutable_weights();
    Draft::visit(w, Path{}, [&](const Path& path, auto& view, auto init) {
      if constexpr (!std::is_same_v<decltype(init), Frozen>) f("output.param." + path.str(), view);
    });
  }
};

}  // namespace

TEST_CASE("golden run in double: every step's loss and gradient norm, and the trained parameters") {
  GoldenRun<double> golden;
  golden.run();
  CHECK(golden.steps == 20);
  const double loss = golden.worst("output.loss", golden.losses), norm = golden.worst("output.grad_norm", golden.norms);
  MESSAGE("relative errors: loss ", loss, ", gradient norm ", norm);
  CHECK(loss <= 1e-9);
  CHECK(norm <= 1e-9);
  golden.ref.compare("output.loss", golden.losses, 1e-9);
  golden.ref.compare("output.grad_norm", golden.norms, 1e-9);
  double largest = 0;
  golden.for_trained([&](const std::string& name, const auto& view) {
    largest = std::max(largest, golden.ref.compare(name, view, 1e-7));
  });
  MESSAGE("relative error of the parameters: ", largest);
  CHECK_NOTHROW(golden.ref.finish());
}

TEST_CASE("golden run in float: every step's loss") {
  GoldenRun<float> golden;
  golden.run();
  const double loss = golden.worst("output.loss", golden.losses), norm = golden.worst("output.grad_norm", golden.norms);
  MESSAGE("relative errors: loss ", loss, ", gradient norm ", norm);
  CHECK(loss <= 1e-4);
}
