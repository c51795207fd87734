// Two halves of a batch on two ranks: their gradients, summed, are the whole batch's.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <k3spec/comm/single.hpp>

#include "tests/comm/ranks.hpp"
#include "tests/objectives/block_data.hpp"
#include "tests/objectives/ttt_data.hpp"
#include "tests/support/same_bits.hpp"

using namespace k3spec;

namespace {

constexpr double rounding = 1e-12;  // sums of some hundred terms near 1 in another order

template <class T>
std::vector<T> joined(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> both(a);
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

std::vector<double> values(Vector<const double> v) { return {v.data(), v.data() + v.size()}; }

using test::ttt::largest_difference;

// ---- EAGLE-3

template <class Config>
struct TttRank {
  using Draft = Eagle3Draft<Config>;
  test::ttt::Data<Config> data;
  TttObjective<Draft, double> objective;
  Gradients<Draft, double> gradients{};
  std::vector<double> d_aux = std::vector<double>(data.aux.size());
  test::TttNumbers result{};

  TttRank(const test::ttt::Data<Config>& of, const TttLoss& loss)
      : data(of), objective(data.rows, test::ttt::steps, loss) {}

  /// \param among  totals, or a communicator
  template <class Among>
  void run(Among& among) {
    const auto& parameters = test::ttt::Outcome<Config>::parameters();
    result = objective.forward_backward(Cpu{1}, parameters.weights(), gradients.weights(), data.batch(), data.teacher(),
                                        among, Matrix<double>(d_aux.data(), data.rows, Draft::aux_width));
  }
};

/// Two sequences on each rank.
template <class Config>
void ttt_halves(const test::ttt::Data<Config>& data, const TttLoss& loss) {
  TttRank<Config> whole(data, loss), same(data, loss);
  whole.run(std::as_const(std::nullopt));
  Single single;
  same.run(single);
  CHECK(values(same.gradients.flat()) == values(whole.gradients.flat()));
  std::vector<TttRank<Config>> halves;
  for (const index_t first : {0, 2}) halves.emplace_back(test::ttt::part(data, first, 2), loss);
  CHECK(test::on_ranks(2, [&](ThreadRank& comm) {
          auto& own = halves[static_cast<std::size_t>(comm.rank())];
          own.run(comm);
          comm.sum(Cpu{}, own.gradients.flat());
        }) == test::no_errors(2));
  CHECK(halves[0].result.supervised != halves[1].result.supervised);
  CHECK(halves[0].result.supervised + halves[1].result.supervised == whole.result.supervised);
  const auto found = values(halves[0].gradients.flat());
  CHECK(test::same_bits(found, values(halves[1].gradients.flat())));
  CHECK(largest_difference(found, values(whole.gradients.flat())) <= rounding);
  CHECK(largest_difference(joined(halves[0].d_aux, halves[1].d_aux), whole.d_aux) <= rounding);
}

// ---- blocks

template <class Kind>
void block_halves(std::vector<std::uint8_t> keep) {
  using Part = test::blocks::Part<Kind>;
  test::blocks::Data<Kind> data(44);
  const std::vector<index_t> a{1, 5, 2, 0}, b{3, 7, 0, 6};
  std::vector<Part> halves;
  halves.push_back({data, 0, {2, 11, 2, 3}, a});
  halves.push_back({data, 22, {2, 11, 2, 3}, b, keep});
  Part whole{data, 0, {4, 11, 2, 3}, joined(a, b), joined(halves[0].keep, keep)},
      same = {data, 0, {4, 11, 2, 3}, whole.anchors, whole.keep};
  whole.run(std::nullopt);
  Single single;
  same.among(single);
  CHECK(values(same.gradients.flat()) == values(whole.gradients.flat()));
  CHECK(test::on_ranks(2, [&](ThreadRank& comm) {
          Part& own = halves[static_cast<std::size_t>(comm.rank())];
          own.among(comm);
          comm.sum(Cpu{}, own.gradients.flat());
        }) == test::no_errors(2));
  CHECK(halves[0].count().weight != halves[1].count().weight);
  const auto found = values(halves[0].gradients.flat());
  CHECK(test::same_bits(found, values(halves[1].gradients.flat())));
  CHECK(largest_difference(found, values(whole.gradients.flat())) <= rounding);
  CHECK(largest_difference(joined(halves[0].d_hidden, halves[1].d_hidden), whole.d_hidden) <= rounding);
}

}  // namespace

TEST_CASE("EAGLE-3: the halves' gradients add up to the whole's, whatever each supervises") {
  test::ttt::Data<test::ttt::K3> uneven(4, 9), one(4, 9);
  std::fill(uneven.loss_mask.begin() + 12, uneven.loss_mask.begin() + 27, std::uint8_t{0});  // 12 rows and 9
  std::fill(one.loss_mask.begin() + 18, one.loss_mask.end(), std::uint8_t{0});               // all of the first half's
  for (const TttLoss& loss : test::ttt::losses) {
    CAPTURE(static_cast<int>(loss.lk));
    ttt_halves(uneven, loss);
    ttt_halves(one, loss);
  }
}

TEST_CASE_TEMPLATE("blocks: the halves' gradients add up to the whole's, whatever each supervises", Kind,
                   test::blocks::DFlash, test::blocks::DSpark) {
  static_assert(test::blocks::DSpark::Draft::has_markov && test::blocks::DSpark::Draft::has_confidence);
  block_halves<Kind>({1, 0, 0, 1});
  block_halves<Kind>({0, 0, 0, 0});
}
