// What a program of one draft compiles: a training step of EAGLE-3, with its objective and the optimizer, for
// compile_time.sh.
#include <k3spec/batches/teacher.hpp>
#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/drafts.hpp>
#include <k3spec/objectives/ttt_objective.hpp>
#include <k3spec/optimiser/adamw.hpp>

using namespace k3spec;
using Draft = Eagle3Draft<configs::KimiK3Tiny>;

double training_step(const Cpu& cpu, TttObjective<Draft, float>& objective, AdamW<Draft, float>& optimizer,
                     Parameters<Draft, float>& parameters, Gradients<Draft, float>& gradients,
                     const TttBatch<float, Draft::aux_width>& batch, const HiddenTeacher<float>& teacher) {
  gradients.zero();
  const auto result = objective.forward_backward(cpu, parameters.weights(), gradients.weights(), batch, teacher);
  optimizer.step(cpu, 1e-3, parameters, gradients);
  return result.loss();
}
