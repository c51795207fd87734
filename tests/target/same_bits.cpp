#include "k3_tiny.hpp"

#include <k3spec/core/rng.hpp>

using namespace k3spec;
using Config = configs::KimiK3Tiny;
using State = TargetState<Config, float>;
using Ids = std::vector<index_t>;
using Run = test::Run<float>;

namespace {

Ids random_ids(index_t count, std::uint64_t seed) {
  Ids ids;
  for (index_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<index_t>(Philox(seed).below(static_cast<std::uint64_t>(i), 256)));
  }
  return ids;
}

/// Rows [sequence][token] of several calls as one call would have given them.
Run join(const std::vector<Run>& runs, index_t sequences) {
  Run out;
  const auto append = [&](std::vector<float> Run::*part) {
    for (index_t b = 0; b < sequences; ++b) {
      for (const Run& run : runs) {
        const auto each = static_cast<std::ptrdiff_t>((run.*part).size()) / sequences;
        const auto from = (run.*part).begin() + b * each;
        (out.*part).insert((out.*part).end(), from, from + each);
      }
    }
  };
  append(&Run::tapped), append(&Run::last), append(&Run::logits);
  for (const Run& run : runs) out.rows += run.rows;
  return out;
}

/// Rows of one sequence.
Run of_sequence(const Run& run, index_t sequences, index_t b) {
  Run out;
  const auto copy = [&](std::vector<float> Run::*part) {
    const auto each = static_cast<std::ptrdiff_t>((run.*part).size()) / sequences;
    (out.*part).assign((run.*part).begin() + b * each, (run.*part).begin() + (b + 1) * each);
  };
  copy(&Run::tapped), copy(&Run::last), copy(&Run::logits);
  out.rows = run.rows / sequences;
  return out;
}

/// ids [sequences, length] in calls of the given numbers of tokens, the last number again and again.
Run in_chunks(const Ids& ids, index_t sequences, const Ids& chunks, index_t rollback = 16) {
  const index_t length = static_cast<index_t>(ids.size()) / sequences;
  State state({sequences, length, rollback});
  std::vector<Run> runs;
  for (index_t begin = 0; begin < length;) {
    const index_t chunk = runs.size() < chunks.size() ? chunks[runs.size()] : chunks.back();
    const index_t end = std::min(length, begin + chunk);
    runs.push_back(test::tiny<float>()(state, test::tiny<float>().slice(ids, sequences, begin, end)));
    begin = end;
  }
  CHECK(state.length(0) == length);
  return join(runs, sequences);
}

/// All that a state remembers of a sequence.
std::vector<float> memory(State& state, index_t sequence) {
  std::vector<float> all;
  using Layout = TargetLayout<Config>;
  constexpr index_t state_size = Config::kda_num_heads * KdaLayout<float, Config::kda_head_dim>::state_size;
  for (index_t layer = 0; layer < Layout::kda_layers; ++layer) {
    const auto kda = state.kda(layer, sequence);
    all.insert(all.end(), kda.recurrent, kda.recurrent + state_size);
    all.insert(all.end(), kda.window.row(0), kda.window.row(Config::kda_conv_size - 1));
  }
  for (index_t layer = 0; layer < Layout::mla_layers; ++layer) {
    const auto latents = state.mla(layer, sequence);
    all.insert(all.end(), latents.row(0), latents.row(state.length(sequence)));
  }
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("cutting a text into calls changes no bit") {
  const index_t length = 150;
  const Ids ids = random_ids(2 * length, 1);
  const Run whole = in_chunks(ids, 2, {length});
  CHECK(whole == in_chunks(ids, 2, {1}));
  CHECK(whole == in_chunks(ids, 2, {7}));
  CHECK(whole == in_chunks(ids, 2, {64}));
  CHECK(whole == in_chunks(ids, 2, {63, 2, 1, 16, 17, 3}));
  CHECK(whole == in_chunks(ids, 2, {5, 40}, 0));
  CHECK(whole == in_chunks(ids, 2, {2}, 2));
  CHECK_FALSE(whole == in_chunks(random_ids(2 * length, 2), 2, {length}));
}

TEST_CASE("a row alone and among others has the same bits") {
  const index_t length = 70;
  const Ids ids = random_ids(3 * length, 3);
  const Run together = in_chunks(ids, 3, {60, 4, 6});
  for (index_t b = 0; b < 3; ++b) {
    const Ids alone(ids.begin() + b * length, ids.begin() + (b + 1) * length);
    CHECK(of_sequence(together, 3, b) == in_chunks(alone, 1, {60, 4, 6}));
  }
}

TEST_CASE("the number of threads changes no bit") {
  const Ids ids = random_ids(8 * 192, 4);
  auto& tiny = test::tiny<float>();
  const Run one = in_chunks(ids, 8, {150, 6});
  tiny.threads = 2;
  const Run two = in_chunks(ids, 8, {150, 6});
  tiny.threads = 1;
  CHECK(one == two);
}

TEST_CASE("keeping the first tokens of a call is having seen only those") {
  const auto& tiny = test::tiny<float>();
  for (const index_t n : {1, 2, 5, 16}) {
    for (index_t m = 0; m <= n; ++m) {
      CAPTURE(n);
      CAPTURE(m);
      const index_t prompt = 55 + n;
      const auto seed = static_cast<std::uint64_t>(100 * n + m);
      const Ids text = random_ids(prompt + m + 9, seed), wrong = random_ids(n, seed + 50000);
      const auto part = [&](index_t begin, index_t end) { return Ids(text.begin() + begin, text.begin() + end); };
      State straight({1, 100}), guessed({1, 100});
      tiny(straight, part(0, prompt + m)), tiny(guessed, part(0, prompt));
      Ids guess = part(prompt, prompt + m);
      guess.insert(guess.end(), wrong.begin(), wrong.end() - m);
      tiny(guessed, guess);
      guessed.accept(0, 0);
      guessed.accept(0, m);
      REQUIRE(guessed.length(0) == straight.length(0));
      const Ids rest = part(prompt + m, prompt + m + 9);
      CHECK(tiny(guessed, rest) == tiny(straight, rest));
      straight.settle(), guessed.settle();
      CHECK(same_bits(memory(guessed, 0), memory(straight, 0)));
    }
  }
}

TEST_CASE("sequences keep different numbers of tokens, call after call") {
  const auto& tiny = test::tiny<float>();
  const index_t rows = 3, calls = 12, n = 6;
  State state({rows, 200});
  std::vector<Ids> seen(rows);
  const Ids prompt = random_ids(rows * 20, 7);
  tiny(state, prompt);
  for (index_t b = 0; b < rows; ++b)
    seen[static_cast<std::size_t>(b)].assign(prompt.begin() + b * 20, prompt.begin() + b * 20 + 20);
  for (index_t call = 0; call < calls; ++call) {
    const Ids ids = random_ids(rows * n, static_cast<std::uint64_t>(1000 + call));
    tiny(state, ids);
    for (index_t b = 0; b < rows; ++b) {
      const index_t kept = (call + b * 3) % (n + 1);
      state.accept(b, kept);
      auto& row = seen[static_cast<std::size_t>(b)];
      row.insert(row.end(), ids.begin() + b * n, ids.begin() + b * n + kept);
    }
  }
  state.settle();
  for (index_t b = 0; b < rows; ++b) {
    CAPTURE(b);
    const auto& row = seen[static_cast<std::size_t>(b)];
    CHECK(state.length(b) == static_cast<index_t>(row.size()));
    State straight({1, 200});
    tiny(straight, row);
    straight.settle();
    CHECK(same_bits(memory(state, b), memory(straight, 0)));
  }
}

TEST_CASE(
    "sequences have different numbers of new tokens, none too, call after call, and the bits that each has alone") {
  auto& tiny = test::tiny<float>();
  const index_t sequences = 5, length = 70;
  const Ids ids = random_ids(sequences * length, 21);
  std::vector<Run> alone;
  for (index_t b = 0; b < sequences; ++b) {
    alone.push_back(in_chunks({ids.begin() + b * length, ids.begin() + (b + 1) * length}, 1, {length}));
  }
  for (const int threads : {1, 2}) {
    State state({sequences, length, 16});
    for (std::uint64_t call = 0; state.length(0) + state.length(1) + state.length(4) < 3 * length; ++call) {
      const auto draw = [&](index_t b, std::uint64_t below) {
        return static_cast<index_t>(Philox(22, call).below(static_cast<std::uint64_t>(b) + (below << 8), below));
      };
      Ids counts, now;
      for (index_t b = 0; b < sequences; ++b) {
        const index_t at = b * length + state.length(b),
                      most = Ids{0, 1, 5, 16, 17, 64}[static_cast<std::size_t>(draw(b, 6))];
        counts.push_back(std::min(most, length - state.length(b)));
        now.insert(now.end(), ids.begin() + at, ids.begin() + at + counts.back());
      }
      tiny.threads = threads;
      const Run run = tiny(state, now, counts);
      tiny.threads = 1;
      std::size_t row = 0;
      for (index_t b = 0; b < sequences; ++b) {
        const auto n = static_cast<std::size_t>(counts[static_cast<std::size_t>(b)]);
        const auto before = static_cast<std::size_t>(state.length(b)) - n;
        const auto same = [&](std::vector<float> Run::*part) {
          const auto& found = run.*part;
          const auto& wanted = alone[static_cast<std::size_t>(b)].*part;
          const std::size_t width = wanted.size() / static_cast<std::size_t>(length);
          return std::equal(found.begin() + static_cast<std::ptrdiff_t>(row * width),
                            found.begin() + static_cast<std::ptrdiff_t>((row + n) * width),
                            wanted.begin() + static_cast<std::ptrdiff_t>(before * width));
        };
        CHECK((same(&Run::tapped) && same(&Run::last) && same(&Run::logits)));
        row += n;
        // Some are taken back; a sequence that had no tokens keeps what it kept before.
        if (n > 0 && n <= 16) state.accept(b, draw(b + 100, n + 1));
      }
    }
  }
}

TEST_CASE("parts of a batch and sequences that run through the layers together") {
  const Ids ids(12), counts{0, 5, 0, 0, 7, 0};
  const NewTokens ragged(ids, counts), even(Matrix<const index_t>(ids.data(), 4, 3));
  CHECK((ragged.part_begin(0, 2) == 0 && ragged.part_begin(1, 2) == 5 && ragged.part_begin(2, 2) == 6));
  CHECK((even.part_begin(0, 2) == 0 && even.part_begin(1, 2) == 2 && even.part_begin(2, 2) == 4));
  CHECK((ragged.sequences_with(5, 0) == 2 && ragged.sequences_with(6, 0) == 5 && ragged.sequences_with(13, 0) == 6));
  CHECK((ragged.sequences_with(7, 2) == 3 && ragged.sequences_with(8, 2) == 4 && ragged.sequences_with(1, 5) == 1));
  CHECK((even.sequences_with(3, 1) == 1 && even.sequences_with(4, 1) == 2 && even.sequences_with(1, 3) == 1));
}

TEST_CASE("sequences that run through the layers group by group have the bits that each has alone") {
  const index_t sequences = 5, length = 100;
  const Ids ids = random_ids(sequences * length, 23);
  const Run all = in_chunks(ids, sequences, {length}, 0);
  for (index_t b = 0; b < sequences; ++b) {
    const Ids own(ids.begin() + b * length, ids.begin() + (b + 1) * length);
    CHECK(of_sequence(all, sequences, b) == in_chunks(own, 1, {length}, 0));
  }
}

TEST_CASE("one new token among many sequences that have none") {
  State state({40, 3, 16}), alone({1, 3, 16});
  Ids counts(40, 0);
  counts[17] = 1;
  CHECK(test::tiny<float>()(state, {65}, counts) == test::tiny<float>()(alone, {65}));
  for (index_t b = 0; b < 40; ++b) CHECK(state.length(b) == (b == 17 ? 1 : 0));
}

TEST_CASE("scratch for any division of rows among sequences") {
  using Target = FrozenTarget<Config, float>;
  for (index_t a = 0; a < 40; ++a) {
    for (index_t b = 0; b < 20; ++b) {
      for (const index_t c : {0, 1, 7}) {
        std::size_t bytes = 0;
        for (const index_t n : {a, b, c}) bytes += Target::scratch_bytes(1, n);
        REQUIRE(bytes <= Target::ragged_scratch_bytes(3, a + b + c));
      }
    }
  }
}

TEST_CASE("a planted fault in what is remembered shows") {
  const auto& tiny = test::tiny<float>();
  const Ids text = random_ids(30, 9), next = random_ids(3, 10);
  State right({1, 40}), wrong({1, 40});
  tiny(right, text), tiny(wrong, text);
  float& x = wrong.mla(0, 0)(11, 3);
  // One unit in the last place may vanish in the sums that follow; this cannot.
  x *= 1.001F;
  CHECK_FALSE(tiny(right, next) == tiny(wrong, next));
}

TEST_CASE("an emptied sequence begins anew") {
  const auto& tiny = test::tiny<float>();
  const Ids text = random_ids(12, 11);
  State used({1, 40}), fresh({1, 40});
  tiny(used, random_ids(30, 12));
  used.reset(0);
  CHECK(used.length(0) == 0);
  CHECK(tiny(used, text) == tiny(fresh, text));
}
