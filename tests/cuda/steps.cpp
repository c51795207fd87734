// A training step of each draft on Cuda: losses and gradients are Cpu's, as near as products with other sums come.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <tests/cuda/device.hpp>
#include <tests/objectives/on_device.hpp>

using namespace k3spec;
using namespace k3spec::test::on_device;

namespace {

void check_near(const std::vector<double>& found, const std::vector<double>& wanted) {
  REQUIRE(found.size() == wanted.size());
  double most = 0, apart = 0;
  bool nan = false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    most = std::max(most, std::abs(wanted[i])), apart = std::max(apart, std::abs(found[i] - wanted[i]));
    nan |= std::isnan(found[i]);
  }
  CHECK_FALSE(nan);
  CHECK(most > 0);
  CHECK(apart <= 1e-10 * most);
}

template <class Config>
void check_ttt(const test::ttt::Data<Config>& data, const TttLoss& loss) {
  const auto found = ttt_step<4>(test::device<Cuda>(), data, loss), wanted = ttt_step<4>(Cpu{2}, data, loss);
  CHECK(wanted.result.supervised() > 0);
  CHECK(found.result.supervised() == wanted.result.supervised());
  CHECK(found.result.loss() == doctest::Approx(wanted.result.loss()).epsilon(1e-10));
  CHECK(found.evaluated.loss() == doctest::Approx(wanted.evaluated.loss()).epsilon(1e-10));
  check_near(found.gradients, wanted.gradients), check_near(found.d_input, wanted.d_input);
}

template <class Kind>
void check_blocks() {
  test::blocks::Data<Kind> data(33);
  test::blocks::Part<Kind> part{data, 0, {3, 11, 2, 3}, {1, 5, 2, 0, 3, 7}};
  part.keep[3] = 0;
  if constexpr (std::is_same_v<Kind, test::blocks::DFlash>) part.prefixes = {1, 2, 2, 1, 2, 1};
  const auto found = block_step<4>(test::device<Cuda>(), part), wanted = block_step<4>(Cpu{2}, part);
  CHECK(found.result.mean_loss() == doctest::Approx(wanted.result.mean_loss()).epsilon(1e-10));
  CHECK(found.evaluated.mean_loss() == doctest::Approx(wanted.evaluated.mean_loss()).epsilon(1e-10));
  check_near(found.gradients, wanted.gradients), check_near(found.d_input, wanted.d_input);
}

}  // namespace

TEST_CASE("a step of EAGLE-3 on Cuda, of K3's attention, for each loss") {
  test::ttt::Data<test::ttt::K3> data(2, 9);
  data.attention_mask[5] = 0;
  for (const TttLoss& loss : test::ttt::losses) check_ttt(data, loss);
}

TEST_CASE("a step of EAGLE-3 on Cuda, with rotary positions, in packed documents") {
  test::ttt::Data<test::ttt::DeepSeek> data(2, 9);
  for (index_t r = 0; r < data.rows; ++r) {
    const index_t t = r % 9;
    data.start.push_back(t < 4 ? 0 : 4), data.remaining.push_back((t < 4 ? 4 : 9) - 1 - t);
  }
  check_ttt(data, {});
}

TEST_CASE("a step of DFlash on Cuda") { check_blocks<test::blocks::DFlash>(); }

TEST_CASE("a step of DSpark on Cuda") { check_blocks<test::blocks::DSpark>(); }
