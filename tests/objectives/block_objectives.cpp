// Block objectives over ranks and over packed documents: the parts add up to the whole.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/objectives/block_data.hpp"

using namespace k3spec;
using namespace k3spec::test::blocks;

namespace {

/// Two parts, divided by what both of them weigh, are the whole. Sums of some hundred terms near 1 in another order.
template <class Kind>
void add_up(Part<Kind>& a, Part<Kind>& b, Part<Kind>& whole) {
  constexpr double rounding = 1e-12;
  BlockTotals total = a.count();
  total += b.count();
  CHECK(total.weight == doctest::Approx(whole.count().weight).epsilon(rounding));
  CHECK(a.count().weight > 0);
  CHECK(b.count().weight > 0);
  a.run(total), b.run(total), whole.run(std::nullopt);
  CHECK(parameter_difference(a, b, whole) < rounding);
  CHECK(difference(joined(a.d_hidden, b.d_hidden), whole.d_hidden) < rounding);
  auto both = a.sums;
  both += b.sums;
  CHECK(both.mean_loss() == doctest::Approx(whole.sums.mean_loss()).epsilon(rounding));
  CHECK(both.loss.denominator == doctest::Approx(whole.sums.loss.denominator).epsilon(rounding));
  if constexpr (std::is_same_v<Kind, DFlash>) {
    both.loss = whole.sums.loss;
    CHECK(both == whole.sums);
  } else {
    CHECK(both.accept_length.denominator == whole.sums.accept_length.denominator);
    CHECK(both.accept_length.value() == doctest::Approx(whole.sums.accept_length.value()).epsilon(rounding));
    CHECK(both.confidence_prefix_bias.value() ==
          doctest::Approx(whole.sums.confidence_prefix_bias.value()).epsilon(rounding));
  }
}

template <class Kind>
void ranks() {
  Data<Kind> data(33);
  Part<Kind> a{data, 0, {2, 11, 2, 3}, {1, 5, 2, 0}}, b{data, 22, {1, 11, 2, 3}, {3, 7}},
      whole{data, 0, {3, 11, 2, 3}, {1, 5, 2, 0, 3, 7}};
  a.keep[3] = whole.keep[3] = 0;
  if constexpr (std::is_same_v<Kind, DFlash>) {
    a.prefixes = {1, 2, 2, 1}, b.prefixes = {2, 1}, whole.prefixes = joined(a.prefixes, b.prefixes);
  }
  add_up(a, b, whole);
  // A batch that supervises nothing adds nothing.
  Part<Kind> none{data, 22, {1, 11, 2, 3}, {3, 7}};
  none.keep = {0, 0};
  CHECK(none.count().weight == 0);
  none.run(whole.count());
  const auto all = values(none.gradients);
  CHECK(std::all_of(all.begin(), all.end(), [](double x) { return x == 0; }));
  CHECK(std::all_of(none.d_hidden.begin(), none.d_hidden.end(), [](double x) { return x == 0; }));
  CHECK_THROWS_WITH_AS(b.run(none.count()), doctest::Contains("totals: weight: found 0.000000, wanted at least"),
                       Error);
  // Each by its own weight, the mean of the means is another gradient.
  Part<Kind> own_a{data, 0, {2, 11, 2, 3}, {1, 5, 2, 0}}, own_b{data, 22, {1, 11, 2, 3}, {3, 7}};
  own_a.keep = a.keep, own_a.prefixes = a.prefixes, own_b.prefixes = b.prefixes;
  own_a.run(BlockTotals{2 * own_a.count().weight}), own_b.run(BlockTotals{2 * own_b.count().weight});
  CHECK(parameter_difference(own_a, own_b, whole) > 1e-3);
}

template <class Kind>
void documents() {
  Data<Kind> data(18);
  data.start.resize(18), data.remaining.resize(18);
  const std::vector<index_t> lens{8, 10};
  document_bounds(Matrix<const index_t>(lens.data(), 1, 2), 18, Vector<index_t>(data.start.data(), 18),
                  Vector<index_t>(data.remaining.data(), 18));
  // The first document's last block, at 6, ends in the second one's tokens.
  Part<Kind> a{data, 0, {1, 8, 2, 3}, {1, 6}}, b{data, 8, {1, 10, 2, 3}, {1, 5}},
      whole{data, 0, {1, 18, 4, 3}, {1, 6, 9, 13}};
  whole.packed = true;
  add_up(a, b, whole);
  whole.packed = false;
  whole.gradients.zero();
  whole.run(std::nullopt);
  CHECK(parameter_difference(a, b, whole) > 1e-3);
}

template <class Kind, index_t Rows>
void chunked(Part<Kind>& whole) {
  Part<Kind, typename Kind::template Chunked<Rows>> parts{whole.data, whole.first, whole.span, whole.anchors};
  parts.run(std::nullopt);
  CHECK(parts.sums == whole.sums);
  CHECK(values(parts.gradients) == values(whole.gradients));
  CHECK(parts.d_hidden == whole.d_hidden);
}

template <class Kind>
void chunks() {
  Data<Kind> data(33);
  Part<Kind> whole{data, 0, {3, 11, 2, 3}, {1, 5, 2, 0, 3, 7}};
  whole.run(std::nullopt);
  chunked<Kind, 1>(whole);
  chunked<Kind, 5>(whole);
}

}  // namespace

TEST_CASE_TEMPLATE("how many rows go through the vocabulary at a time changes no bit", Kind, DFlash, DSpark) {
  chunks<Kind>();
}

TEST_CASE_TEMPLATE("ranks that divide by the weight of all add up to the whole batch", Kind, DFlash, DSpark) {
  ranks<Kind>();
}

TEST_CASE_TEMPLATE("documents packed into a row are the documents apart", Kind, DFlash, DSpark) { documents<Kind>(); }

TEST_CASE("DSpark: the gradient of the confidence loss is weighed as the options say") {
  Data<DSpark> data(33);
  const auto gradient = [&](double weight) {
    Part<DSpark> part{.data = data,
                      .first = 0,
                      .span = {3, 11, 2, 3},
                      .anchors = {1, 5, 2, 0, 3, 7},
                      .objective = DSpark::Objective(3, 11, 2, DSparkOptions{.confidence_alpha = weight})};
    part.run(std::nullopt);
    return values(part.gradients);
  };
  const auto without = gradient(0), half = gradient(0.5), whole = gradient(1);
  CHECK(whole != without);
  for (std::size_t i = 0; i < half.size(); ++i) {
    CHECK(half[i] - without[i] == doctest::Approx((whole[i] - without[i]) / 2).epsilon(1e-9).scale(1e-3));
  }
}
