// A cache of features on its way into a folder and out of it: captures that were ended, caches that are of something
// else, and damaged ones.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
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
                       (file + ": states: dtype: found F32, wanted F64, BF16 or F8_E4M3").c_str(), Error);
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

namespace {

/// The nearest number of 8 binary digits, of two that are equally near the even one: not by way of bits.
double nearest_of_8_digits(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), -126) - 7;
  const double units = std::ldexp(x, -exponent), below = std::floor(units), over = units - below;
  const bool up = over > 0.5 || (over == 0.5 && std::fmod(below, 2) != 0);
  const double nearest = std::ldexp(below + (up ? 1 : 0), exponent);
  return std::abs(nearest) < std::ldexp(1.0, 128) ? nearest : std::copysign(HUGE_VAL, x);
}

/// The multiple of a scale by the number of 4 binary digits, 448 at most, as float8_e4m3fn has them, that is nearest to
/// their quotient in A.
template <class A>
double nearest_of_4_digits(double x, double scale) {
  const double share = std::abs(static_cast<double>(static_cast<A>(x) / static_cast<A>(scale)));
  const double unit = std::ldexp(1.0, std::max(share == 0 ? -6 : std::ilogb(share), -6) - 3);
  return std::copysign(std::nearbyint(share / unit) * unit * scale, x);
}
double scale_of(double largest) { return std::max(static_cast<float>(largest / 448), 0x1p-126F); }

template <class T>
std::vector<T> read_back(DType type, index_t width, const std::vector<T>& numbers) {
  const StateStorage<T> storage(type, width);
  const auto count = static_cast<index_t>(numbers.size()), states = width == 0 ? 0 : count / width;
  std::vector<std::byte> stored(storage.bytes(states));
  std::vector<float> scales(static_cast<std::size_t>(states));
  std::vector<T> out(numbers.size());
  storage.store(numbers.data(), states, stored.data(), scales.data());
  storage.load(Cpu{1}, stored.data(), scales.data(), Vector<T>(out.data(), count));
  return out;
}

/// What a cache gives back beside a target that runs. \param stored  what its states are stored as
template <class T>
void same_states(DType stored_as) {
  const test::FeatureText text;
  const test::TemporaryDirectory directory;
  const std::vector<Tap> taps{{Tap::What::running_sum, 1}, {Tap::What::post_norm}};
  auto p = test::feature_plan<T>(text, taps, test::feature_settings(Packing::apart, WindowSampling::packed));
  p.dtype = stored_as;
  REQUIRE(test::capture<T>(text, p, directory / "cache"));
  const StoredFeatures<Target, T> stored(Cpu{1}, directory / "cache");
  CHECK(stored.rounded() == (stored_as != dtype_of<T>));
  CHECK(stored.plan().dtype == stored_as);
  const StatesSize size{1, p.length, p.packing};
  TargetStates<Target, T> runs(test::small_target<T>(), taps, size);
  TargetStates<Target, T> cached(TeachingTarget<Target, T>(Cpu{1}, stored), taps, size);
  TextCutter cutter(FeatureCapture<Target, T>::settings(p));  // a window at a time
  const TokenData train = text.train();
  for (index_t w = 0; w < p.training_windows; ++w) {
    const TextWindows window = cutter.of_evaluation(train, w);
    runs.run(Cpu{1}, window), cached.run(Cpu{1}, window);
    index_t other = 0, narrowed = 0;
    const auto compare = [&](const T* of_run, const T* of_cache) {
      constexpr index_t hidden = Target::hidden_size;
      double largest = 0;
      for (index_t i = 0; i < hidden; ++i) largest = std::max(largest, std::abs(static_cast<double>(of_run[i])));
      for (index_t i = 0; i < hidden; ++i) {
        const auto was = static_cast<double>(of_run[i]), is = static_cast<double>(of_cache[i]);
        double wanted = was;
        if (stored_as == DType::BF16) wanted = nearest_of_8_digits(was);
        if (stored_as == DType::F8_E4M3) {
          const auto number =
              static_cast<accumulate_t<T>>(nearest_of_4_digits<accumulate_t<T>>(was, scale_of(largest)));
          wanted = static_cast<double>(static_cast<T>(number));
        }
        other += is == wanted ? 0 : 1, narrowed += is == was ? 0 : 1;
      }
    };
    for (index_t r = 0; r < p.length; ++r) {
      compare(runs.last().row(r), cached.last().row(r));
      for (index_t t = 0; t < 2; ++t) {
        compare(&runs.tapped()(r, t * Target::hidden_size), &cached.tapped()(r, t * Target::hidden_size));
      }
    }
    CHECK(other == 0);
    CHECK((narrowed > 0) == stored.rounded());
    std::vector<index_t> top(static_cast<std::size_t>(p.length)), wanted(top.size());
    stored.read_top(window, Vector<index_t>(top.data(), p.length));
    std::vector<accumulate_t<T>> logits(top.size() * static_cast<std::size_t>(Target::vocab_size));
    target_choices(Cpu{1}, runs.target(), runs.last(),
                   Rows<accumulate_t<T>, Target::vocab_size>(logits.data(), p.length),
                   Vector<index_t>(wanted.data(), p.length));
    CHECK(top == wanted);  // of the states before they were rounded
  }
}

}  // namespace

TEST_CASE("states are kept as they are, or as the nearest bfloat16") {
  const double inf = std::numeric_limits<double>::infinity();
  // Ties (1 + 2^-8 goes down to 1, 1 + 3 * 2^-8 up), what a double has behind a float's tie, the largest, the smallest.
  std::vector<double> numbers{0.0, -0.0, 1.0, 1 + 0x1p-8, 1 + 0x3p-8, -1 - 0x1p-8, 1 + 0x1p-8 + 0x1p-40, inf, -inf};
  for (const double x : {1 + 0x1p-8 - 0x1p-40, -1 - 0x3p-8 + 0x1p-40, 0x1.fep127, 0x1.ffp127, 0x1.feffffffffp127, 1e300,
                         -1e300, 0x1p-126, 0x1p-133, 0x1p-134, 0x1.8p-134, -0x1p-150, 1e-300, 3.14159265358979}) {
    numbers.push_back(x);
  }
  const auto count = static_cast<index_t>(numbers.size());
  const auto kept = read_back(DType::F64, count, numbers);
  CHECK(std::memcmp(kept.data(), numbers.data(), numbers.size() * sizeof(double)) == 0);
  const auto rounded = read_back(DType::BF16, count, numbers);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CAPTURE(numbers[i]);
    CHECK(rounded[i] == nearest_of_8_digits(numbers[i]));
    CHECK(std::signbit(rounded[i]) == std::signbit(numbers[i]));
  }
  std::vector<float> many(2500);  // more than are sent at a time
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = std::sin(static_cast<float>(i)) * 1e3F;
  const auto back = read_back(DType::BF16, 1250, many);
  for (std::size_t i = 0; i < many.size(); ++i) REQUIRE(back[i] == nearest_of_8_digits(many[i]));
  const std::vector<float> nan{std::numeric_limits<float>::quiet_NaN()};
  CHECK(std::isnan(read_back(DType::BF16, 1, nan)[0]));
  CHECK(std::isnan(read_back(DType::BF16, 1, std::vector<double>{inf - inf})[0]));
  CHECK(read_back(DType::BF16, 3, std::vector<bfloat16>{}).empty());
  CHECK_FALSE(StateStorage<bfloat16>(DType::BF16, 3).narrow());
}

TEST_CASE("states are kept as the nearest float8_e4m3fn of what a scale for each leaves") {
  // Of each state the largest number is 448 times a power of two, so that ties are ties: 17 / 16 goes down, 19 / 16 up;
  // one state of zeros, one so small that its scale is the least there is, one of a large and many small numbers.
  constexpr index_t width = 5;
  std::vector<double> numbers{448,   1.0625, 1.1875, -1.0625,  1 / 1024., 448 * 8., 8.5,       -9.5, 0.01, 8.0 / 1024,
                              0.0,   -0.0,   0.0,    0.0,      0.0,       1e-43,    -0x1p-149, 0.0,  0.0,  1e-43,
                              -3e38, 1.0,    1e36,   -1.23e35, 7.77e37,   0.1,      -0.2,      0.3,  0.4,  -0.05};
  const auto wanted_of = [&]<class A>(std::size_t i, A) {
    const auto state = numbers.begin() + static_cast<std::ptrdiff_t>(i / width * width);
    double largest = 0;
    std::for_each(state, state + width, [&](double x) { largest = std::max(largest, std::abs(x)); });
    return nearest_of_4_digits<A>(numbers[i], scale_of(largest));
  };
  CHECK(wanted_of(1, 0.0) == 1);
  CHECK(wanted_of(2, 0.0) == 1.25);
  const auto doubles = read_back(DType::F8_E4M3, width, numbers);
  const auto floats = read_back(DType::F8_E4M3, width, std::vector<float>(numbers.begin(), numbers.end()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CAPTURE(i);
    CHECK(doubles[i] == wanted_of(i, 0.0));
    CHECK(std::signbit(doubles[i]) == std::signbit(numbers[i]));
    numbers[i] = static_cast<double>(static_cast<float>(numbers[i]));
    CHECK(floats[i] == static_cast<float>(wanted_of(i, 0.0F)));
  }
  // What a double has behind a float's tie.
  const auto near = read_back(DType::F8_E4M3, 3, std::vector<double>{448, 1.0625 + 0x1p-40, 1.1875 - 0x1p-40});
  CHECK(near == std::vector<double>{448, 1.125, 1.125});
  // States that are longer than what is sent at a time.
  std::vector<float> many(2 * 1500);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = std::sin(static_cast<float>(i)) * (i < 1500 ? 1e3F : 448.0F);
  many[1700] = 448;
  const auto back = read_back(DType::F8_E4M3, 1500, many);
  for (std::size_t i = 1500; i < many.size(); ++i) REQUIRE(back[i] == nearest_of_4_digits<float>(many[i], 1));
  CHECK(std::abs(back[1499] - many[1499]) <= std::abs(many[1499]) / 16);
  CHECK(read_back(DType::F8_E4M3, 7, std::vector<bfloat16>{}).empty());
}

TEST_CASE("a cache gives the states of a target in double, float and bfloat16, or the nearest narrower ones") {
  same_states<double>(DType::F64), same_states<double>(DType::BF16), same_states<double>(DType::F8_E4M3);
  same_states<float>(DType::F32), same_states<float>(DType::BF16), same_states<float>(DType::F8_E4M3);
  same_states<bfloat16>(DType::BF16), same_states<bfloat16>(DType::F8_E4M3);
}

TEST_CASE("beside a cache only the states count as memory") {
  constexpr std::size_t kept = aligned(2 * 7 * 27 * sizeof(float)) + aligned(2 * 7 * 3 * 27 * sizeof(float));
  CHECK(States::bytes({2, 7}, 3, false) == kept);
  CHECK(States::bytes({2, 7, Packing::apart}, 3, false) == kept);
  CHECK(States::bytes({2, 7}, 3) > kept);
}

TEST_CASE("states of another type than the target's or a narrower one are not captured; tables keep the target's") {
  const test::FeatureText text;
  const test::TemporaryDirectory directory;
  auto p = test::feature_plan(text, {{Tap::What::running_sum, 1}},
                              test::feature_settings(Packing::none, WindowSampling::shuffled));
  CHECK_THROWS_WITH_AS(p.check_dtype(DType::BF16, "f"), "f: states: dtype: found F32, wanted BF16 or F8_E4M3", Error);
  const std::uint64_t wide = p.bytes_per_token(Target::hidden_size);
  p.dtype = DType::F64;
  CHECK_THROWS_WITH_AS(test::capture(text, p, directory / "none"),
                       doctest::Contains("features.json: states: dtype: found F64, wanted F32, BF16 or F8_E4M3"),
                       Error);
  p.dtype = DType::BF16;
  CHECK(p.bytes_per_token(Target::hidden_size) == wide - 2 * 27 * 2);
  p.dtype = DType::F8_E4M3;
  CHECK(p.bytes_per_token(Target::hidden_size) == 8 + 2 * (27 + 4));
  p.dtype = DType::BF16;
  REQUIRE(test::capture(text, p, directory / "cache"));
  CHECK_THROWS_WITH_AS((StoredFeatures<Target, bfloat16>(Cpu{1}, directory / "cache")),
                       doctest::Contains("'embed_tokens': element type: found F32, wanted BF16"), Error);
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
