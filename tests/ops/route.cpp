// Who is chosen where scores are equal, what a token weighs whose scores are all 0, and sums that are rounded once.
#include <doctest/doctest.h>

#include <vector>

#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/ops/route.hpp>

using namespace k3spec;

namespace {

struct Six : configs::KimiK3 {
  static constexpr index_t num_experts = 6, num_experts_per_token = 2;
  static constexpr index_t num_expert_group = 1, topk_group = 1;
  static constexpr double routed_scaling_factor = 1.5;
};
struct Top1 : Six {
  static constexpr index_t num_experts = 2, num_experts_per_token = 1;
};
struct Grouped : Six {
  static constexpr index_t num_expert_group = 3, topk_group = 1;
};
struct Threes : Six {
  static constexpr index_t num_expert_group = 2, topk_group = 1;
};
struct AsTheyAre : Six {
  static constexpr bool moe_renormalize = false;
};

template <class S>
struct Choice {
  std::vector<index_t> ids;
  std::vector<S> weights;
};

template <class Config, class S>
Choice<S> choose(std::vector<S> scores, std::vector<S> correction) {
  constexpr index_t k = Config::num_experts_per_token;
  const auto n = static_cast<index_t>(scores.size());
  Choice<S> c{std::vector<index_t>(k, -1), std::vector<S>(k, S(NAN))};
  route<Config>(Cpu{1}, Matrix<S>(scores.data(), 1, n), Vector<const S>(correction.data(), n),
                Matrix<index_t>(c.ids.data(), 1, k), Matrix<S>(c.weights.data(), 1, k));
  return c;
}

using Ids = std::vector<index_t>;

}  // namespace

TEST_CASE_TEMPLATE("equal scores: the lower ids are chosen, of experts and of groups", S, float, double) {
  const std::vector<S> none(6), half(6, S(0.5));
  CHECK(choose<Six>(half, none).ids == Ids{0, 1});
  CHECK(choose<Six>({S(0.1), S(0.5), S(0.2), S(0.5), S(0.5), S(0.5)}, none).ids == Ids{1, 3});
  CHECK(choose<Six>({S(0.1), S(0.5), S(0.2), S(0.5), S(0.9), S(0.5)}, none).ids == Ids{1, 4});
  CHECK(choose<Grouped>(half, none).ids == Ids{0, 1});
  CHECK(choose<Grouped>({S(0.1), S(0.5), S(0.4), S(0.3), S(0.3), S(0.4)}, none).ids == Ids{2, 3});
  CHECK(choose<Top1, S>({S(0.5), S(0.5)}, {S(7), S(7)}).ids == Ids{0});
  CHECK(choose<Top1, S>({S(0.5), S(0.5)}, {S(7.000), S(7.010)}).ids == Ids{1});
  const auto equal = choose<Six>(half, none);
  CHECK(equal.weights == std::vector<S>{S(0.75), S(0.75)});
}

TEST_CASE("a group weighs what its two best together do, wherever they stand") {
  const std::vector<double> none(6);
  CHECK(choose<Threes>({0.1, 0.2, 0.6, 0.5, 0.4, 0.0}, none).ids == Ids{3, 4});  // 0.8 and 0.9
  CHECK(choose<Threes>({0.6, 0.2, 0.1, 0.0, 0.5, 0.4}, none).ids == Ids{4, 5});
  CHECK(choose<Threes>({0.6, 0.1, 0.2, 0.4, 0.3, 0.35}, none).ids == Ids{0, 2});  // 0.8 and 0.75
}

TEST_CASE_TEMPLATE("scores of 0: weights of 0, whatever chose them", S, float, double) {
  const std::vector<S> zeros(6);
  for (const auto& correction : {zeros, std::vector<S>{S(0), S(0), S(3), S(0), S(-1), S(2)}}) {
    CHECK(choose<Six>(zeros, correction).weights == std::vector<S>(2));
    CHECK(choose<AsTheyAre>(zeros, correction).weights == std::vector<S>(2));
  }
  CHECK(choose<Six>(zeros, {S(0), S(0), S(3), S(0), S(-1), S(2)}).ids == Ids{2, 5});
  // One of them alone has all the weight.
  CHECK(choose<Six>({S(0), S(0), S(0), S(0.5), S(0), S(0)}, zeros).weights == std::vector<S>{S(0), S(1.5)});
}

TEST_CASE("experts' results are added up in float and rounded once") {
  // 1 + 2^-8 lies between two numbers of bfloat16, and the even one is 1: rounded one by one, nothing would be added.
  std::vector<float> results{1, 0x1p-8F, 0x1p-8F}, weights{1, 1, 1};
  std::vector<index_t> begin{0, 1, 2, 3}, row{0, 0, 0}, place{0, 1, 2};
  bfloat16 y{};
  const ExpertRows sorted{Vector<index_t>(begin.data(), 4), Vector<index_t>(row.data(), 3),
                          Matrix<index_t>(place.data(), 1, 3)};
  combine_experts(Cpu{1}, sorted, Matrix<float>(results.data(), 3, 1), Matrix<float>(weights.data(), 1, 3),
                  Matrix<bfloat16>(&y, 1, 1));
  CHECK(static_cast<float>(y) == 1 + 0x1p-7F);
}
