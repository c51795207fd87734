#pragma once
/// \file
/// Texts decoded together against each alone.
/// defines: test::check_several

#include <doctest/doctest.h>

#include <map>

#include "tests/backend/allocations.hpp"
#include "tests/decode/tiny.hpp"

namespace k3spec::test {

inline void check_same(const DecodeResult& found, const DecodeResult& wanted, const std::string& what) {
  CHECK_MESSAGE(found.tokens == wanted.tokens, what);
  CHECK_MESSAGE(found.target_forwards == wanted.target_forwards, what);
  CHECK_MESSAGE(found.drafted == wanted.drafted, what);
  CHECK_MESSAGE(found.accepted == wanted.accepted, what);
}

/// Prompts of lengths between 1 and 64, each text with draws of its own; an end-of-sequence token that some come to.
/// \param make  (options, texts) -> decoder for k3-tiny of capacity 160
template <class Make>
void check_several(const char* name, const DecodeOptions& options, Make&& make) {
  std::vector<std::vector<index_t>> prompts;
  std::vector<std::uint64_t> seeds;
  for (const std::size_t length : {5U, 64U, 1U, 33U, 64U, 2U, 17U}) {
    const auto prompt = tiny().prompt(prompts.size()).first(length);
    prompts.emplace_back(prompt.begin(), prompt.end());
    seeds.push_back(100 + prompts.size());
  }
  DecodeOptions o = options;
  o.max_new_tokens = 24;
  o.stop_token_ids = {101};  // e
  auto one = make(o, 1);
  std::vector<DecodeResult> alone;
  std::map<std::size_t, int> ends;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    one.reseed(seeds[i]);
    alone.push_back(one.generate(Cpu{1}, prompts[i]));
    ++ends[alone.back().tokens.size()];
  }
  CHECK(ends.size() > 2);
  const auto compare = [&](const DecodeResult& found, std::size_t i, const char* how) {
    check_same(found, alone[i], fmt::format("{}: {}, prompt {}", name, how, i));
  };

  for (const index_t texts : {1, 3, 16}) {
    o.prefill_chunk = texts == 3 ? 7 : 64;
    auto decoder = make(o, texts);
    const auto results = decoder.generate_all(Cpu{texts == 3 ? 1 : 2}, prompts, seeds);
    for (std::size_t i = 0; i < prompts.size(); ++i) compare(results[i], i, "together");
    CHECK(decoder.generate_all(Cpu{1}, {}).empty());
  }

  // They come one round after the other; the first leaves before its end and comes again.
  auto decoder = make(o, 3);
  std::map<index_t, std::size_t> which;
  const auto first = decoder.add(prompts[1], seeds[1]);
  for (int round = 0; round < 3; ++round) decoder.step(Cpu{1});
  const auto part = decoder.take(first).tokens;
  CHECK(std::equal(part.begin(), part.end(), alone[1].tokens.begin()));
  std::size_t next = 0, done = 0;
  while (done < prompts.size()) {
    if (next < prompts.size() && decoder.has_room()) {
      which[decoder.add(prompts[next], seeds[next])] = next;
      ++next;
    }
    decoder.step(Cpu{1});
    for (auto it = which.begin(); it != which.end();) {
      if (!decoder.is_finished(it->first)) {
        ++it;
        continue;
      }
      compare(decoder.take(it->first), it->second, "in turn");
      it = which.erase(it), ++done;
    }
  }

  // No round allocates: neither one that reads a prompt, nor one beside it, nor the last.
  decoder.add(prompts[1], 1), decoder.add(prompts[3], 2);
  for (int round = 0; round < 4; ++round) decoder.step(Cpu{1});
  decoder.add(prompts[4], 3);
  const auto before = allocations();
  for (int round = 0; round < 40; ++round) decoder.step(Cpu{1});
  CHECK_MESSAGE(allocations() == before, name);
  for (index_t text = 0; text < 3; ++text) CHECK(decoder.is_finished(text));
}

/// Greedy, and at a temperature.
template <class Make>
void check_several(const char* name, Make&& make, double min_confidence = 0) {
  DecodeOptions o;
  o.min_confidence = min_confidence;
  check_several(name, o, make);
  o.temperature = 0.8;
  check_several(name, o, make);
}

}  // namespace k3spec::test
