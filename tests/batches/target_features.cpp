// What the frozen target gives an EAGLE-3 batch: everything shifted as TttBatch says, aux as it is.
#include <k3spec/batches/target_features.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "tests/support/same_bits.hpp"
#include "tests/support/small_target.hpp"

using namespace k3spec;

namespace {

using Target = test::SmallTarget;
constexpr index_t sequences = 2, length = 9, rows = sequences * length, vocab = Target::vocab_size;
constexpr index_t draft_vocab = Target::draft_vocab_size;

/// What the target says at its own rows, not shifted.
struct Own {
  std::vector<float> logits = std::vector<float>(rows * vocab), tapped{};
  std::vector<index_t> top = std::vector<index_t>(rows);

  explicit Own(const TextWindows& windows) {
    const std::vector<index_t> layers{1, 2, 4};
    TargetStates<Target, float> states(test::small_target<float>(), eagle3_taps(layers, 6, {}), {sequences, length});
    states.run(Cpu{}, windows);
    const Rows<float, vocab> all(logits.data(), rows);
    states.target().compute_logits(Cpu{}, states.last(), all);
    argmax(Cpu{}, all, Vector<index_t>(top.data(), rows));
    tapped.assign(states.tapped().data(), states.tapped().data() + states.tapped().size());
  }
};

}  // namespace

TEST_CASE("features: a row's token, mask, choice and teacher are those of the next position, aux is its own") {
  std::vector<index_t> ids, selected;
  for (index_t i = 0; i < rows; ++i) ids.push_back(i * 5 % 47);
  for (index_t i = 0; i < draft_vocab; ++i) selected.push_back(2 + 2 * i);
  std::vector<std::uint8_t> mask(rows, 1);
  mask[4] = mask[11] = 0;
  const TextWindows windows{Matrix<const index_t>(ids.data(), sequences, length),
                            Vector<const std::uint8_t>(mask.data(), rows)};
  const Own own(windows);
  TargetFeatures<Target, Target, float> features(test::small_target<float>(), DraftVocabulary(selected, vocab),
                                                 {1, 2, 4}, {}, {sequences, length, Packing::none, 2});
  for (const index_t slot : {1, 0, 1}) {
    CAPTURE(slot);
    const auto made = features.make(Cpu{}, windows, slot);
    std::vector<float> taught(rows * draft_vocab);
    features.teacher(slot).selected_logits(Cpu{}, 0, Matrix<float>(taught.data(), rows, draft_vocab));
    CHECK(test::same_bits(std::vector<float>(made.aux.data(), made.aux.data() + made.aux.size()), own.tapped));
    for (index_t r = 0; r < rows; ++r) {
      CAPTURE(r);
      const auto next = static_cast<std::size_t>(r + 1);
      const bool last = next % length == 0;
      CHECK(made.loss_mask(r) == (last ? 0 : mask[next]));
      CHECK(made.input_ids(r) == (last ? 0 : ids[next]));
      if (last) continue;
      CHECK(made.teacher_top(r) == own.top[next]);
      for (index_t j = 0; j < draft_vocab; ++j) {
        CHECK(
            taught[static_cast<std::size_t>(r * draft_vocab + j)] ==
            doctest::Approx(own.logits[next * vocab + static_cast<std::size_t>(selected[static_cast<std::size_t>(j)])])
                .epsilon(1e-5));
      }
    }
  }
}
