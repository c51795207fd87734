#pragma once
/// \file
/// A step of each draft's objective on any device, in double: what comes of it, and how often the host waited.
/// defines: test::on_device::Outcome, test::on_device::ttt_step, test::on_device::block_step

#include <doctest/doctest.h>

#include <vector>

#include "block_data.hpp"
#include "tests/support/mirror.hpp"
#include "tests/support/same_bits.hpp"
#include "ttt_data.hpp"

namespace k3spec::test::on_device {

/// A host's numbers in the memory of D.
template <class D>
using Doubles = test::Mirror<double, D>;

/// A draft's parameters in the memory of D, and its gradients there.
template <class Draft, class D>
struct Model {
  const D& device;
  Parameters<Draft, double, D> parameters{device};
  Gradients<Draft, double, D> gradients{device};

  Model(const Parameters<Draft, double>& host, const D& where) : device(where) {
    upload(device, Vector<const double>(host.all()), parameters.all());
    evaluate(device, expr::as_expression(0.0), gradients.flat());
  }
  std::vector<double> values() {
    const auto flat = gradients.flat();
    std::vector<double> all(static_cast<std::size_t>(flat.size()));
    download(device, Vector<const element_t<D, double>>(flat), Vector<double>(all.data(), flat.size()));
    return all;
  }
};

/// What came of a step.
template <class Result>
struct Outcome {
  Result result, evaluated;
  std::vector<double> gradients = {}, d_input = {};
  index_t waits = 0;  // of the step

  void check_same(const Outcome& other) const {
    CHECK(result == other.result);
    CHECK(evaluated == other.evaluated);
    CHECK(same_bits(gradients, other.gradients));
    CHECK(same_bits(d_input, other.d_input));
  }
};

/// How often the host has waited for a device that counts it.
template <class D>
index_t waits(const D& device) {
  if constexpr (requires { device.waits; }) {
    return *device.waits;
  } else {
    return 0;
  }
}

/// \tparam Chunk  rows of logits at a time
template <index_t Chunk, class D, class Config>
Outcome<TttMetrics> ttt_step(const D& device, const ttt::Data<Config>& data, const TttLoss& loss) {
  using Draft = Eagle3Draft<Config>;
  using Objective = TttObjective<Draft, double, Chunk, D>;
  Model<Draft, D> model(ttt::Outcome<Config>::parameters(), device);
  Doubles<D> aux(data.aux), logits(data.logits), d_aux(std::vector<double>(data.aux.size(), NAN));
  test::Mirror<index_t, D> selected(data.selected);
  const auto host = data.batch();
  const typename Objective::Batch batch{host.length,
                                        host.input_ids,
                                        host.attention_mask,
                                        host.loss_mask,
                                        aux.matrix(Draft::aux_width).template columns<0, Draft::aux_width>(),
                                        host.teacher_top,
                                        host.t2d,
                                        host.documents,
                                        host.position_ids};
  const LogitsTeacher<element_t<D, double>> teacher{logits.matrix(ttt::vocabulary), selected.vector()};
  Objective objective(data.rows, ttt::steps, loss, device);
  Outcome<TttMetrics> o{TttMetrics(ttt::steps), TttMetrics(ttt::steps)};
  const index_t before = waits(device);
  o.result = objective.forward_backward(device, model.parameters.weights(), model.gradients.weights(), batch, teacher,
                                        std::nullopt, {d_aux.matrix(Draft::aux_width), Into::overwrite});
  o.waits = waits(device) - before;
  o.evaluated = objective.evaluate_only(device, model.parameters.weights(), batch, teacher);
  o.gradients = model.values(), o.d_input = d_aux.get();
  CHECK(objective.peak_bytes() == Objective::bytes(data.rows, ttt::steps));
  return o;
}

/// What a block objective is given besides the batch, where D has it.
template <class Kind, class D>
struct Blocks;
template <class D>
struct Blocks<blocks::DFlash, D> {
  using Draft = blocks::DFlash::Draft;
  template <index_t Chunk>
  using Objective = DFlashObjective<Draft, double, Chunk, D>;
  using E = element_t<D, double>;
  Doubles<D> embed, head;

  explicit Blocks(const blocks::Data<blocks::DFlash>& data) : embed(data.kind.embed), head(data.kind.head) {}
  BlockBatch<E, Draft::target_width> batch(const BlockBatch<E, Draft::target_width>& b) { return b; }
  auto call(auto&& f) { return f(DFlashTarget<E>{embed.matrix(Draft::hidden), head.matrix(Draft::hidden)}); }
  static constexpr double options = 4.0;
};
template <class D>
struct Blocks<blocks::DSpark, D> {
  using Draft = blocks::DSpark::Draft;
  template <index_t Chunk>
  using Objective = DSparkObjective<Draft, double, Chunk, D>;
  using E = element_t<D, double>;
  Doubles<D> last;

  explicit Blocks(const blocks::Data<blocks::DSpark>& data) : last(data.last) {}
  DSparkBatch<E, Draft::target_width, Draft::hidden> batch(const BlockBatch<E, Draft::target_width>& b) {
    return {b, last.matrix(Draft::hidden).template columns<0, Draft::hidden>()};
  }
  auto call(auto&& f) { return f(); }
  static constexpr DSparkOptions options{};
};

template <index_t Chunk, class Kind, class D>
auto block_step(const D& device, blocks::Part<Kind>& part) {
  using Draft = typename Kind::Draft;
  using Own = Blocks<Kind, D>;
  using E = element_t<D, double>;
  constexpr index_t width = Draft::target_width;
  Model<Draft, D> model(part.data.parameters, device);
  Own own(part.data);
  Doubles<D> hidden(part.data.hidden), d_hidden(std::vector<double>(part.data.hidden.size(), NAN));
  const BlockBatch<double, width> host = part.batch();
  const auto batch = own.batch(BlockBatch<E, width>{host.length, host.input_ids, host.loss_mask,
                                                    hidden.matrix(width).template columns<0, width>(), host.anchors,
                                                    host.keep, host.documents, host.prefix_lengths});
  typename Own::template Objective<Chunk> objective(part.span.sequences, part.span.context, part.span.blocks,
                                                    Own::options, device);
  Outcome<typename Kind::Sums> o{};
  const index_t before = waits(device);
  own.call([&](const auto&... target) {
    o.result = objective.forward_backward(device, model.parameters.weights(), model.gradients.weights(), target...,
                                          batch, std::nullopt, {d_hidden.matrix(width), Into::overwrite});
    o.waits = waits(device) - before;
    o.evaluated = objective.evaluate_only(device, model.parameters.weights(), target..., batch);
  });
  o.gradients = model.values(), o.d_input = d_hidden.get();
  CHECK(objective.peak_bytes() == objective.bytes(part.span));
  return o;
}

}  // namespace k3spec::test::on_device
