// Documents of a row go through the target apart: the same bits as each of them alone.
#include <doctest/doctest.h>

#include <vector>

#include <k3spec/batches/target_states.hpp>

#include "tests/support/same_bits.hpp"
#include "tests/support/small_target.hpp"

using namespace k3spec;

namespace {

constexpr index_t hidden = test::SmallTarget::hidden_size;

struct States {
  std::vector<index_t> ids;
  std::vector<float> last{}, tapped{};

  /// \param lens  [batch, documents]
  void run(index_t batch, const std::vector<index_t>& lens, AuxStream stream = AuxStream::running_sum,
           int threads = 2) {
    const index_t rows = static_cast<index_t>(ids.size()), documents = static_cast<index_t>(lens.size()) / batch;
    TargetStates<test::SmallTarget, float> states(
        test::small_target<float>(),
        {{stream == AuxStream::running_sum ? Tap::What::running_sum : Tap::What::residual_mixture, 3},
         {Tap::What::embedding}},
        {batch, rows / batch, documents > 0 ? Packing::apart : Packing::none});
    TextWindows windows{Matrix<const index_t>(ids.data(), batch, rows / batch)};
    if (documents > 0) windows.seq_lens = Matrix<const index_t>(lens.data(), batch, documents);
    states.run(Cpu{threads}, windows);
    last.assign(states.last().data(), states.last().data() + rows * hidden);
    tapped.assign(states.tapped().data(), states.tapped().data() + rows * 2 * hidden);
  }
};

std::vector<float> joined(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

std::vector<index_t> some_ids(index_t first, index_t count) {
  std::vector<index_t> ids;
  for (index_t i = first; i < first + count; ++i) ids.push_back(i * 11 % 47);
  return ids;
}

}  // namespace

TEST_CASE("packing apart: the states of documents that run alone") {
  States packed{some_ids(0, 12)}, first{some_ids(0, 5)}, second{some_ids(5, 7)}, whole{some_ids(0, 12)};
  packed.run(1, {5, 0, 7});
  first.run(1, {}), second.run(1, {}), whole.run(1, {});
  CHECK(test::same_bits(packed.last, joined(first.last, second.last)));
  CHECK(test::same_bits(packed.tapped, joined(first.tapped, second.tapped)));
  CHECK_FALSE(test::same_bits(packed.last, whole.last));  // the target remembers what stands before
  States two{some_ids(0, 12)}, rows{some_ids(0, 12)};
  two.run(2, {4, 2, 6, 0}), rows.run(2, {});
  CHECK(std::equal(two.last.begin() + 6 * hidden, two.last.end(), rows.last.begin() + 6 * hidden));
  CHECK_FALSE(std::equal(two.last.begin(), two.last.begin() + 6 * hidden, rows.last.begin()));
}

TEST_CASE("packing apart: the same bits with one thread, as many as rows, and more") {
  const std::vector<index_t> lens{9, 1, 0, 3, 3, 4, 10, 0, 0};
  States one{some_ids(0, 30)};
  one.run(3, lens, AuxStream::running_sum, 1);
  for (const int threads : {2, 3, 4, 7}) {
    CAPTURE(threads);
    States several{some_ids(0, 30)};
    several.run(3, lens, AuxStream::running_sum, threads);
    CHECK(test::same_bits(several.last, one.last));
    CHECK(test::same_bits(several.tapped, one.tapped));
  }
}

TEST_CASE("documents that do not fill their windows do not run") {
  States packed{some_ids(0, 12)};
  CHECK_THROWS_WITH_AS(packed.run(2, {4, 2, 6, 1}), "documents of row 1: found 7 tokens, wanted 6", Error);
}

TEST_CASE("the residual mixture is another stream than the running sum") {
  States sum{some_ids(0, 6)}, mixture{some_ids(0, 6)};
  sum.run(1, {}), mixture.run(1, {}, AuxStream::residual_mixture);
  CHECK(test::same_bits(sum.last, mixture.last));
  CHECK_FALSE(test::same_bits(sum.tapped, mixture.tapped));
}
