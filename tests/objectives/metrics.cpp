#include <k3spec/objectives/block_metrics.hpp>
#include <k3spec/objectives/ttt_metrics.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <k3spec/core/format.hpp>
#include <k3spec/objectives/ttt_chains.hpp>

using namespace k3spec;

namespace {
TttMetrics two_steps(TttStepSums first, TttStepSums second) {
  TttMetrics m(2);
  m[0] = first;
  m[1] = second;
  return m;
}
}  // namespace

TEST_CASE("metrics of batches merge by addition, not by averaging") {
  TttMetrics all = two_steps({3.0, 2, 1, 1, 4, 0, 4}, {1.0, 1, 1, 1, 3, 0, 1});
  all += two_steps({9.0, 10, 8, 8, 10, 0, 10}, {0.0, 0, 0, 0, 0});
  CHECK(all[0] == TttStepSums{12.0, 12, 9, 9, 14, 0, 14});
  CHECK(all.step_loss(0) == 1.0);
  CHECK(all.loss() == doctest::Approx((1.0 + 0.8 * 1.0) / 1.8));
  CHECK(all.step_accuracy(0).value() == 0.75);
  CHECK(all.accuracy() == Ratio{10, 13});
  CHECK(all.simulated_accept_length() == doctest::Approx(1 + 9.0 / 14 + 1.0 / 3));
  // Nine of the 14 chains are right in the first step; of the one that goes on and was right, one.
  CHECK(all.depths() == 2);
  CHECK(all.depth_acceptance(0) == Ratio{9, 14});
  CHECK(all.depth_acceptance(1) == Ratio{1, 1});
  all.clear();
  CHECK(all == TttMetrics(2));
}

TEST_CASE("what a log gets: how many predictions were supervised, and acceptance rates where the loss makes them") {
  const auto names = [](const TttMetrics& m) {
    std::string all;
    m.visit([&](const std::string& name, double value) { all += fmt::format("{} {} ", name, value); });
    return all;
  };
  TttMetrics plain = two_steps({3.0, 2, 1, 1, 4}, {1.0, 1, 1, 1, 3}), lk(2, {.lk = LkLoss::alpha});
  CHECK(names(plain) == "supervised 3 acceptance_0 0.25 acceptance_1 0.3333333333333333 ");
  lk[0] = {3.0, 2, 1, 1, 4, 1.5};
  lk[1] = {1.0, 1, 1, 1, 2, 0.5};
  lk += lk;
  CHECK(names(lk) == "supervised 6 acceptance_0 0.25 acceptance_1 0.5 alpha_0 0.75 alpha_1 0.5 ");
  CHECK(names(TttMetrics(1, {.lk = LkLoss::lambda})) == "supervised 0 acceptance_0 0 alpha_0 0 ");
}

TEST_CASE("metrics of nothing are zeros, and one token per forward") {
  const TttMetrics none(3);
  CHECK(none.loss() == 0);
  CHECK(none.accuracy().value() == 0);
  CHECK(none.simulated_accept_length() == 1);
}

TEST_CASE("metrics of other depths do not merge") {
  TttMetrics a(2);
  CHECK_THROWS_WITH_AS(a += TttMetrics(3), "TttMetrics: steps: found 3, wanted 2", Error);
}

TEST_CASE("chains by hand: which are reached, and which go on") {
  // One row of six tokens, of which the fourth is not to be learnt; two steps. Right: the first step at rows 0 and 1,
  // the second at rows 0 and 4.
  const std::vector<std::uint8_t> mask{1, 1, 1, 0, 1, 1};
  std::vector<std::uint8_t> first{1, 1, 0, 0, 0, 0}, second{1, 0, 0, 0, 1, 0};
  TttBatch<float, 3> batch{};
  batch.length = 6;
  batch.loss_mask = Vector<const std::uint8_t>(mask.data(), 6);
  const std::vector<Vector<std::uint8_t>> right{Vector<std::uint8_t>(first.data(), 6),
                                                Vector<std::uint8_t>(second.data(), 6)};
  TttMetrics sums(2);
  for (index_t r = 0; r < 6; ++r) count_chains(batch, 2, r, right, sums);
  // The last row of a window predicts nothing behind it in the second step.
  CHECK(sums[0].chains == 5);
  CHECK(sums[0].reached == 5);
  CHECK(sums[0].prefix_hits == 2);
  CHECK(sums[1].chains == 3);
  CHECK(sums[1].reached == 2);
  CHECK(sums[1].prefix_hits == 1);
  CHECK(sums.depth_acceptance(1) == Ratio{1, 2});
}

TEST_CASE("DSpark's sums of a block, by hand") {
  DSparkSums<3> sums{};
  sums.add_block(std::array<DSparkSlot, 0>{});
  CHECK(sums == DSparkSums<3>{});
  const std::array slots{DSparkSlot{1.0, 5.0, 2.0, 1.0, 0.5, 0.5, 0.75},
                         DSparkSlot{0.5, 3.0, 4.0, 1.5, 0.25, 0.25, 0.125}};
  sums.add_block(slots);
  sums.add_block(std::span(slots).first(1));
  CHECK(sums.loss == Ratio{5 + 1.5 + 5, 2.5});
  CHECK(sums.cross_entropy == Ratio{2 + 2 + 2, 2.5});
  CHECK(sums.distance == Ratio{1 + 0.75 + 1, 2.5});
  CHECK(sums.confidence == Ratio{0.5 + 0.125 + 0.5, 2.5});
  CHECK(sums.accept_rate == std::array<Ratio, 3>{Ratio{1.0, 2}, Ratio{0.25, 1}, Ratio{0, 0}});
  CHECK(sums.accept_length == Ratio{(1 + 0.5 + 0.125) + (1 + 0.5), 2});
  // Of slot 1's tokens, those are reached whose predecessor is accepted: one of two, as slot 0's chance is a half.
  CHECK(sums.depth_acceptance == std::array<Ratio, 3>{Ratio{0.5 + 0.5, 2}, Ratio{0.125, 0.5}, Ratio{0, 0}});
  CHECK(sums.confidence_error == Ratio{0.25 + 0.0625 + 0.25, 2.5});
  CHECK(sums.confidence_bias == Ratio{0.25 - 0.0625 + 0.25, 2.5});
  // Prefix products: 0.75 for 0.5, then 0.09375 for 0.125.
  CHECK(sums.confidence_prefix_bias == Ratio{0.25 + 0.5 * (0.09375 - 0.125) + 0.25, 2.5});
  DSparkSums<3> twice = sums;
  twice += sums;
  CHECK(twice.mean_loss() == doctest::Approx(sums.mean_loss()).epsilon(1e-6));
  // All are multiples of 2^-6: their sums are exact.
  const auto doubled = [](const Ratio& r) { return Ratio{2 * r.numerator, 2 * r.denominator}; };
  CHECK(twice.loss == doubled(sums.loss));
  CHECK(twice.cross_entropy == doubled(sums.cross_entropy));
  CHECK(twice.distance == doubled(sums.distance));
  CHECK(twice.confidence == doubled(sums.confidence));
  CHECK(twice.accept_length == doubled(sums.accept_length));
  for (std::size_t k = 0; k < 3; ++k) CHECK(twice.accept_rate[k] == doubled(sums.accept_rate[k]));
  for (std::size_t k = 0; k < 3; ++k) CHECK(twice.depth_acceptance[k] == doubled(sums.depth_acceptance[k]));
  CHECK(twice.confidence_error == doubled(sums.confidence_error));
  CHECK(twice.confidence_bias == doubled(sums.confidence_bias));
  CHECK(twice.confidence_prefix_bias == doubled(sums.confidence_prefix_bias));
}

TEST_CASE("DFlash's sums merge by addition") {
  using Sums = DFlashSums<3>;
  Sums a{{3.0, 2.0}, 5, 4, 7, 2, {Ratio{2, 2}, Ratio{1, 2}}}, b{{1.0, 2.0}, 3, 0, 1, 1, {Ratio{0, 1}, Ratio{0, 0}}};
  a += b;
  CHECK(a == Sums{{4.0, 4.0}, 8, 4, 8, 3, {Ratio{2, 3}, Ratio{1, 2}}});
  CHECK(a.mean_loss() == 4.0 / (4.0 + 1e-6));
  CHECK(a.accuracy() == Ratio{4, 8});
  CHECK(a.accept_length() == Ratio{8, 3});
  CHECK(Sums{}.mean_loss() == 0);
  const BlockMetrics<Sums> metrics{a};
  CHECK(metrics.depths() == 2);
  CHECK(metrics.depth_acceptance(0) == Ratio{2, 3});
  CHECK_THROWS_WITH_AS((void)metrics.depth_acceptance(2), "BlockMetrics: depth: found 2, wanted 0 to 1", Error);
}

TEST_CASE("a reliability curve by hand: what a bin has, and the expected calibration error") {
  ReliabilityCurve none, curve;
  CHECK(none.count() == 0);
  CHECK(none.expected_calibration_error() == 0);
  CHECK(none.bins[3].confidence() == 0);
  // Bins are 1/16 wide: 0.25 begins bin 4, and 0.3 lies in it, too; 1 is in the last one.
  curve.add(0.25, 0.5), curve.add(0.3125 - 0x1p-20, 0.25), curve.add(0.3125, 1), curve.add(1, 0.75), curve.add(0, 0);
  CHECK(curve.count() == 5);
  CHECK(curve.bins[4] == ReliabilityBin{2, 0.5625 - 0x1p-20, 0.75});
  CHECK(curve.bins[4].accuracy() == 0.375);
  CHECK(curve.bins[4].confidence() == 0.28125 - 0x1p-21);
  CHECK(curve.bins[5] == ReliabilityBin{1, 0.3125, 1});
  CHECK(curve.bins[15] == ReliabilityBin{1, 1, 0.75});
  CHECK(curve.bins[0] == ReliabilityBin{1, 0, 0});
  // By its definition: shares of the bins times the distance of their means.
  const double by_bins = 2.0 / 5 * (0.375 - (0.28125 - 0x1p-21)) + 1.0 / 5 * (1 - 0.3125) + 1.0 / 5 * 0.25;
  CHECK(curve.expected_calibration_error() == doctest::Approx(by_bins).epsilon(1e-14));
  ReliabilityCurve twice = curve;
  twice += curve;
  CHECK(twice.count() == 10);
  CHECK(twice.bins[4] == ReliabilityBin{4, 2 * (0.5625 - 0x1p-20), 1.5});
  CHECK(twice.expected_calibration_error() == curve.expected_calibration_error());
}

TEST_CASE("confidences out of range and no numbers have a bin") {
  CHECK(confidence_bin(-1) == 0);
  CHECK(confidence_bin(std::nan("")) == 0);
  CHECK(confidence_bin(7) == 15);
}

TEST_CASE("DSpark's slots are held against the confidence head, and only where there is one") {
  DSparkSums<2> sums{};
  sums.add_block(std::array{DSparkSlot{1.0, 0, 0, 0, 0, 0.5, 0.75}, DSparkSlot{0.5, 0, 0, 0, 0, 0.25, {}}});
  CHECK(sums.reliability.count() == 1);
  CHECK(sums.reliability.bins[12] == ReliabilityBin{1, 0.75, 0.5});
  CHECK(BlockMetrics<DSparkSums<2>>{sums}.calibration() == sums.reliability);
}
