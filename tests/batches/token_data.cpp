#include <k3spec/batches/token_data.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include <k3spec/run/run_sources.hpp>
#include <k3spec/run/text_cutter.hpp>

#include "tests/support/temporary.hpp"
#include "tests/support/token_files.hpp"

using namespace k3spec;
using test::Ids;
using test::LossMask;

namespace {

struct Text : test::TemporaryDirectory {
  explicit Text(std::size_t size) {
    std::string bytes(size, '\0');
    std::iota(bytes.begin(), bytes.end(), '\0');  // 0 to 255, then again
    test::write(*this / "text", bytes);
  }
  TokenData open() const { return TokenData(*this / "text", 256); }
};

TrainSettings settings_of(std::uint64_t seed, index_t batch, index_t length,
                          WindowSampling sampling = WindowSampling::random, Packing packing = Packing::none) {
  TrainSettings s;
  s.seed = seed, s.batch = batch, s.length = length, s.sampling = sampling, s.packing = packing;
  return s;
}

/// Windows of a step, or of an evaluation.
struct Cut {
  Ids ids, seq_lens;
  LossMask mask;

  explicit Cut(const TextWindows& w) : ids(w.ids.data(), w.ids.data() + w.ids.size()) {
    if (w.loss_mask.extent(0) > 0) mask.assign(w.loss_mask.data(), w.loss_mask.data() + w.loss_mask.size());
    if (w.seq_lens.extent(0) > 0) seq_lens.assign(w.seq_lens.data(), w.seq_lens.data() + w.seq_lens.size());
  }
};

Ids windows(const TokenData& text, std::uint64_t seed, index_t step, index_t batch, index_t length) {
  return Cut(TextCutter(settings_of(seed, batch, length)).of_step(text, step)).ids;
}

/// Of 40 tokens: documents of 7, 0, 13, 1 and 19, every third token not to be learnt.
struct Documents40 : test::TemporaryDirectory {
  Ids ids = Ids(40), lengths{7, 0, 13, 1, 19};
  LossMask mask = LossMask(40);
  Documents40() {
    for (std::size_t i = 0; i < 40; ++i) ids[i] = 300 + static_cast<index_t>(i), mask[i] = i % 3 == 0 ? 0 : 1;
    test::shard(*this / "a.safetensors", ids, mask, lengths);
  }
  TokenData open() const { return TokenData(*this / "a.safetensors", 1000); }
};

}  // namespace

TEST_CASE("a window is a piece of the text, bytes above 127 included") {
  const Text file(256);
  const auto text = file.open();
  const auto ids = windows(text, 1, 0, 50, 10);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i % 10 != 0) REQUIRE(ids[i] == ids[i - 1] + 1);
    REQUIRE(ids[i] >= 0);
    REQUIRE(ids[i] <= 255);
  }
}

TEST_CASE("windows depend on seed and step alone") {
  const Text file(5000);
  const auto text = file.open();
  CHECK(windows(text, 1, 3, 4, 16) == windows(file.open(), 1, 3, 4, 16));
  CHECK(windows(text, 1, 3, 4, 16) != windows(text, 1, 4, 4, 16));
  CHECK(windows(text, 1, 3, 4, 16) != windows(text, 2, 3, 4, 16));
  // Words 0 and 1 of Philox with seed 1, stream "text" and counters 12 to 15, modulo the 4,985 places, and 256.
  const auto ids = windows(text, 1, 3, 4, 16);
  CHECK(Ids{ids[0], ids[16], ids[32], ids[48]} == Ids{154, 244, 69, 104});
}

TEST_CASE("every place of the text can be a window's first, the last one too") {
  const Text file(12);
  std::vector<bool> seen(12);
  for (const index_t id : windows(file.open(), 5, 0, 400, 10)) seen[static_cast<std::size_t>(id)] = true;
  CHECK(seen == std::vector<bool>(12, true));
  CHECK(windows(file.open(), 5, 0, 1, 12).front() == 0);
}

TEST_CASE("windows one behind the other cover the text but for its rest") {
  const Text file(35);
  const auto text = file.open();
  CHECK(text.windows(10) == 3);
  TextCutter cutter(settings_of(1, 1, 10));
  CHECK(cutter.evaluations(text, 9) == 3);
  CHECK(cutter.evaluations(text, 2) == 2);
  CHECK(Cut(cutter.of_evaluation(text, 1)).ids.front() == 10);
  CHECK(Cut(cutter.of_evaluation(text, 2)).ids.back() == 29);
  CHECK_THROWS_WITH_AS(cutter.of_evaluation(text, 3), doctest::Contains("windows: found 3 to 4, wanted within 0 to 3"),
                       Error);
  CHECK_THROWS_AS(cutter.of_evaluation(text, -1), Error);
  CHECK(TextCutter(settings_of(1, 2, 10)).evaluations(text, 9) == 1);
}

TEST_CASE("a text too short or absent is refused") {
  const Text file(9), empty(0);
  CHECK_THROWS_WITH_AS(windows(file.open(), 1, 0, 1, 10),
                       doctest::Contains("text: found 9 bytes, wanted a window of 10 bytes"), Error);
  CHECK_THROWS_WITH_AS(windows(empty.open(), 1, 0, 1, 2), doctest::Contains("found 0 bytes, wanted a window of 2 byte"),
                       Error);
  CHECK_NOTHROW(file.open().check_windows(3, 3));
  CHECK_THROWS_WITH_AS(file.open().check_windows(2, 5),
                       doctest::Contains("text: found 9 bytes, wanted 2 windows of 5 bytes each, 10 bytes"), Error);
  CHECK_THROWS_WITH_AS(file.open().check_windows(1, 0), doctest::Contains("window length: found 0, wanted at least 1"),
                       Error);
  CHECK(empty.open().windows(1) == 0);
  CHECK_THROWS_WITH_AS(empty.open().check_supervised(), doctest::Contains("found 0 bytes, wanted something"), Error);
  CHECK_THROWS_AS(TokenData(file / "none", 256), Error);
  const Documents40 some;
  test::write(some / "empty.jsonl", "");
  const TokenData none(some / "empty.jsonl", 1000);
  CHECK(none.size() == 0);
  CHECK(none.document_ends().empty());
  for (const auto sampling : {WindowSampling::random, WindowSampling::shuffled, WindowSampling::packed}) {
    CHECK_THROWS_WITH_AS(TextCutter(settings_of(1, 1, 2, sampling, Packing::apart)).of_step(none, 0),
                         doctest::Contains("empty.jsonl: found 0 tokens"), Error);
  }
  test::shard(some / "b.safetensors", some.ids, LossMask(40, 0));
  CHECK_THROWS_WITH_AS(TokenData(some / "b.safetensors", 1000).check_windows(1, 2),
                       doctest::Contains("b.safetensors: found a loss mask that is 0 everywhere, wanted a token"),
                       Error);
  CHECK_THROWS_WITH_AS(check_windows(some.open(), settings_of(1, 1, 20, WindowSampling::packed, Packing::apart), 4),
                       doctest::Contains("a.safetensors: found documents for 2 windows of 20, wanted 4 windows"),
                       Error);
}

TEST_CASE("a text that is cut while a run learns from it stays what it was for the run; mapped tokens are an error") {
  const Text file(20'000);
  const auto text = file.open();
  const auto before = windows(text, 1, 0, 4, 16);
  std::filesystem::resize_file(file / "text", 3);
  CHECK(windows(text, 1, 0, 4, 16) == before);
  CHECK(text.size() == 20'000);
  test::write(file / "a.uint16", test::raw<std::uint16_t>(Ids(10'000, 7)));
  const TokenData mapped(file / "a.uint16", 1000);
  CHECK(windows(mapped, 1, 0, 4, 16) == Ids(64, 7));
  std::filesystem::resize_file(file / "a.uint16", 0);
  CHECK_THROWS_WITH_AS(windows(mapped, 1, 0, 4, 16), doctest::Contains("a.uint16: found 0 bytes, wanted 20000 bytes"),
                       Error);
}

TEST_CASE("what is to be learnt, and where documents end, comes along with a window of any sampling") {
  const Documents40 file;
  const TokenData data = file.open();
  CHECK(data.size() == 40);
  CHECK(data.supervised() == 26);
  CHECK(data.has_mask());
  CHECK(data.has_documents());
  CHECK(data.largest() == 339);
  CHECK(Ids(data.document_ends().begin(), data.document_ends().end()) == Ids{7, 7, 20, 21, 40});
  for (const auto sampling : {WindowSampling::random, WindowSampling::shuffled}) {
    TextCutter cutter(settings_of(3, 4, 9, sampling, Packing::apart));
    for (index_t step = 0; step < 5; ++step) {
      const Cut cut(cutter.of_step(data, step));
      for (std::size_t i = 0; i < 36; ++i) CHECK(cut.mask[i] == file.mask[static_cast<std::size_t>(cut.ids[i] - 300)]);
      for (std::size_t r = 0; r < 4; ++r) {
        std::size_t at = r * 9;
        for (std::size_t d = 0; d < 9; ++d) {
          const auto n = static_cast<std::size_t>(cut.seq_lens[r * 9 + d]);
          if (n == 0) continue;
          at += n;
          const std::set<index_t> ends{307, 320, 321, 340};  // a document ends there, or the window does
          CHECK((at == r * 9 + 9 || ends.count(cut.ids[at]) == 1));
        }
        CHECK(at == r * 9 + 9);
      }
    }
  }
  const Cut second(TextCutter(settings_of(3, 1, 10, WindowSampling::shuffled, Packing::apart)).of_evaluation(data, 1));
  CHECK(second.seq_lens == Ids{10, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const Cut third(TextCutter(settings_of(3, 1, 10, WindowSampling::shuffled, Packing::apart)).of_evaluation(data, 2));
  CHECK(third.seq_lens == Ids{1, 9, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(Cut(TextCutter(settings_of(3, 1, 10)).of_evaluation(data, 2)).seq_lens.empty());
}

TEST_CASE("in an epoch every window comes once, in another order than in the one before and with another seed") {
  const Text file(256);
  const auto text = file.open();
  for (const auto sampling : {WindowSampling::shuffled, WindowSampling::packed}) {
    std::vector<Ids> orders;
    for (const std::uint64_t seed : {1U, 2U}) {
      TextCutter cutter(settings_of(seed, 3, 10, sampling, Packing::apart));
      const index_t count = windows_of(text, settings_of(seed, 3, 10, sampling, Packing::apart));
      CHECK(count == (sampling == WindowSampling::shuffled ? 25 : 26));
      Ids firsts;
      for (index_t step = 0; step < 26; ++step) {
        const Cut cut(cutter.of_step(text, step));
        for (std::size_t r = 0; r < 3; ++r) firsts.push_back(cut.ids[r * 10]);
      }
      for (index_t epoch = 0; epoch < 3; ++epoch) {
        orders.emplace_back(firsts.begin() + epoch * count, firsts.begin() + (epoch + 1) * count);
        Ids sorted = orders.back();
        std::sort(sorted.begin(), sorted.end());
        CHECK(std::unique(sorted.begin(), sorted.end()) == sorted.end());
        CHECK(sorted.front() == 0);
      }
    }
    for (std::size_t i = 0; i < orders.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) CHECK(orders[i] != orders[j]);
    }
  }
}

TEST_CASE("which windows come does not hang on how they are parted into batches and steps") {
  const Text file(256);
  const auto text = file.open();
  for (const auto sampling : {WindowSampling::random, WindowSampling::shuffled, WindowSampling::packed}) {
    auto wide = settings_of(4, 6, 8, sampling, Packing::apart), parted = wide, narrow = wide;
    parted.batch = 2, parted.accumulate = 3, narrow.batch = 2;
    const Cut whole(TextCutter(wide).of_step(text, 7));
    CHECK(Cut(TextCutter(parted).of_step(text, 7)).ids == whole.ids);
    Ids one_by_one;
    TextCutter cutter(narrow);
    for (index_t step = 21; step < 24; ++step) {
      const Ids ids = Cut(cutter.of_step(text, step)).ids;
      one_by_one.insert(one_by_one.end(), ids.begin(), ids.end());
    }
    CHECK(one_by_one == whole.ids);
  }
}

TEST_CASE("epochs are so many steps as take all windows so many times") {
  const Text file(256);
  const auto text = file.open();
  auto s = settings_of(1, 3, 10, WindowSampling::shuffled);  // 25 windows
  CHECK(steps_of_epochs(text, s, 1) == 9);
  CHECK(steps_of_epochs(text, s, 3) == 25);
  CHECK(steps_of_epochs(text, s, 0.01) == 1);
  s.accumulate = 2;
  CHECK(steps_of_epochs(text, s, 1) == 5);
  CHECK_THROWS_WITH_AS(steps_of_epochs(text, s, 1e12), doctest::Contains("of 25 windows, wanted 1 to 4294967296 steps"),
                       Error);
  s.sampling = WindowSampling::random;
  CHECK_THROWS_WITH_AS(steps_of_epochs(text, s, 1),
                       "epochs: found them with sampling random, wanted shuffled or packed windows", Error);
}

TEST_CASE("a packed window has whole documents, and padding that is a document nobody learns") {
  const Documents40 file;
  const TokenData data = file.open();
  const auto s = settings_of(1, 1, 16, WindowSampling::packed, Packing::apart);
  // 19 is cut into 16 and 3; 16 fill a window, then 13 and 3, then 7 and 1 with 8 of padding.
  CHECK(windows_of(data, s) == 3);
  TextCutter cutter(s);
  const Cut first(cutter.of_evaluation(data, 0)), second(cutter.of_evaluation(data, 1)),
      third(cutter.of_evaluation(data, 2));
  CHECK(first.ids.front() == 321);
  CHECK(first.ids.back() == 336);
  CHECK(second.ids == Ids{307, 308, 309, 310, 311, 312, 313, 314, 315, 316, 317, 318, 319, 337, 338, 339});
  CHECK(third.ids == Ids{300, 301, 302, 303, 304, 305, 306, 320, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(first.seq_lens[0] == 16);
  CHECK(second.seq_lens == Ids{13, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(third.seq_lens == Ids{7, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(third.mask == LossMask{0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(cutter.evaluations(data, 5) == 3);
  CHECK(&data.packed(16) == &TokenData(data).packed(16));
}

TEST_CASE("the vocabulary's counts are of what is to be learnt") {
  const Documents40 file;
  test::write(file / "a.jsonl", test::json_line({5, 5, 2, 5}, {1, 0, 1, 1}) + test::json_line({2, 0}));
  const TokenData data(file / "a.jsonl", 6);
  std::vector<std::int64_t> counts(7, 10);
  data.count_supervised(counts);
  CHECK(counts == std::vector<std::int64_t>{11, 10, 12, 10, 10, 12, 10});
  std::vector<std::int64_t> few(5);
  CHECK_THROWS_WITH_AS(data.count_supervised(few), doctest::Contains("largest token: found 5, wanted below 5"), Error);
}

TEST_CASE("a fingerprint is of tokens, mask and documents, in whatever kind of file") {
  const Text file(256);
  const std::string text = "one line\nanother\nthe last";
  const auto of = [](const TokenData& data, Packing packing) { return data_fingerprint(Cpu{1}, data, packing).text(); };
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  const Ids lines{9, 8, 8};
  test::write(file / "a.txt", text);
  test::write(file / "a.npy", test::npy<std::int64_t>("<i8", ids));
  test::write(file / "a.jsonl", test::json_line({ids.begin(), ids.begin() + 9}) +
                                    test::json_line({ids.begin() + 9, ids.begin() + 17}) +
                                    test::json_line({ids.begin() + 17, ids.end()}));
  test::shard(file / "a.safetensors", ids, LossMask(25, 1), lines);
  test::shard(file / "b.safetensors", ids, {}, {9, 9, 7});
  LossMask mask(25, 1);
  mask[7] = 0;
  test::shard(file / "c.safetensors", ids, mask, lines);
  ids[3] = 256;
  test::shard(file / "d.safetensors", ids, {}, lines);
  const auto open = [&](const char* name) { return TokenData(file / name, 70'000); };
  const auto bytes = Vector<const std::uint8_t>(reinterpret_cast<const std::uint8_t*>(text.data()), 25);
  const std::string plain = host_fingerprint(Cpu{1}, bytes).text(), apart = of(open("a.txt"), Packing::apart);
  CHECK(plain != apart);
  for (const char* name : {"a.txt", "a.npy", "a.jsonl", "a.safetensors", "b.safetensors"}) {
    CHECK(of(open(name), Packing::none) == plain);
  }
  CHECK(of(open("a.jsonl"), Packing::apart) == apart);
  CHECK(of(open("a.safetensors"), Packing::apart) == apart);
  CHECK(of(open("a.npy"), Packing::apart) != apart);
  CHECK(of(open("b.safetensors"), Packing::apart) != apart);
  for (const char* name : {"c.safetensors", "d.safetensors"}) {
    CHECK(of(open(name), Packing::none) != plain);
    CHECK(of(open(name), Packing::apart) != apart);
  }
  CHECK(of(open("c.safetensors"), Packing::none) != of(open("d.safetensors"), Packing::none));
  // More than one piece is read at a time, and more than one block hashed.
  std::string large(5'000'001, 'x');
  large[4'500'000] = 'y';
  test::write(file / "large.txt", large);
  const auto all = Vector<const std::uint8_t>(reinterpret_cast<const std::uint8_t*>(large.data()), 5'000'001);
  CHECK(of(open("large.txt"), Packing::none) == host_fingerprint(Cpu{1}, all).text());
  ids.assign(3'000'000, 300), ids[2'999'999] = 69'999;
  test::write(file / "e.uint32", test::raw<std::uint32_t>(ids));
  std::swap(ids[5], ids[2'999'999]);
  test::write(file / "f.uint32", test::raw<std::uint32_t>(ids));
  CHECK(of(open("e.uint32"), Packing::none) != of(open("f.uint32"), Packing::none));
}
