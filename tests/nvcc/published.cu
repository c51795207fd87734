// What a training step of the published drafts asks of a card, in bfloat16: compiled, and not run. Forward, losses,
// backward, clipping and AdamW of each draft's own code.
#include <k3spec/cuda.hpp>
#include <k3spec/objectives/dflash_objective.hpp>
#include <k3spec/objectives/dspark_objective.hpp>
#include <k3spec/objectives/ttt_objective.hpp>
#include <k3spec/optimiser/adamw.hpp>

using namespace k3spec;

namespace {

using E = element_t<Cuda, bfloat16>;

/// \param forward_backward  of an objective, given weights and gradients
template <class Draft, class F>
void step(const Cuda& cuda, F&& forward_backward) {
  Parameters<Draft, bfloat16, Cuda> parameters(cuda);
  Gradients<Draft, bfloat16, Cuda> gradients(cuda);
  AdamW<Draft, bfloat16, Cuda> optimizer(cuda, AdamWOptions{}, parameters);
  evaluate(cuda, expr::as_expression(0.0), gradients.flat());
  forward_backward(std::as_const(parameters).weights(), gradients.weights());
  optimizer.step(cuda, 1e-3, parameters, gradients);
}

template <class Config>
void eagle3(const Cuda& cuda, const TttBatch<E, Eagle3Draft<Config>::aux_width>& batch,
            const HiddenTeacher<E>& teacher) {
  using Draft = Eagle3Draft<Config>;
  TttObjective<Draft, bfloat16, chunk_rows(Draft::draft_vocabulary), Cuda> objective(batch.length, 5, {}, cuda);
  step<Draft>(cuda, [&](const auto& w, const auto& d_w) { objective.forward_backward(cuda, w, d_w, batch, teacher); });
}

}  // namespace

// Of the config types that have a published draft.
void published(const Cuda& cuda, const HiddenTeacher<E>& teacher) {
  eagle3<configs::KimiK3>(cuda, {}, teacher);
  eagle3<configs::KimiK3Eagle31MLA>(cuda, {}, teacher);
  eagle3<configs::DeepSeekV3>(cuda, {}, teacher);
  {
    using Draft = DFlashDraft<configs::KimiK3DFlash>;
    DFlashObjective<Draft, bfloat16, chunk_rows(Draft::vocabulary), Cuda> objective(1, 2048, 256, 4.0, cuda);
    step<Draft>(cuda, [&](const auto& w, const auto& d_w) {
      objective.forward_backward(cuda, w, d_w, DFlashTarget<E>{}, BlockBatch<E, Draft::target_width>{});
    });
  }
  {
    using Draft = DSparkDraft<configs::KimiK3DSpark>;
    using Objective = DSparkObjective<Draft, bfloat16, chunk_rows(Draft::vocabulary), Cuda>;
    Objective objective(1, 2048, 256, {}, cuda);
    step<Draft>(cuda, [&](const auto& w, const auto& d_w) {
      objective.forward_backward(cuda, w, d_w, typename Objective::Batch{});
    });
  }
}
