// The laws of the whole EAGLE-3 draft with Kimi K3's block, and what its objective refuses and forgets.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <tests/laws/check_laws.hpp>
#include <tests/laws/draft_laws.hpp>
#include <tests/support/ttt_numbers.hpp>

using namespace k3spec;
using namespace k3spec::laws;

TEST_CASE("laws: Eagle3Draft unrolled over three steps") {
  check<UnrollLaw<Small>>({{1, 1}, {4, 5}, {1, 35}});
  check<UnrollLaw<Small31>>({{1, 1}, {4, 5}});
  check<UnrollLaw<Small, Sequence::packed>>({{4, 5}, {1, 35}});
}

TEST_CASE("laws: the EAGLE-3 objective") {
  check<ObjectiveLaw<Small>>({{1, 2}, {4, 6}, {1, 9}});
  check<ObjectiveLaw<Small31>>({{4, 6}});
}

namespace {

/// An objective's operands that a test may change before it runs.
struct Objective : Trial<ObjectiveLaw<Small>, double> {
  using Law = ObjectiveLaw<Small>;
  using Trial::Trial;

  test::TttNumbers run() {
    const auto c = call(1);
    const auto b = back();
    const auto result = fixture().objective->forward_backward(c.device, c.w, b.d_w, Law::batch(c), Law::teacher(c),
                                                              std::nullopt, b.d_x[0]);
    fetch_gradients();
    return result;
  }
  bool gradients_are_zero() {
    for (const auto& t : tensors()) {
      for (index_t i = 0; i < t.size; ++i) {
        if (t.gradient[i] != 0) return false;
      }
    }
    return true;
  }
};

}  // namespace

TEST_CASE("nothing supervised: loss 0 and gradients 0, not NaN") {
  Objective masked({4, 6}), unsayable({4, 6});
  std::fill(masked.fixture().loss_mask.begin(), masked.fixture().loss_mask.end(), std::uint8_t{0});
  std::fill(unsayable.fixture().t2d.begin(), unsayable.fixture().t2d.end(), std::uint8_t{0});
  for (auto* objective : {&masked, &unsayable}) {
    const test::TttNumbers r = objective->run();
    CHECK(r.loss == 0);
    CHECK(r.supervised == 0);
    CHECK(r.correct == 0);
    CHECK(r.accept_length == 1);
    CHECK(objective->gradients_are_zero());
    // A chain counts even where the draft has no word for its tokens.
    CHECK((r.step_chains[0] > 0) == (objective == &unsayable));
  }
}

TEST_CASE("an objective remembers nothing of the batch before, and plans its memory to the byte") {
  Objective fresh({3, 7}, 5), used({3, 7}, 5);
  Objective other({3, 7});
  // The batch before supervises rows that this one does not, and none of its numbers is one.
  std::fill(other.fixture().loss_mask.begin(), other.fixture().loss_mask.end(), std::uint8_t{1});
  for (auto& x : other.x) std::fill(x.begin(), x.end(), NAN);
  std::swap(other.fixture().objective, used.fixture().objective);
  other.run();
  std::swap(other.fixture().objective, used.fixture().objective);
  const test::TttNumbers a = fresh.run(), b = used.run();
  CHECK(a.loss == b.loss);
  CHECK(compare_bits(used.results(), fresh.results(), "after another batch") == "");
  CHECK(used.fixture().objective->peak_bytes() == TttObjective<Eagle3Draft<Small>, double>::bytes(21, steps));
}

TEST_CASE("batches that do not fit are refused by name") {
  using Errors = TttObjective<Eagle3Draft<Small>, double>;
  Objective o({2, 6});
  const auto c = o.call(1);
  const auto good = Objective::Law::batch(c);
  const auto refuse = [&](const auto& change, const char* message) {
    auto batch = good;
    change(batch);
    const auto run = [&] { o.fixture().objective->evaluate_only(c.device, c.w, batch, Objective::Law::teacher(c)); };
    CHECK_THROWS_WITH_AS(run(), doctest::Contains(message), Error);
  };
  refuse([](auto& b) { b.length = 5; }, "batch: length: found 5, wanted a divisor of 12");
  refuse([](auto& b) { b.length = 0; }, "batch: length: found 0");
  refuse([](auto& b) { b.input_ids = b.input_ids.rows(0, 11); }, "batch: input_ids: found 11, wanted 12 rows");
  refuse([](auto& b) { b.loss_mask = b.loss_mask.rows(0, 11); }, "batch: loss_mask: found 11");
  refuse([](auto& b) { b.aux = b.aux.rows(0, 11); }, "batch: aux: found 11");
  refuse([](auto& b) { b.t2d = b.t2d.rows(0, 22); }, "batch: t2d: found 22, wanted 23 tokens");
  o.fixture().top[3] = 23;
  refuse([](auto&) {}, "batch: teacher_top at row 3: found 23, wanted 0 to 22");
  CHECK_THROWS_WITH_AS(Errors(12, 0), doctest::Contains("ttt_steps: found 0, wanted 1 to 16"), Error);
  CHECK_THROWS_WITH_AS(Errors(12, 17), doctest::Contains("ttt_steps: found 17"), Error);
}
