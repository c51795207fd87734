// The objectives on a device whose memory the host cannot read: the bits of Cpu, and as few waits for it however many
// chunks the vocabulary is walked in.
#include <doctest/doctest.h>

#include "on_device.hpp"
#include "tests/support/far_device.hpp"

using namespace k3spec;
using namespace k3spec::test::on_device;

namespace {

/// A device that counts.
struct Counting {
  index_t calls = 0, waits = 0;
  Far device{&calls, 2, &waits};
};

template <index_t Chunk>
auto far_ttt(const test::ttt::Data<test::ttt::K3>& data, const TttLoss& loss) {
  Counting far;
  const auto outcome = ttt_step<Chunk>(far.device, data, loss);
  CHECK(far.calls > 0);
  return outcome;
}
template <index_t Chunk, class Kind>
auto far_blocks(test::blocks::Part<Kind>& part) {
  Counting far;
  const auto outcome = block_step<Chunk>(far.device, part);
  CHECK(far.calls > 0);
  return outcome;
}

template <class Kind>
void check_blocks() {
  test::blocks::Data<Kind> data(33);
  test::blocks::Part<Kind> part{data, 0, {3, 11, 2, 3}, {1, 5, 2, 0, 3, 7}};
  part.keep[3] = 0;
  if constexpr (std::is_same_v<Kind, test::blocks::DFlash>) part.prefixes = {1, 2, 2, 1, 2, 1};
  const auto near = block_step<4>(Cpu{2}, part), far = far_blocks<4>(part), whole = far_blocks<64>(part);
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
      const auto near = ttt_step<4>(Cpu{2}, *data, loss), far = far_ttt<4>(*data, loss),
                 whole = far_ttt<64>(*data, loss);
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
