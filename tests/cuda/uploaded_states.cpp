// A target's states on Cuda: those of the host's target beside it, or of a cache, bit for bit, in the slot that was
// asked for.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <k3spec/batches/target_features.hpp>
#include <k3spec/batches/uploaded_states.hpp>

#include <tests/cuda/device.hpp>
#include <tests/support/feature_capture.hpp>
#include <tests/support/same_bits.hpp>

using namespace k3spec;

namespace {

using Small = test::SmallTarget;
using Features = std::vector<std::vector<double>>;
constexpr index_t sequences = 3, length = 5, rows = sequences * length;
static_assert(std::is_same_v<target_device_t<Cuda>, Cpu> && std::is_same_v<target_device_t<Cpu>, Cpu>);
static_assert(std::is_same_v<states_for_t<Small, float, Cpu>, TargetStates<Small, float>>);

template <class D, class V>
std::vector<double> fetch(const D& device, const V& view) {
  using T = std::remove_const_t<value_t<typename V::element_type>>;
  std::vector<T> all(static_cast<std::size_t>(view.size()));
  download(device, Vector<const element_t<D, T>>(view.data(), view.size()), Vector<T>(all.data(), view.size()));
  return {all.begin(), all.end()};
}

std::vector<index_t> ids_of(index_t factor) {
  std::vector<index_t> ids;
  for (index_t i = 0; i < rows; ++i) ids.push_back(i * factor % 47);
  return ids;
}

/// Two batches, in two slots, the second made first.
/// \param lens  documents of each window; none: they are one each
template <class D>
Features states_on(const std::vector<index_t>& lens) {
  const D& device = test::device<D>();
  const StatesSize size{sequences, length, lens.empty() ? Packing::none : Packing::apart, 2};
  const std::vector<Tap> taps = eagle3_taps(std::vector<index_t>{1, 2}, Small::num_hidden_layers, {});
  states_for_t<Small, float, D> states({target_device(device), test::small_target<float>()}, taps, size, device);
  CHECK(states.tap_count() == 2);
  Features all, first;
  for (const index_t slot : {1, 0}) {
    const std::vector<index_t> ids = ids_of(5 + 2 * slot);
    TextWindows windows{Matrix<const index_t>(ids.data(), sequences, length)};
    if (!lens.empty()) windows.seq_lens = Matrix<const index_t>(lens.data(), sequences, 2);
    states.run(device, windows, slot);
    first.push_back(fetch(device, states.tapped(1)));
  }
  CHECK(first[0] == first[1]);  // another slot's run leaves it as it was
  states.shift_last(device, 1);
  for (const index_t slot : {0, 1}) {
    all.push_back(fetch(device, states.last(slot).matrix())), all.push_back(fetch(device, states.tapped(slot)));
  }
  const std::vector<index_t> ids = ids_of(3);
  const TextWindows windows{Matrix<const index_t>(ids.data(), sequences, length)};
  CHECK_THROWS_WITH_AS(states.run(device, windows, 2), doctest::Contains("target states: slot: found 2"), Error);
  CHECK_THROWS_WITH_AS(states.last(-1), doctest::Contains("target states: slot: found -1"), Error);
  CHECK_THROWS_WITH_AS(states.run(device, windows.part(0, 2)), "windows: found 2 x 5, wanted 3 x 5, packed", Error);
  return all;
}

/// The target's choices and its states as EAGLE-3 has them, of two slots.
/// \param target  a target, or a cache, of which all windows are
template <class D>
Features features_on(const TeachingTarget<Small, float>& target_of, const TrainSettings& s, const TokenData& text) {
  const D& device = test::device<D>();
  std::vector<index_t> selected;
  for (index_t i = 0; i < Small::draft_vocab_size; ++i) selected.push_back(2 + 2 * i);
  TextCutter cutter(s);
  const StatesSize size{s.batch, s.length, s.packing, s.accumulate};
  const auto target = [&] {
    const auto& stored = target_of.stored();
    return stored ? TeachingTarget<Small, float>(Cpu{}, *stored)
                  : TeachingTarget<Small, float>(Cpu{}, test::small_target<float>());
  };
  TargetFeatures<Small, Small, float, D> features(target(), DraftVocabulary(selected, Small::vocab_size), {1, 2, 4}, {},
                                                  size, device);
  const TextWindows windows = cutter.of_step(text, 0);
  for (index_t i = 0; i < s.accumulate; ++i) features.make(device, windows.part(i * s.batch, s.batch), i);
  Features all;
  for (index_t i = 0; i < s.accumulate; ++i) {
    const auto batch = features.made(windows.part(i * s.batch, s.batch), i);
    all.emplace_back(batch.teacher_top.data(), batch.teacher_top.data() + s.rows());
    all.push_back(fetch(device, batch.aux.matrix())), all.push_back(fetch(device, features.teacher(i).last_hidden));
    all.push_back(fetch(device, features.teacher(i).selected_head));
  }
  return all;
}

}  // namespace

TEST_CASE("states of a target beside Cuda are Cpu's, each in its slot") {
  for (const std::vector<index_t>& lens : {std::vector<index_t>{}, std::vector<index_t>{2, 3, 5, 0, 4, 1}}) {
    const Features found = states_on<Cuda>(lens), wanted = states_on<Cpu>(lens);
    CHECK(found == wanted);
    CHECK(wanted[0] != wanted[2]);
    CHECK(std::count(wanted[1].begin(), wanted[1].end(), 0.0) < rows);
  }
}

TEST_CASE("choices and states on Cuda are Cpu's, of a target and of a cache") {
  const test::FeatureText text;
  const test::TemporaryDirectory folder;
  const TrainSettings s = test::feature_settings(Packing::apart, WindowSampling::packed);
  const auto taps = eagle3_taps(std::vector<index_t>{1, 2, 4}, Small::num_hidden_layers, {});
  REQUIRE(test::capture(text, test::feature_plan(text, taps, s), folder / "cache"));
  const TeachingTarget<Small, float> runs(Cpu{}, test::small_target<float>());
  const TeachingTarget<Small, float> cached(Cpu{}, StoredFeatures<Small, float>(Cpu{}, folder / "cache"));
  const Features wanted = features_on<Cpu>(runs, s, text.train());
  CHECK(features_on<Cuda>(runs, s, text.train()) == wanted);
  CHECK(features_on<Cuda>(cached, s, text.train()) == wanted);
  CHECK(wanted[0] != wanted[4]);
}
