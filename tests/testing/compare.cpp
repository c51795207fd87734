// Comparisons whose numbers were worked out by hand, and the table made of them.
#include <doctest/doctest.h>

#include <limits>

#include <k3spec/testing.hpp>

using namespace k3spec;
using testing::Row;
using testing::Tensor;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

Tensor<double> tensor(std::vector<index_t> shape, std::vector<double> values, DType stored = DType::F64) {
  return {"wanted", std::move(shape), std::move(values), stored};
}
using Index = std::vector<index_t>;

}  // namespace

TEST_CASE("compare: what is measured is what one works out by hand") {
  // Of [2, 2, 2]; found differs by 0.5 at [1, 0, 1] and by 1 at [1, 1, 1].
  const auto wanted = tensor({2, 2, 2}, {3, 0, 0, 0, 0, 0, 4, 0}),
             found = tensor({2, 2, 2}, {3, 0, 0, 0, 0, 0.5, 4, -1});
  const Row row = testing::compare("y", found, wanted, {1e-3, 0});
  CHECK(row.max_abs == 1);
  CHECK(row.relative == 0.25);
  // <a, b> = 25, |a|² = 26.25, |b|² = 25
  CHECK(row.cosine == doctest::Approx(25 / std::sqrt(26.25 * 25)).epsilon(1e-15));
  CHECK(row.bad == 2);
  CHECK(row.first_bad == Index{1, 0, 1});
  CHECK(row.found == 0.5);
  CHECK(row.wanted == 0);
  CHECK(!row.ok);
  // relative 0.2: 0.8 is allowed, of the whole tensor.
  CHECK(testing::compare("y", found, wanted, {0.2, 0}).first_bad == Index{1, 1, 1});
  CHECK(testing::compare("y", found, wanted, {0.25, 0}).ok);
  CHECK(testing::compare("y", found, wanted, {0, 1}).ok);
  CHECK(testing::compare("y", found, wanted, {0.125, 0.5}).ok);
  CHECK(testing::compare("y", found, wanted, {0.125, 0.49}).bad == 1);
  CHECK(testing::compare("y", wanted, wanted, {0, 0}).ok);
  // Where all that is wanted are zeros.
  CHECK(testing::compare("y", tensor({2}, {0, 1}), tensor({2}, {0, 0})).relative == infinity);
  CHECK(testing::compare("y", tensor({2}, {0, -0.0}), tensor({2}, {0, 0})).relative == 0);
  CHECK(testing::compare("y", tensor({2}, {0, 1}), tensor({2}, {0, 0})).cosine == 0);
  CHECK(testing::compare("y", tensor({2}, {-2, 0}), tensor({2}, {1, 0})).cosine == -1);
  CHECK(testing::compare("y", tensor({1}, {1e-200}), tensor({1}, {3e-200})).cosine == 1);
}

TEST_CASE("compare: ulps are counted in the narrower type") {
  using testing::ulp_distance;
  CHECK(ulp_distance(1.0, 1.0) == 0);
  CHECK(ulp_distance(1.0, 1.0 + 0x1p-52) == 1);
  CHECK(ulp_distance(1.0, 1.0 - 0x1p-53) == 1);
  CHECK(ulp_distance(1.0F, 1.5F) == 1U << 22U);
  CHECK(ulp_distance(0.0F, -0.0F) == 0);
  CHECK(ulp_distance(-0x1p-149F, 0x1p-149F) == 2);
  CHECK(ulp_distance(bfloat16(1.0F), bfloat16(1.0F + 0x1p-6F)) == 2);
  CHECK(ulp_distance(bfloat16(-1.0F), bfloat16(-1.0F - 0x1p-7F)) == 1);
  CHECK(ulp_distance(bfloat16(-1.0F), bfloat16(1.0F)) == 2 * 0x3f80);
  const double most = std::numeric_limits<double>::max();
  CHECK(ulp_distance(-most, most) == 2 * 0x7fefffffffffffffU);
  CHECK(ulp_distance(most, -most) == 2 * 0x7fefffffffffffffU);

  const double x = 1 + 0x1p-23;
  const auto ulps = [&](DType found, DType wanted) {
    const Row row = testing::compare("y", tensor({2}, {x, 1}, found), tensor({2}, {1, 1}, wanted), {1, 0});
    CHECK(row.ulp_type == testing::detail::narrower(found, wanted));
    return row.ulps;
  };
  CHECK(ulps(DType::F64, DType::F64) == 1U << 29U);
  CHECK(ulps(DType::F64, DType::F32) == 1);
  CHECK(ulps(DType::F32, DType::F16) == 1);
  CHECK(ulps(DType::F32, DType::BF16) == 0);
}

TEST_CASE("compare: NaN and infinities") {
  const auto one = [](double found, double wanted) {
    return testing::compare("y", tensor({2}, {2, found}), tensor({2}, {2, wanted}), {1e300, 1e300});
  };
  const std::vector<std::pair<double, double>> apart{
      {not_a_number, 1.0},   {1.0, not_a_number},      {infinity, 1.0},         {1.0, -infinity},
      {infinity, -infinity}, {not_a_number, infinity}, {infinity, not_a_number}};
  for (const auto& pair : apart) {
    CAPTURE(pair.first);
    CAPTURE(pair.second);
    const Row row = one(pair.first, pair.second);
    CHECK(!row.ok);
    CHECK(row.bad == 1);
    CHECK(row.first_bad == Index{1});
    CHECK(row.max_abs == infinity);
    CHECK(row.cosine == 1);
    CHECK(row.ulps == 0);
  }
  for (const double same : {not_a_number, infinity, -infinity}) {
    const Row row = one(same, same);
    CHECK(row.ok);
    CHECK(row.max_abs == 0);
    CHECK(row.note == "1 NaN or infinite in both");
  }
  // The finite ones count all the same.
  CHECK(testing::compare("y", tensor({2}, {not_a_number, 2}), tensor({2}, {not_a_number, 1}), {0.5, 0}).first_bad ==
        Index{1});
}

TEST_CASE("compare: empty, of one element, of no axes") {
  const Row empty = testing::compare("y", tensor({0, 3}, {}), tensor({2, 0, 3}, {}));
  CHECK(empty.ok);
  CHECK(empty.note == "empty");
  CHECK(empty.cosine == 1);
  CHECK(!testing::compare("y", tensor({0, 3}, {}), tensor({0, 4}, {})).ok);
  CHECK(testing::compare("y", tensor({1}, {2}), tensor({}, {2})).ok);
  const Row one = testing::compare("y", tensor({1, 1}, {2}), tensor({}, {3}));
  CHECK(one.bad == 1);
  CHECK(one.first_bad.empty());
  CHECK(testing::compare("y", tensor({1, 1}, {2}), tensor({1}, {3})).first_bad == Index{0});
}

TEST_CASE("compare: other shapes are told by both, rows may be flattened, and a turned matrix is recognised") {
  const auto wanted = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const Row other = testing::compare("w", tensor({3, 2}, {1, 2, 3, 4, 5, 6}), wanted);
  CHECK(!other.ok);
  CHECK(!other.measured);
  CHECK(other.note == "shape [3, 2], wanted [2, 3]");
  CHECK(testing::compare("w", tensor({3, 2}, {1, 4, 2, 5, 3, 6}), wanted).note ==
        "shape [3, 2], wanted [2, 3]; it is the transpose");
  const auto square = tensor({2, 2}, {1, 2, 3, 4});
  const Row turned = testing::compare("w", tensor({2, 2}, {1, 3, 2, 4}), square);
  CHECK(turned.bad == 2);
  CHECK(turned.first_bad == Index{0, 1});
  CHECK(turned.note == "it is the transpose");
  CHECK(testing::compare("w", tensor({2, 2}, {1, 3, 2, 5}), square).note.empty());
  CHECK(testing::compare("w", square, square).note.empty());
  // [batch, length, hidden]
  const auto deep = tensor({1, 2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(testing::compare("w", tensor({2, 3}, {1, 2, 3, 4, 5, 6}), deep).ok);
  CHECK(testing::compare("w", deep, wanted).ok);
  CHECK(!testing::compare("w", tensor({1, 6}, {1, 2, 3, 4, 5, 6}), deep).ok);
  CHECK(!testing::compare("w", tensor({2, 1, 3}, {1, 2, 3, 4, 5, 6}), deep).ok);
  CHECK(testing::compare("w", tensor({2, 3}, {1, 2, 3, 4, 5, 7}), deep).first_bad == Index{0, 1, 2});
}

TEST_CASE("compare: views with gaps, spans, and other element types") {
  const std::vector<float> wide{1, 2, 9, 3, 4, 9};
  const auto wanted = tensor({2, 2}, {1, 2, 3, 4}, DType::F32);
  const Matrix<const float> view(wide.data(), Extents<dyn, dyn>(2, 2), 3);
  const Row row = testing::compare("y", view, wanted);
  CHECK(row.ok);
  CHECK(row.ulp_type == DType::F32);
  const std::vector<bfloat16> flat{bfloat16(1.0F), bfloat16(2.0F), bfloat16(3.0F), bfloat16(5.0F)};
  const Row spanned = testing::compare("y", std::span<const bfloat16>(flat), wanted);
  CHECK(spanned.ulp_type == DType::BF16);
  CHECK(spanned.first_bad == Index{1, 1});
  CHECK(testing::compare("y", std::span<const bfloat16>(flat).first(3), wanted).note == "shape [3], wanted [2, 2]");
}

TEST_CASE("report: the table is aligned, and says what is bad") {
  testing::Report report;
  CHECK(!report.ok());
  CHECK(report.text().find("nothing compared") != std::string::npos);
  report.add(testing::compare("output.0", tensor({2}, {1, 2}), tensor({2}, {1, 2})));
  CHECK(report.ok());
  report.add(testing::compare("grad.w", tensor({2}, {1, 2}), tensor({2}, {1, 4})));
  report.add(testing::compare("v", tensor({3}, {1, 2, 3}), tensor({2}, {1, 4})));
  CHECK(!report.ok());
  CHECK(report.text() ==
        "     tensor    shape  max abs  relative       cosine          ulp  bad  first bad; what else\n"
        "ok   output.0  [2]          0         0  1.000000000        0 F64    0\n"
        "BAD  grad.w    [2]          2       0.5  0.976187060  4.5e+15 F64    1  [1]: found 2, wanted 4\n"
        "BAD  v                                                                  shape [3], wanted [2]\n"
        "1 of 3 ok\n");
  testing::Report all;
  all.add(report);
  CHECK(all.rows().size() == 3);
}
