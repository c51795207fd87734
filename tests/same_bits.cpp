// same_bits: three steps of training, hashed, and before them the instruction set that the program was built for. The
// test builds it for several and compares (tests/same_bits_test.sh): all that could depend on how many numbers a
// register holds, the target's states, objective, gradients and optimiser, in widths of no register's size and with two
// documents a row. Programs of their own, for what is not k3spec's (the standard library's templates) has one copy in a
// program. Exit status 77 where this processor cannot run it.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <tests/support/golden_bits.hpp>
#include <tests/support/small_target.hpp>
#include <k3spec/backend/cpu/cpu_check.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/run/block_methods.hpp>
#include <k3spec/run/eagle3_method.hpp>

namespace {

using namespace k3spec;
using SmallTarget = test::SmallTarget;

struct SmallDSpark : configs::DSpark<SmallTarget> {
  static constexpr index_t block_size = 4;
  static constexpr std::optional<index_t> mask_token_id = 47;
  static constexpr index_t markov_rank = 6;
};

constexpr index_t batch = 2, length = 37;

std::vector<index_t> text(index_t seed) {
  std::vector<index_t> ids;
  for (index_t i = 0; i < batch * length; ++i) ids.push_back((i * i * 7 + i * 3 + seed) % 47);
  return ids;
}

template <class Trainer, class Setup>
std::uint64_t train(const Setup& setup) {
  using T = typename Trainer::T;
  TrainSettings settings;
  settings.batch = batch, settings.length = length, settings.ttt_steps = 3;
  settings.packing = Packing::apart;
  Parameters<K3Target<SmallTarget>, T> target = test::small_target<T>();
  Trainer trainer(Cpu{2}, std::move(target), setup(), settings);
  test::BitHash bits;
  const std::vector<index_t> lens{20, 17, 9, 28};
  for (index_t step = 0; step < 3; ++step) {
    const auto ids = text(step);
    TextWindows windows{Matrix<const index_t>(ids.data(), batch, length)};
    windows.seq_lens = Matrix<const index_t>(lens.data(), batch, 2);
    const auto report = trainer.step(windows);
    bits.number(report.metrics.loss()).number(report.grad_norm);
  }
  const auto all = trainer.parameters().all();
  for (index_t i = 0; i < all.size(); ++i) bits.number(static_cast<double>(all(i)));
  return bits.value();
}

void say(const char* name, std::uint64_t bits) { fmt::print("{}: {:016x}\n", name, bits); }

}  // namespace

#define K3SPEC_TEXT_OF(x) #x
#define K3SPEC_TEXT(...) K3SPEC_TEXT_OF((__VA_ARGS__))

int main() {
  std::puts(K3SPEC_TEXT(K3SPEC_NAMESPACE));
  for (const CpuFeature& feature : needed_cpu_features()) {
    if (!feature.present) return 77;
  }
  std::vector<index_t> ids;
  for (index_t i = 0; i < SmallTarget::draft_vocab_size; ++i) ids.push_back(2 + 2 * i);
  using Eagle3 = Eagle3Trainer<SmallTarget, SmallTarget, float>;
  using DSpark = DSparkTrainer<SmallTarget, SmallDSpark, double>;
  say("EAGLE-3, float", train<Eagle3>([&] {
        return typename Eagle3::Setup{DraftVocabulary(ids, SmallTarget::vocab_size), {1, 2, 4}};
      }));
  say("DSpark, double", train<DSpark>([] { return typename DSpark::Setup{{1, 2, 4}}; }));
}
