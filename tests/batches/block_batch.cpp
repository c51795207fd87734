// What stands in a block's slots, what they are to predict, and their weights.
#include <k3spec/batches/block_batch.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace k3spec;

namespace {

using Ids = std::vector<index_t>;
using Mask = std::vector<std::uint8_t>;
constexpr index_t mask_id = 99;

/// One row of ids 10, 11, … with one block; whatever a test needs may be changed.
struct Toy {
  Slot slot = Slot::anchor_plus_k;
  index_t anchor = 2, block_size = 4;
  Ids ids{10, 11, 12, 13, 14, 15, 16, 17};
  Mask loss_mask = Mask(8, 1);
  std::uint8_t keep = 1;
  double gamma = 4.0;
  Ids prefix, start, remaining;

  // Results.
  Arena arena{4096};
  BlockTargets t{};

  void run() {
    const BlockSpan span{1, static_cast<index_t>(ids.size()), 1, block_size};
    const auto n = [](const auto& v) { return static_cast<index_t>(v.size()); };
    BlockBatch<float, 3> batch{
        n(ids), Vector<const index_t>(ids.data(), n(ids)), Vector<const std::uint8_t>(loss_mask.data(), n(ids)),
        {},     Vector<const index_t>(&anchor, 1),         Vector<const std::uint8_t>(&keep, 1)};
    batch.documents = {Vector<const index_t>(start.data(), n(start)),
                       Vector<const index_t>(remaining.data(), n(remaining))};
    batch.prefix_lengths = Vector<const index_t>(prefix.data(), n(prefix));
    arena.release(0);
    t = BlockTargets::allocate(arena, block_size);
    t.fill({slot, mask_id, gamma}, span, batch);
  }
  /// -1 where a slot is not supervised.
  Ids labels() {
    run();
    Ids all;
    for (index_t k = 0; k < block_size; ++k) all.push_back(t.supervised(k) != 0 ? t.labels(k) : -1);
    return all;
  }
  Ids noise() {
    run();
    return Ids(t.noise_ids.data(), t.noise_ids.data() + block_size);
  }
  std::vector<double> weights() {
    run();
    return std::vector<double>(t.weights.data(), t.weights.data() + block_size);
  }
};

Toy dspark() {
  Toy toy;
  toy.slot = Slot::anchor_plus_k_plus_1;
  return toy;
}

}  // namespace

TEST_CASE("slots: ids 10 to 17, anchor 2, block 4") {
  Toy dflash;
  CHECK(dflash.labels() == Ids{-1, 13, 14, 15});
  CHECK(dflash.noise() == Ids{12, mask_id, mask_id, mask_id});
  Toy spark = dspark();
  CHECK(spark.labels() == Ids{13, 14, 15, 16});
  CHECK(spark.noise() == Ids{12, mask_id, mask_id, mask_id});
  // Before label 13 stands the anchor, 12; the target's state at position 2 predicts position 3.
  CHECK(Ids(spark.t.previous_ids.data(), spark.t.previous_ids.data() + 4) == Ids{12, 13, 14, 15});
  CHECK(Ids(spark.t.teacher_rows.data(), spark.t.teacher_rows.data() + 4) == Ids{2, 3, 4, 5});
}

TEST_CASE("a row's end, and a document's, end the supervision") {
  Toy dflash;
  dflash.anchor = 5;
  CHECK(dflash.labels() == Ids{-1, 16, 17, -1});
  Toy spark = dspark();
  spark.anchor = 5;
  CHECK(spark.labels() == Ids{16, 17, -1, -1});
  for (Toy* toy : {&dflash, &spark}) {
    toy->anchor = 2;
    toy->start = {0, 0, 0, 0, 4, 4, 4, 4};
    toy->remaining = {3, 2, 1, 0, 3, 2, 1, 0};
  }
  CHECK(dflash.labels() == Ids{-1, 13, -1, -1});
  CHECK(spark.labels() == Ids{13, -1, -1, -1});
}

TEST_CASE("a gap in the loss mask: DFlash goes on behind it, DSpark stops") {
  Toy dflash, spark = dspark();
  dflash.loss_mask[4] = spark.loss_mask[4] = 0;
  CHECK(dflash.labels() == Ids{-1, 13, -1, 15});
  CHECK(spark.labels() == Ids{13, -1, -1, -1});
}

TEST_CASE("a block that is dropped is all masks and counts for nothing") {
  for (const Slot slot : {Slot::anchor_plus_k, Slot::anchor_plus_k_plus_1}) {
    Toy toy;
    toy.slot = slot, toy.keep = 0, toy.anchor = 0;
    CHECK(toy.noise() == Ids(4, mask_id));
    CHECK(toy.labels() == Ids(4, -1));
    CHECK(toy.t.total_weight() == 0);
  }
}

TEST_CASE("weights decay from the first supervised slot") {
  const double e = std::exp(-0.25);
  Toy dflash, spark = dspark();
  CHECK(dflash.weights() == std::vector<double>{0, 1, e, std::exp(-0.5)});
  CHECK(spark.weights() == std::vector<double>{1, e, std::exp(-0.5), std::exp(-0.75)});
  CHECK(dflash.t.total_weight() == doctest::Approx(1 + e + std::exp(-0.5)).epsilon(1e-15));
  dflash.gamma = INFINITY;
  CHECK(dflash.weights() == std::vector<double>{0, 1, 1, 1});
  const auto refuse = [&](double gamma, const char* message) {
    dflash.gamma = gamma;
    CHECK_THROWS_WITH_AS(dflash.run(), message, Error);
  };
  refuse(0, "gamma: found 0, wanted a number > 0 (infinity: slots weigh alike)");
  refuse(NAN, "gamma: found nan, wanted a number > 0 (infinity: slots weigh alike)");
}

TEST_CASE("a longer prefix shows its tokens; supervision and decay begin behind it") {
  Toy toy;
  toy.prefix = {3}, toy.block_size = 5;
  CHECK(toy.noise() == Ids{12, 13, 14, mask_id, mask_id});
  CHECK(toy.labels() == Ids{-1, -1, -1, 15, 16});
  CHECK(toy.weights() == std::vector<double>{0, 0, 0, 1, std::exp(-0.25)});
  toy.anchor = 6;  // two of the three tokens are past the row's end
  CHECK(toy.noise() == Ids{16, 17, mask_id, mask_id, mask_id});
  CHECK(toy.labels() == Ids(5, -1));
}

TEST_CASE("anchors and prefixes out of range are refused") {
  Toy toy;
  toy.anchor = 8;
  CHECK_THROWS_WITH_AS(toy.run(), "batch: anchor of block 0: found 8, wanted 0 to 7", Error);
  toy.anchor = -1;
  CHECK_THROWS_AS(toy.run(), Error);
  toy.anchor = 0, toy.prefix = {4};
  CHECK_THROWS_WITH_AS(toy.run(), "batch: prefix length of block 0: found 4, wanted 1 to 3", Error);
  toy.prefix = {0};
  CHECK_THROWS_AS(toy.run(), Error);
  toy.slot = Slot::anchor_plus_k_plus_1, toy.prefix = {2};
  CHECK_THROWS_WITH_AS(toy.run(), "batch: prefix_lengths: found 1, wanted none: these blocks show their anchor alone",
                       Error);
}

namespace {

/// χ² of 20,000 prefix lengths against Pr(l) ∝ base^l on [least, b - 1].
double chi2(index_t block_size, double drawn_base, double base) {
  Ids lengths(20000);
  draw_prefix_lengths(block_size, drawn_base, 11, 4, Vector<index_t>(lengths.data(), 20000));
  std::vector<double> counts(static_cast<std::size_t>(block_size)), expected(counts.size());
  for (const index_t l : lengths) counts.at(static_cast<std::size_t>(l)) += 1;
  const index_t least = std::min<index_t>(2, block_size - 1);
  double all = 0, sum = 0;
  for (index_t l = least; l < block_size; ++l) all += std::pow(base, static_cast<double>(l));
  for (std::size_t l = 0; l < counts.size(); ++l) {
    if (static_cast<index_t>(l) < least) {
      CHECK(counts[l] == 0);
      continue;
    }
    const double wanted = 20000 * std::pow(base, static_cast<double>(l)) / all;
    sum += (counts[l] - wanted) * (counts[l] - wanted) / wanted;
  }
  return sum;
}

}  // namespace

TEST_CASE("prefix lengths have their distribution") {
  CHECK(chi2(8, 0.9, 0.9) < 20.5);   // 5 degrees of freedom, p = 0.001
  CHECK(chi2(16, 0.9, 0.9) < 34.5);  // 13
  CHECK(chi2(3, 0.9, 0.9) == 0);     // l = 2 alone
  CHECK(chi2(2, 0.9, 0.9) == 0);     // l = 1 alone
  CHECK(chi2(8, 1.0, 0.9) > 100);
}

TEST_CASE("prefix lengths depend on seed, step and block alone") {
  Ids a(50), b(50), part(20);
  draw_prefix_lengths(8, 0.9, 3, 1, Vector<index_t>(a.data(), 50));
  draw_prefix_lengths(8, 0.9, 3, 2, Vector<index_t>(b.data(), 50));
  draw_prefix_lengths(8, 0.9, 3, 1, Vector<index_t>(part.data(), 20), 30);
  CHECK(a != b);
  CHECK(part == Ids(a.begin() + 30, a.end()));
  draw_prefix_lengths(8, 0.9, 3, 7,
                      Vector<index_t>(a.data(), 8));  // Philox: seed 3, stream "pref" + 7, counters 0 to 7
  CHECK(Ids(a.begin(), a.begin() + 8) == Ids{4, 5, 4, 7, 4, 2, 7, 3});
  CHECK_THROWS_AS(draw_prefix_lengths(1, 0.9, 3, 1, Vector<index_t>(a.data(), 50)), Error);
  CHECK_THROWS_AS(draw_prefix_lengths(8, 0, 3, 1, Vector<index_t>(a.data(), 50)), Error);
}
