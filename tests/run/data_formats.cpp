// Trainers on data of every kind of file: what a run learns hangs on the tokens, not on how they are stored.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <k3spec/comm/threads.hpp>
#include <k3spec/run/eagle3_method.hpp>

#include "tests/backend/allocations.hpp"
#include "tests/comm/ranks.hpp"
#include "tests/support/small_target.hpp"
#include "tests/support/temporary.hpp"
#include "tests/support/token_files.hpp"

using namespace k3spec;
using test::Ids;
using test::LossMask;

namespace {

using Method = Eagle3Method<test::SmallTarget, test::SmallTarget, float>;
using One = Trainer<Method>;
using OfRank = Trainer<Method, ThreadRank>;

Method::Setup setup() {
  Ids ids;
  for (index_t i = 0; i < test::SmallTarget::draft_vocab_size; ++i) ids.push_back(2 + 2 * i);
  return {DraftVocabulary(ids, test::SmallTarget::vocab_size), {1, 2, 4}};
}

TrainSettings settings(WindowSampling sampling, Packing packing) {
  TrainSettings s;
  s.batch = 2, s.accumulate = 2, s.length = 21, s.ttt_steps = 3;
  s.sampling = sampling, s.packing = packing;
  s.seed = 11;
  s.schedule = {.lr = 1e-2, .warmup_steps = 2, .total_steps = 40, .min_lr_ratio = 0.1};
  return s;
}

/// 600 tokens with some order in them, in lines of a text, and the same in files of other kinds.
struct Files : test::TemporaryDirectory {
  Ids ids, lengths;
  Files() {
    for (std::uint64_t i = 0; i < 600; ++i) {
      ids.push_back(static_cast<index_t>((i / 3 * 7 + Philox(1).below(i, 3)) % 48));
    }
    index_t begin = 0;
    for (index_t i = 0; i < 600; ++i) {
      if (ids[static_cast<std::size_t>(i)] != '\n' && i != 599) continue;
      lengths.push_back(i + 1 - begin), begin = i + 1;
    }
    test::write(*this / "text", test::raw<std::uint8_t>(ids));
    test::write(*this / "ids.npy", test::npy<std::int32_t>("<i4", ids));
    test::write(*this / "ids.uint16", test::raw<std::uint16_t>(ids));
    test::write(*this / "ids.jsonl", lines({}));
    std::filesystem::create_directory(*this / "shards");
    index_t first = 0;
    const std::size_t half = lengths.size() / 2;
    for (std::size_t d = 0; d < half; ++d) first += lengths[d];
    const auto at = static_cast<std::ptrdiff_t>(first), documents = static_cast<std::ptrdiff_t>(half);
    test::shard(*this / "shards/1.safetensors", {ids.begin(), ids.begin() + at}, {},
                {lengths.begin(), lengths.begin() + documents});
    test::shard(*this / "shards/2.safetensors", {ids.begin() + at, ids.end()},
                LossMask(static_cast<std::size_t>(600 - at), 1), {lengths.begin() + documents, lengths.end()});
  }
  /// A line for each document. \param mask  of all tokens, or empty
  std::string lines(const LossMask& mask) const {
    std::string text;
    std::ptrdiff_t at = 0;
    for (const index_t n : lengths) {
      LossMask own;
      if (!mask.empty()) own.assign(mask.begin() + at, mask.begin() + at + n);
      text += test::json_line({ids.begin() + at, ids.begin() + at + n}, own);
      at += n;
    }
    return text;
  }
  TokenData open(const char* name) const { return TokenData(*this / name, test::SmallTarget::vocab_size); }
};

One make(const TrainSettings& s, int threads = 1) { return {Cpu{threads}, test::small_target<float>(), setup(), s}; }

/// All files of the checkpoint after so many steps, and what is seen of the data then.
std::vector<std::string> train(const TokenData& data, const TrainSettings& s, index_t steps) {
  const test::TemporaryDirectory directory;
  CheckpointDirectory out(directory.path());
  auto trainer = make(s);
  trainer.set_data(DataFingerprints::of(Cpu{1}, data, data, s.packing));
  for (index_t i = 0; i < steps; ++i) CHECK_FALSE(trainer.step(data).skipped);
  trainer.save(out);
  std::vector<std::string> all{number_text(trainer.evaluate(data, 3).loss())};
  for (const char* name : {"model.safetensors", "config.json", "trainer.safetensors", "trainer.json"}) {
    all.push_back(test::contents(*out.latest() / name));
    CHECK_FALSE(all.back().empty());
  }
  return all;
}

std::vector<float> parameters(const auto& trainer) {
  const auto all = trainer.parameters().trainable();
  return {all.data(), all.data() + all.size()};
}

constexpr WindowSampling samplings[] = {WindowSampling::random, WindowSampling::shuffled, WindowSampling::packed};

}  // namespace

TEST_CASE("files of every kind with the same tokens train the same draft, to the last byte of its checkpoint") {
  const Files files;
  for (const auto sampling : samplings) {
    if (sampling != WindowSampling::packed) {
      const auto s = settings(sampling, Packing::none);
      const auto wanted = train(files.open("text"), s, 3);
      for (const char* name : {"ids.npy", "ids.uint16", "shards", "ids.jsonl"}) {
        CAPTURE(name);
        CHECK(train(files.open(name), s, 3) == wanted);
      }
    }
    const auto s = settings(sampling, Packing::apart);  // a text's documents are its lines
    const auto wanted = train(files.open("text"), s, 3);
    for (const char* name : {"shards", "ids.jsonl"}) {
      CAPTURE(name);
      CHECK(train(files.open(name), s, 3) == wanted);
    }
    CHECK(train(files.open("ids.npy"), s, 3)[1] != wanted[1]);  // one document
  }
}

TEST_CASE("each sampling is another run") {
  const Files files;
  const auto data = files.open("text");
  const auto random = train(data, settings(WindowSampling::random, Packing::apart), 1),
             shuffled = train(data, settings(WindowSampling::shuffled, Packing::apart), 1),
             packed = train(data, settings(WindowSampling::packed, Packing::apart), 1);
  CHECK(random[1] != shuffled[1]);
  CHECK(random[1] != packed[1]);
  CHECK(shuffled[1] != packed[1]);
  CHECK(random[0] != packed[0]);
  CHECK_THROWS_WITH_AS(
      make(settings(WindowSampling::packed, Packing::none)),
      "sampling: found packed with packing none, wanted packing apart: documents of one window do not see "
      "each other",
      Error);
}

TEST_CASE(
    "a run that goes on in the midst of an epoch has the bits of an unbroken one, and allocates nothing in a step") {
  const Files files;
  const auto data = files.open("shards");
  for (const auto sampling : samplings) {
    const auto s = settings(sampling, Packing::apart);
    const test::TemporaryDirectory directory;
    CheckpointDirectory out(directory.path());
    auto whole = make(s), first = make(s), second = make(s, 2);
    for (int i = 0; i < 10; ++i) whole.step(data);  // an epoch has 7 steps, and a part
    for (int i = 0; i < 4; ++i) first.step(files.open("shards"));
    first.save(out);
    second.resume(*out.latest());
    for (int i = 4; i < 10; ++i) second.step(files.open("shards"));
    CHECK(parameters(second) == parameters(whole));
    const long before = allocations();
    for (int i = 0; i < 3; ++i) whole.step(data);
    CHECK(allocations() == before);
    auto other = s;
    other.sampling = sampling == WindowSampling::random ? WindowSampling::shuffled : WindowSampling::random;
    CHECK_THROWS_WITH_AS(make(other).resume(*out.latest()), doctest::Contains("trainer.json: settings"), Error);
  }
}

TEST_CASE("two ranks take the windows of one that is alone") {
  const Files files;
  for (const auto sampling : samplings) {
    const auto s = settings(sampling, Packing::apart);
    const auto data = files.open("ids.jsonl");
    auto alone = make(s);
    index_t rows = 0;
    for (int i = 0; i < 9; ++i) rows += alone.step(data).metrics.supervised();
    std::vector<index_t> found(2);
    std::vector<std::vector<float>> made(2);
    CHECK(test::on_ranks(2, [&](ThreadRank& comm) {
            const auto rank = static_cast<std::size_t>(comm.rank());
            OfRank own(Cpu{1}, test::small_target<float>(), setup(), s, std::move(comm));
            for (int i = 0; i < 9; ++i) found[rank] += own.step(data).metrics.supervised();
            made[rank] = parameters(own);
          }) == test::no_errors(2));
    CHECK(found == std::vector<index_t>{rows, rows});  // of all ranks
    CHECK(made[0] == made[1]);
    const auto wanted = parameters(alone);
    double most = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      most = std::max(most, std::abs(static_cast<double>(made[0][i]) - static_cast<double>(wanted[i])));
    }
    CHECK(most < 1e-3);  // sums in another order; a rate of 1e-2, so that another window shows
  }
}

TEST_CASE("a token that is not to be learnt changes no gradient by being another") {
  const Files files;
  LossMask mask(600, 0);
  for (std::size_t i = 0; i < 600; ++i) mask[i] = i % 5 == 1 ? 1 : 0;
  test::write(files / "mask.jsonl", files.lines(mask));
  const auto s = settings(WindowSampling::packed, Packing::apart);
  const auto data = files.open("mask.jsonl");
  auto all = make(s), some = make(s);
  const auto of_all = all.step(files.open("ids.jsonl")), of_some = some.step(data);
  CHECK(of_some.metrics.supervised() > 0);
  CHECK(3 * of_some.metrics.supervised() < of_all.metrics.supervised());
  CHECK(of_some.grad_norm != of_all.grad_norm);
  CHECK(some.evaluate(data, 3).supervised() < all.evaluate(files.open("ids.jsonl"), 3).supervised());
  // Windows of which nothing is to be learnt, whatever they hold: no step.
  test::shard(files / "late.safetensors", files.ids, [] {
    LossMask late(600, 0);
    late[599] = 1;
    return late;
  }());
  auto none = make(settings(WindowSampling::shuffled, Packing::none));
  CHECK(none.step(files.open("late.safetensors")).skipped);  // 28 windows end before token 588
  CHECK(parameters(none) == parameters(make(settings(WindowSampling::shuffled, Packing::none))));
}
