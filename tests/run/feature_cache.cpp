// A cache of features on its way into a folder and out of it: captures that were ended, caches that are of something
// else, and damaged ones.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/feature_capture.hpp"

using namespace k3spec;

namespace {

using Target = test::SmallTarget;
using Stored = StoredFeatures<Target, float>;
using States = TargetStates<Target, float>;

struct Wider : Target {
  static constexpr index_t vocab_size = 53;
};

std::vector<std::pair<std::string, std::string>> files(const std::filesystem::path& folder) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    all.emplace_back(entry.path().filename().string(), test::contents(entry.path()));
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("a capture that was ended, wherever, comes to the same bytes; batch and threads do not matter") {
  const test::FeatureText text;
  const test::TemporaryDirectory directory;
  const auto p = test::feature_plan(text, {{Tap::What::running_sum, 2}},
                                    test::feature_settings(Packing::apart, WindowSampling::packed), 2);
  REQUIRE(p.shards() >= 5);
  REQUIRE(test::capture(text, p, directory / "whole"));
  const auto wanted = files(directory / "whole");
  CHECK(wanted.size() == static_cast<std::size_t>(p.shards() + 4));
  const auto folder = directory / "ended";
  for (index_t most = 1; most < p.shards(); ++most) {
    CAPTURE(most);
    CHECK_FALSE(test::capture(text, p, folder, 1 + most % 3, most));
    CHECK_THROWS_WITH_AS(Stored(Cpu{1}, folder), doctest::Contains("features.json: files: found none: a capture"),
                         Error);
  }
  test::write(folder / "states-00001.safetensors", "what a disk made of it");
  test::write(folder / "tables.safetensors.tmp12-0", "what a process that was killed left");
  CHECK(test::capture(text, p, folder, 5));
  CHECK(files(folder) == wanted);
  CHECK(test::capture(text, p, folder));  // whole already
  CHECK(files(folder) == wanted);
}

TEST_CASE("a capture goes on with its own folder only") {
  const test::FeatureText text;
  const test::TemporaryDirectory directory;
  auto p = test::feature_plan(text, {{Tap::What::running_sum, 2}},
                              test::feature_settings(Packing::none, WindowSampling::shuffled));
  REQUIRE(test::capture(text, p, directory / "cache"));
  const std::string json = (directory / "cache" / "features.json").string();
  const auto refused = [&](const char* why) {
    CAPTURE(why);
    CHECK_THROWS_WITH_AS(CaptureFolder(directory / "cache").check(p), (json + why).c_str(), Error);
  };
  p.length = 8;
  refused(": windows: length: found 7, wanted 8, as this capture would have it; or another folder");
  p.length = 7, p.target["extra"] = 1;
  refused(": target: config: extra: found null, wanted 1, as this capture would have it; or another folder");
  test::write(directory / "notes", "mine");
  CHECK_THROWS_WITH_AS(CaptureFolder(directory.path()),
                       doctest::Contains("and no features.json, wanted an empty folder, or a capture's"), Error);
}

TEST_CASE("a cache of another target, type, state or window is refused by name") {
  const test::FeatureText text;
  const test::TemporaryDirectory directory;
  const auto s = test::feature_settings(Packing::none, WindowSampling::shuffled);
  const std::vector<Tap> taps{{Tap::What::running_sum, 1}, {Tap::What::post_norm}};
  const auto p = test::feature_plan(text, taps, s);
  REQUIRE(test::capture(text, p, directory / "cache"));
  const std::string file = (directory / "cache" / "features.json").string();
  CHECK_THROWS_WITH_AS((StoredFeatures<Wider, float>(Cpu{1}, directory / "cache")), doctest::Contains("vocab_size"),
                       Error);
  CHECK_THROWS_WITH_AS((StoredFeatures<Target, double>(Cpu{1}, directory / "cache")),
                       (file + ": states: dtype: found F32, wanted F64").c_str(), Error);
  const Stored stored(Cpu{1}, directory / "cache");
  const auto states = [&](const std::vector<Tap>& own, const StatesSize& size) {
    return States(TeachingTarget<Target, float>(Cpu{1}, stored), own, size);
  };
  const auto refused = [&](const std::vector<Tap>& own, const StatesSize& size, const std::string& why) {
    CAPTURE(why);
    CHECK_THROWS_WITH_AS(states(own, size), (file + why).c_str(), Error);
  };
  refused(taps, {2, 6}, ": windows: length: found 7, wanted 6");
  refused(taps, {2, 7, Packing::apart}, ": windows: packing: found none, wanted apart");
  const std::string found = R"([{"layer":1,"state":"running_sum"},{"layer":0,"state":"post_norm"}])";
  const auto other = [&](const char* all) { return ": states: taps: found " + found + ", wanted " + all; };
  refused({{Tap::What::running_sum, 1}}, {2, 7}, other(R"([{"layer":1,"state":"running_sum"}])"));
  refused({{Tap::What::running_sum, 2}, {Tap::What::post_norm}}, {2, 7},
          other(R"([{"layer":2,"state":"running_sum"},{"layer":0,"state":"post_norm"}])"));
  refused({{Tap::What::residual_mixture, 1}, {Tap::What::post_norm}}, {2, 7},
          other(R"([{"layer":1,"state":"residual_mixture"},{"layer":0,"state":"post_norm"}])"));
  CHECK_THROWS_WITH_AS(p.check_sampling(WindowSampling::packed, file),
                       (file + ": windows: sampling: found shuffled, wanted packed").c_str(), Error);
  CHECK_THROWS_WITH_AS(p.check_target({1}, file), doctest::Contains("0000000000000001, the target's"), Error);
  CHECK_THROWS_WITH_AS(p.check_tokens({1}, p.held_out, file),
                       doctest::Contains("0000000000000001, that of the data to train on"), Error);
  CHECK_THROWS_WITH_AS(p.check_tokens(p.training, {1}, file),
                       doctest::Contains("0000000000000001, that of the data held out"), Error);
  CHECK_THROWS_WITH_AS(p.check_held_out(1000, file), doctest::Contains("wanted 1000 or more, which are looked at"),
                       Error);
  // Windows that it does not have.
  States one = states(taps, {1, 7});
  const std::vector<index_t> ids{1, 2, 3, 4, 5, 6, 7};
  CHECK_THROWS_WITH_AS(one.run(Cpu{1}, {Matrix<const index_t>(ids.data(), 1, 7)}),
                       (file + ": found no states of the window at row 0, wanted those of all windows that are trained "
                               "on")
                           .c_str(),
                       Error);
  // Shapes that are none of these windows'.
  const TextWindows seven{Matrix<const index_t>(ids.data(), 1, 7)}, six{Matrix<const index_t>(ids.data(), 1, 6)};
  std::vector<float> room(7 * 2 * Target::hidden_size);
  std::vector<index_t> top(8);
  const auto read = [&](const TextWindows& windows, index_t rows, index_t tapped_rows, index_t tapped_columns) {
    stored.read(Cpu{1}, windows, Rows<float, Target::hidden_size>(room.data(), rows),
                Matrix<float>(room.data(), tapped_rows, tapped_columns));
  };
  constexpr index_t width = 2 * Target::hidden_size;
  CHECK_THROWS_WITH_AS(read(six, 6, 6, width), "features: windows: found 6, wanted 7 tokens", Error);
  CHECK_THROWS_WITH_AS(read(seven, 6, 7, width), doctest::Contains("features: last: found 6"), Error);
  CHECK_THROWS_WITH_AS(read(seven, 7, 6, width), doctest::Contains("features: tapped: found "), Error);
  CHECK_THROWS_WITH_AS(read(seven, 7, 7, 27), doctest::Contains("features: tapped: found "), Error);
  CHECK_THROWS_WITH_AS(stored.read_top(seven, Vector<index_t>(top.data(), 8)),
                       doctest::Contains("features: top: found 8"), Error);
}

TEST_CASE("200 damaged caches are refused, each by the name of its file") {
  const test::FeatureText text;
  const test::TemporaryDirectory directory;
  const auto folder = directory / "cache";
  REQUIRE(test::capture(text,
                        test::feature_plan(text, {{Tap::What::running_sum, 2}},
                                           test::feature_settings(Packing::apart, WindowSampling::packed), 2),
                        folder));
  REQUIRE_NOTHROW(Stored(Cpu{1}, folder));
  const auto whole = files(folder);
  const Philox random(3);
  std::uint64_t draw = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::string &name = whole[i % whole.size()].first, &bytes = whole[i % whole.size()].second;
    std::string damaged = bytes;
    const std::size_t at = random.below(draw++, damaged.size());
    const std::uint64_t how = random.below(draw++, 8);
    if (how < 5) {
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << random.below(draw++, 8)));
    } else if (how == 5) {
      damaged.resize(at);
    } else if (how == 6) {
      damaged.insert(at, 1, '0');
    } else {
      damaged = whole[(i + 1) % whole.size()].second;
    }
    test::write(folder / name, damaged);
    CAPTURE(name);
    CAPTURE(how);
    CAPTURE(at);
    CHECK_THROWS_WITH_AS(Stored(Cpu{1}, folder), doctest::Contains(name.c_str()), Error);
    test::write(folder / name, bytes);
  }
  CHECK_NOTHROW(Stored(Cpu{1}, folder));
}
