// Trainers on ranks: n of them train what one does that has all batches, and the same bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/comm/threads.hpp>
#include <k3spec/run/block_methods.hpp>
#include <k3spec/run/eagle3_method.hpp>

#include "tests/comm/ranks.hpp"
#include "tests/support/same_bits.hpp"
#include "tests/support/small_target.hpp"
#include "tests/support/temporary.hpp"

using namespace k3spec;
using Objective = void (*)(TrainSettings&);

namespace {

constexpr double rounding = 1e-12;  // sums of some thousand terms in another order

struct OfEagle3 {
  using Method = Eagle3Method<test::SmallTarget, test::SmallTarget, double>;
  static Method::Setup setup() {
    std::vector<index_t> ids;
    for (index_t i = 0; i < test::SmallTarget::draft_vocab_size; ++i) ids.push_back(2 + 2 * i);
    return {DraftVocabulary(ids, test::SmallTarget::vocab_size), {1, 2, 4}};
  }
  static std::vector<Objective> objectives() {
    return {[](TrainSettings&) {}, [](TrainSettings& s) { s.lk = LkLoss::alpha; },
            [](TrainSettings& s) { s.lk = LkLoss::lambda; }};
  }
};

struct DFlashConfig : configs::DFlash<test::SmallTarget> {
  static constexpr index_t block_size = 4;
  static constexpr std::optional<index_t> mask_token_id = 47;
};
struct OfDFlash {
  using Method = DFlashMethod<test::SmallTarget, DFlashConfig, double>;
  static Method::Setup setup() { return {{1, 2, 4}}; }
  static std::vector<Objective> objectives() {
    return {[](TrainSettings& s) { s.variable_prefix = true; }};
  }
};

struct DSparkConfig : configs::DSpark<test::SmallTarget> {
  static constexpr index_t block_size = 4;
  static constexpr std::optional<index_t> mask_token_id = 47;
  static constexpr index_t markov_rank = 6;
};
struct OfDSpark {
  using Method = DSparkMethod<test::SmallTarget, DSparkConfig, double>;
  static Method::Setup setup() { return {{1, 2, 4}}; }
  static std::vector<Objective> objectives() {
    return {[](TrainSettings&) {}};
  }
};

TrainSettings settings() {
  TrainSettings s;
  s.batch = 2, s.accumulate = 2, s.length = 21;
  s.ttt_steps = 3, s.anchors = 6;
  s.packing = Packing::apart;
  s.seed = 11;
  s.schedule = {.lr = 1e-3, .warmup_steps = 2, .total_steps = 40, .min_lr_ratio = 0.1};
  s.optimizer.weight_decay = 0.01;
  s.optimizer.eps = 1e-3;  // else the moments' quotient makes of rounding what it likes where gradients vanish
  return s;
}

using Target = Parameters<K3Target<test::SmallTarget>, double>;
template <class Kind>
using One = Trainer<typename Kind::Method>;
template <class Kind>
using OfRank = Trainer<typename Kind::Method, ThreadRank>;

struct Text : test::TemporaryDirectory {
  Text() {
    std::string bytes;
    for (std::uint64_t i = 0; i < 3000; ++i) bytes += static_cast<char>((i / 3 * 7 + Philox(1).below(i, 3)) % 48);
    test::write(*this / "text", bytes);
  }
  TokenData open() const { return TokenData(*this / "text", 256); }
};

/// Four windows, of which the first two supervise much, the others what they are told.
struct Windows {
  std::vector<index_t> ids;
  std::vector<std::uint8_t> mask = std::vector<std::uint8_t>(84, 0);
  explicit Windows(std::ptrdiff_t first_two, std::ptrdiff_t others) {
    for (index_t i = 0; i < 84; ++i) ids.push_back(i * i % 47);
    std::fill_n(mask.begin(), first_two, std::uint8_t{1}), std::fill_n(mask.begin() + 70, others, std::uint8_t{1});
  }
  TextWindows view() const {
    return {Matrix<const index_t>(ids.data(), 4, 21), Vector<const std::uint8_t>(mask.data(), 84)};
  }
};

template <class Trainer>
std::vector<double> parameters(const Trainer& trainer) {
  const auto all = trainer.parameters().trainable();
  std::vector<double> values(all.data(), all.data() + all.size());
  if (!trainer.settings().ema) return values;
  const auto averaged = trainer.weights();  // its average, too
  Trainer::Draft::visit(averaged, Path{}, [&](const Path&, const auto& view, auto init) {
    if constexpr (std::is_same_v<decltype(init), Init>) {
      values.insert(values.end(), view.data(), view.data() + view.size());
    }
  });
  return values;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, scale = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return NAN;
    most = std::max(most, std::abs(a[i] - b[i])), scale = std::max(scale, std::abs(b[i]));
  }
  return most / scale;
}

/// Two text steps, one whose ranks supervise unequally much, one in which one rank supervises nothing.
/// \param part  of the windows, those of the trainer
template <class Trainer, class Part>
std::vector<typename Trainer::Report> four_steps(Trainer& trainer, const TokenData& text, Part part) {
  std::vector<typename Trainer::Report> all;
  const Windows uneven(40, 9), one(30, 0);
  for (int i = 0; i < 2; ++i) all.push_back(trainer.step(text));
  all.push_back(trainer.step(part(uneven.view())));
  all.push_back(trainer.step(part(one.view())));
  return all;
}

template <class Kind>
void two_ranks_are_one(const TrainSettings& s) {
  const Text text;
  One<Kind> one(Cpu{1}, test::small_target<double>(), Kind::setup(), s);
  const auto fresh = parameters(one);
  const auto wanted = four_steps(one, text.open(), [](const TextWindows& all) { return all; });
  std::vector<std::vector<typename OfRank<Kind>::Report>> reports(2);
  std::vector<std::vector<double>> found(2);
  CHECK(test::on_ranks(2, [&](ThreadRank& comm) {
          const auto rank = static_cast<std::size_t>(comm.rank());
          const index_t first = 2 * comm.rank();
          OfRank<Kind> own(Cpu{1}, test::small_target<double>(), Kind::setup(), s, std::move(comm));
          reports[rank] = four_steps(own, text.open(), [&](const TextWindows& all) { return all.part(first, 2); });
          found[rank] = parameters(own);
        }) == test::no_errors(2));
  CHECK(test::same_bits(found[0], found[1]));
  CHECK(largest_difference(found[0], parameters(one)) <= rounding);
  CHECK(largest_difference(fresh, parameters(one)) > 1e-6);
  for (const auto& of_rank : reports) {
    REQUIRE(of_rank.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      CHECK_FALSE(of_rank[i].skipped);
      CHECK(of_rank[i].metrics.supervised() == wanted[i].metrics.supervised());
      CHECK(of_rank[i].metrics.loss() == doctest::Approx(wanted[i].metrics.loss()).epsilon(rounding));
      CHECK(of_rank[i].grad_norm == doctest::Approx(wanted[i].grad_norm).epsilon(rounding));
    }
  }
}

/// Four batches a step, of which each rank has two, and an average of the parameters.
TrainSettings four_batches() {
  auto s = settings();
  s.batch = 1, s.accumulate = 4, s.ema = 0.9;
  return s;
}

using Flash = OfRank<OfDFlash>;
Flash flash(ThreadRank& comm, Target target = test::small_target<double>()) {
  return Flash(Cpu{1}, std::move(target), OfDFlash::setup(), settings(), std::move(comm));
}

}  // namespace

TEST_CASE_TEMPLATE("two ranks train what one does with all batches, and have the same bits", Kind, OfEagle3, OfDFlash,
                   OfDSpark) {
  for (const Objective change : Kind::objectives()) {
    for (auto s : {settings(), four_batches()}) {
      change(s);
      two_ranks_are_one<Kind>(s);
    }
  }
}

TEST_CASE("where no rank supervises anything all skip the step") {
  const Windows none(0, 0);
  CHECK(test::on_ranks(2, [&](ThreadRank& comm) {
          auto own = flash(comm);
          const auto before = parameters(own);
          CHECK(own.step(none.view().part(0, 2)).skipped);
          CHECK(own.unsupervised() == 1);
          CHECK(own.next_step() == 1);
          CHECK(parameters(own) == before);
        }) == test::no_errors(2));
}

TEST_CASE("a gradient that is not finite on one rank is applied on none") {
  const Text text;
  CHECK(test::on_ranks(2, [&](ThreadRank& comm) {
          auto target = test::small_target<double>();
          const auto head = target.mutable_weights().lm_head;
          if (comm.rank() == 1) std::fill_n(head.data(), head.size(), 1e308);  // finite, but no sum of them is
          auto own = flash(comm, std::move(target));
          const auto before = parameters(own);
          const auto report = own.step(text.open());
          CHECK(report.skipped);
          CHECK_FALSE(std::isfinite(report.grad_norm));
          CHECK(own.unsupervised() == 0);
          CHECK(own.optimizer().skipped() == 1);
          CHECK(parameters(own) == before);
        }) == test::no_errors(2));
}

TEST_CASE("a rank whose step fails wakes the others, whatever becomes of its trainer") {
  const Windows windows(40, 9);
  std::vector<std::string> thrown(2);
  std::vector<std::optional<Flash>> trainers(2);  // stay
  CHECK(test::on_ranks(2, [&](ThreadRank& comm) {
          const index_t rank = comm.rank();
          auto& own = trainers[static_cast<std::size_t>(rank)].emplace(flash(comm));
          try {
            own.step(windows.view().part(0, rank == 0 ? 2 : 1));
          } catch (const Error& e) {
            thrown[static_cast<std::size_t>(rank)] = e.what();
          }
        }) == test::no_errors(2));
  CHECK(thrown[0] == "sum over ranks: found rank 1 left, wanted all of them");
  CHECK(thrown[1] == "windows: found 1 x 21, wanted 2 x 21, packed");
}

TEST_CASE("the first rank alone saves, and a run goes on with another number of ranks") {
  const Text text;
  const test::TemporaryDirectory directory;
  CheckpointDirectory checkpoints(directory / "first"), others(directory / "others");
  std::vector<double> wanted;
  CHECK(test::on_ranks(2, [&](ThreadRank& comm) {
          const bool first = comm.rank() == 0;
          auto own = flash(comm);
          own.step(text.open());
          own.save(first ? checkpoints : others);
          own.step(text.open());
          if (first) wanted = parameters(own);
        }) == test::no_errors(2));
  CHECK_FALSE(others.latest().has_value());
  REQUIRE(checkpoints.latest().has_value());
  One<OfDFlash> one(Cpu{1}, test::small_target<double>(), OfDFlash::setup(), settings());
  one.resume(*checkpoints.latest());
  one.step(text.open());
  CHECK(largest_difference(parameters(one), wanted) <= rounding);
}

TEST_CASE("ranks share the batches of an evaluation") {
  const Text text;
  One<OfDFlash> one(Cpu{1}, test::small_target<double>(), OfDFlash::setup(), settings());
  for (const index_t batches : {1, 5, 1000}) {  // the second rank has them all, or more of them; all that there are
    const auto wanted = one.evaluate(text.open(), batches);
    std::vector<double> losses(2), lengths(2);
    CHECK(test::on_ranks(2, [&](ThreadRank& comm) {
            const auto rank = static_cast<std::size_t>(comm.rank());
            auto own = flash(comm);
            const auto found = own.evaluate(text.open(), batches);
            CHECK(found.supervised() == wanted.supervised());
            losses[rank] = found.loss(), lengths[rank] = found.simulated_accept_length();
          }) == test::no_errors(2));
    CHECK(losses[0] == losses[1]);
    CHECK(losses[0] == doctest::Approx(wanted.loss()).epsilon(rounding));
    CHECK(lengths[0] == wanted.simulated_accept_length());
  }
}

TEST_CASE("a rank whose evaluation fails wakes the others, whatever becomes of its trainer") {
  struct Bad : Text {
    Bad() { test::write(*this / "text", std::string(84, static_cast<char>(99))); }  // the vocabulary ends before
  };
  const Text text;
  const Bad bad;
  std::vector<std::string> thrown(2);
  std::vector<std::optional<Flash>> trainers(2);  // stay
  CHECK(test::on_ranks(2, [&](ThreadRank& comm) {
          const auto rank = static_cast<std::size_t>(comm.rank());
          auto& own = trainers[rank].emplace(flash(comm));
          try {
            own.evaluate(rank == 0 ? text.open() : bad.open(), 2);
          } catch (const Error& e) {
            thrown[rank] = e.what();
          }
        }) == test::no_errors(2));
  CHECK(thrown[0] == "sum over ranks: found rank 1 left, wanted all of them");
  CHECK(thrown[1] == "target: token id: found 99, wanted 0 to 50");
}

TEST_CASE("ranks with other settings are refused") {
  const auto with = [](Objective change) {
    return test::on_ranks(3, [&](ThreadRank& comm) {
      auto s = settings();
      s.accumulate = 3;
      if (comm.rank() == 1) change(s);
      Flash(Cpu{1}, test::small_target<double>(), OfDFlash::setup(), s, std::move(comm));
    });
  };
  CHECK(with([](TrainSettings&) {}) == test::no_errors(3));
  const std::vector<std::string> refused(3, "settings: found others on rank 1, wanted those of rank 0");
  CHECK(with([](TrainSettings& s) { s.seed = 12; }) == refused);
  CHECK(with([](TrainSettings& s) { s.schedule.lr = 2e-3; }) == refused);
  CHECK(with([](TrainSettings& s) { s.optimizer.max_skipped_in_a_row = 3; }) == refused);
}

TEST_CASE("batches that ranks cannot divide among them are refused") {
  const char* const message = "accumulate: found 2 batches a step, wanted a multiple of 3, the ranks";
  CHECK_THROWS_WITH_AS(Flash::check(OfDFlash::setup(), settings(), 3), message, Error);
  CHECK_NOTHROW(Flash::check(OfDFlash::setup(), settings(), 2));
  CHECK_THROWS_WITH_AS(Flash::check(OfDFlash::setup(), settings(), 0), "ranks: found 0, wanted at least 1", Error);
  CHECK(test::on_ranks(3, [](ThreadRank& comm) { flash(comm); }) == std::vector<std::string>(3, message));
  CHECK(Flash::activation_bytes(settings(), 2) <= Flash::activation_bytes(settings()));
  CHECK(OfRank<OfEagle3>::activation_bytes(settings(), 2) < OfRank<OfEagle3>::activation_bytes(settings()));
}
