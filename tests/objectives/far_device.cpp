// The objectives on a device whose memory the host cannot read: the bits of Cpu, and as few waits for it however many
// chunks the vocabulary is walked in.
#include <doctest/doctest.h>

#include <vector>

#include "block_data.hpp"
#include "tests/support/far_device.hpp"
#include "tests/support/same_bits.hpp"
#include "ttt_data.hpp"

using namespace k3spec;

namespace {

/// A host's numbers in the memory of D.
template <class D>
using Doubles = test::Mirror<double, D>;

/// A draft's parameters in the memory of D, and its gradients there.
template <class Draft, class D>
struct Model {
  D device;
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
    CHECK(test::same_bits(gradients, other.gradients));
    CHECK(test::same_bits(d_input, other.d_input));
  }
};

template <class D>
D counting(index_t& calls, index_t& waits) {
  if constexpr (std::is_same_v<D, Far>) {
    return {&calls, 2, &waits};
  } else {
    return {2};
  }
}

/// \tparam Chunk  rows of logits at a time
template <class D, index_t Chunk>
Outcome<TttMetrics> ttt(const test::ttt::Data<test::ttt::K3>& data, const TttLoss& loss) {
  using Draft = Eagle3Draft<test::ttt::K3>;
  using Objective = TttObjective<Draft, double, Chunk, D>;
  index_t calls = 0, waits = 0;
  const D device = counting<D>(calls, waits);
  Model<Draft, D> model(test::ttt::Outcome<test::ttt::K3>::parameters(), device);
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
  const LogitsTeacher<element_t<D, double>> teacher{logits.matrix(test::ttt::vocabulary), selected.vector()};
  Objective objective(data.rows, test::ttt::steps, loss, device);
  Outcome<TttMetrics> o{TttMetrics(test::ttt::steps), TttMetrics(test::ttt::steps)};
  waits = 0;
  o.result = objective.forward_backward(device, model.parameters.weights(), model.gradients.weights(), batch, teacher,
                                        std::nullopt, {d_aux.matrix(Draft::aux_width), Into::overwrite});
  o.waits = waits;
  o.evaluated = objective.evaluate_only(device, model.parameters.weights(), batch, teacher);
  o.gradients = model.values(), o.d_input = d_aux.get();
  CHECK((calls > 0) == !shares_memory<D>);
  CHECK(objective.peak_bytes() == Objective::bytes(data.rows, test::ttt::steps));
  return o;
}

/// What a block objective is given besides the batch, where D has it.
template <class Kind, class D>
struct Blocks;
template <class D>
struct Blocks<test::blocks::DFlash, D> {
  using Draft = test::blocks::DFlash::Draft;
  template <index_t Chunk>
  using Objective = DFlashObjective<Draft, double, Chunk, D>;
  using E = element_t<D, double>;
  Doubles<D> embed, head;

  explicit Blocks(const test::blocks::Data<test::blocks::DFlash>& data)
      : embed(data.kind.embed), head(data.kind.head) {}
  BlockBatch<E, Draft::target_width> batch(const BlockBatch<E, Draft::target_width>& b) { return b; }
  auto call(auto&& f) { return f(DFlashTarget<E>{embed.matrix(Draft::hidden), head.matrix(Draft::hidden)}); }
  static constexpr double options = 4.0;
};
template <class D>
struct Blocks<test::blocks::DSpark, D> {
  using Draft = test::blocks::DSpark::Draft;
  template <index_t Chunk>
  using Objective = DSparkObjective<Draft, double, Chunk, D>;
  using E = element_t<D, double>;
  Doubles<D> last;

  explicit Blocks(const test::blocks::Data<test::blocks::DSpark>& data) : last(data.last) {}
  DSparkBatch<E, Draft::target_width, Draft::hidden> batch(const BlockBatch<E, Draft::target_width>& b) {
    return {b, last.matrix(Draft::hidden).template columns<0, Draft::hidden>()};
  }
  auto call(auto&& f) { return f(); }
  static constexpr DSparkOptions options{};
};

template <class Kind, class D, index_t Chunk>
auto blocks(test::blocks::Part<Kind>& part) {
  using Draft = typename Kind::Draft;
  using Own = Blocks<Kind, D>;
  using E = element_t<D, double>;
  constexpr index_t width = Draft::target_width;
  index_t calls = 0, waits = 0;
  const D device = counting<D>(calls, waits);
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
  waits = 0;
  own.call([&](const auto&... target) {
    o.result = objective.forward_backward(device, model.parameters.weights(), model.gradients.weights(), target...,
                                          batch, std::nullopt, {d_hidden.matrix(width), Into::overwrite});
    o.waits = waits;
    o.evaluated = objective.evaluate_only(device, model.parameters.weights(), target..., batch);
  });
  o.gradients = model.values(), o.d_input = d_hidden.get();
  CHECK((calls > 0) == !shares_memory<D>);
  CHECK(objective.peak_bytes() == objective.bytes(part.span));
  return o;
}

template <class Kind>
void check_blocks() {
  test::blocks::Data<Kind> data(33);
  test::blocks::Part<Kind> part{data, 0, {3, 11, 2, 3}, {1, 5, 2, 0, 3, 7}};
  part.keep[3] = 0;
  if constexpr (std::is_same_v<Kind, test::blocks::DFlash>) part.prefixes = {1, 2, 2, 1, 2, 1};
  const auto near = blocks<Kind, Cpu, 4>(part), far = blocks<Kind, Far, 4>(part), whole = blocks<Kind, Far, 64>(part);
  CHECK(near.result.mean_loss() > 0);
  far.check_same(near);
  CHECK(far.waits == 2);  // up before, down after it
  CHECK(whole.waits == 2);
}

}  // namespace

TEST_CASE("EAGLE-3 on a device of its own: the bits of Cpu") {
  test::ttt::Data<test::ttt::K3> plain(2, 9), packed(2, 9);
  plain.attention_mask[5] = 0;
  for (index_t r = 0; r < packed.rows; ++r) {
    const index_t t = r % 9;
    packed.start.push_back(t < 4 ? 0 : 4), packed.remaining.push_back((t < 4 ? 4 : 9) - 1 - t);
  }
  for (const auto* data : {&plain, &packed}) {
    for (const TttLoss& loss : test::ttt::losses) {
      CAPTURE(static_cast<int>(loss.lk));
      const auto near = ttt<Cpu, 4>(*data, loss), far = ttt<Far, 4>(*data, loss), whole = ttt<Far, 64>(*data, loss);
      CHECK(near.result.loss() > 0);
      CHECK(near.result.supervised() > 0);
      far.check_same(near);
      // Up before, down after it; lambda's gradients wait for the acceptance of all, once.
      CHECK(far.waits == (loss.lk == LkLoss::lambda ? 3 : 2));
      CHECK(whole.waits == far.waits);
    }
  }
}

TEST_CASE("DFlash on a device of its own: the bits of Cpu") { check_blocks<test::blocks::DFlash>(); }

TEST_CASE("DSpark on a device of its own: the bits of Cpu") { check_blocks<test::blocks::DSpark>(); }
