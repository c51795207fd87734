// The frozen target's side of a batch on a device whose memory the host cannot read: the bits of Cpu.
#include <doctest/doctest.h>

#include <vector>

#include <k3spec/batches/fingerprint.hpp>
#include <k3spec/batches/target_features.hpp>

#include "tests/support/far_device.hpp"
#include "tests/support/same_bits.hpp"
#include "tests/support/small_target.hpp"

using namespace k3spec;

namespace {

using Target = test::SmallTarget;
constexpr index_t sequences = 3, length = 9, rows = sequences * length;

/// What a batch is made of, and what its teacher says.
struct Features {
  std::vector<index_t> ids, top;
  std::vector<std::uint8_t> loss_mask;
  std::vector<float> aux, taught;
};

template <class D, class E>
std::vector<float> fetch(const D& device, const E* from, index_t count) {
  std::vector<float> all(static_cast<std::size_t>(count));
  download(device, Vector<const element_t<D, float>>(from, count), Vector<float>(all.data(), count));
  return all;
}

/// \param lens  documents of each window; none: they are one each
template <class D>
Features features(const D& device, const std::vector<index_t>& lens) {
  std::vector<index_t> ids, selected;
  for (index_t i = 0; i < rows; ++i) ids.push_back(i * 5 % 47);
  for (index_t i = 0; i < Target::draft_vocab_size; ++i) selected.push_back(2 + 2 * i);
  TextWindows windows{Matrix<const index_t>(ids.data(), sequences, length)};
  if (!lens.empty()) windows.seq_lens = Matrix<const index_t>(lens.data(), sequences, 2);
  TargetFeatures<Target, Target, float, D> all(
      test::small_target<float>(), DraftVocabulary(selected, Target::vocab_size), {1, 2, 4}, {},
      {sequences, length, lens.empty() ? Packing::none : Packing::apart, 2}, device);
  all.make(device, windows, 0);
  all.make(device, windows, 1);
  const auto batch = all.made(windows, 0);  // making another leaves it as it was
  test::Mirror<float, D> taught(std::vector<float>(rows * Target::draft_vocab_size));
  all.teacher(0).selected_logits(device, 0, taught.matrix(Target::draft_vocab_size));
  return {{batch.input_ids.data(), batch.input_ids.data() + rows},
          {batch.teacher_top.data(), batch.teacher_top.data() + rows},
          {batch.loss_mask.data(), batch.loss_mask.data() + rows},
          fetch(device, batch.aux.data(), batch.aux.size()),
          taught.get()};
}

}  // namespace

TEST_CASE("features on a device of its own: the bits of Cpu") {
  for (const std::vector<index_t>& lens : {std::vector<index_t>{}, std::vector<index_t>{4, 5, 9, 0, 2, 7}}) {
    const Features near = features(Cpu{2}, lens), far = features(Far{nullptr, 2}, lens);
    CHECK(far.ids == near.ids);
    CHECK(far.top == near.top);
    CHECK(far.loss_mask == near.loss_mask);
    CHECK(test::same_bits(far.aux, near.aux));
    CHECK(test::same_bits(far.taught, near.taught));
    CHECK(near.top[length - 1] == 0);
    CHECK(std::count(near.top.begin(), near.top.end(), 0) < rows);
  }
}

TEST_CASE("a fingerprint is the same wherever the bytes are") {
  std::vector<std::byte> bytes((std::size_t{5} << 19U) + 3);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i >> 3U);
  test::Mirror<std::byte, Far> there(bytes);
  const auto far = there.vector();
  CHECK(fingerprint(Far{}, {far.data(), bytes.size()}) == fingerprint(Cpu{}, bytes));
}
