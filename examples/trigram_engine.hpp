#pragma once
/// \file
/// A target that is none of the library's: which letter follows two others, counted in a text. And a draft that has
/// read nothing but the text it is in.
/// defines: Trigrams, TrigramEngine, LookupDraft

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <k3spec/config/conventions.hpp>
#include <k3spec/decode/draft_session.hpp>
#include <k3spec/decode/target_engine.hpp>

/// log(0.01 + how often a letter follows two others). Letters are bytes modulo 32.
struct Trigrams {
  static constexpr k3spec::index_t vocabulary = 32;
  std::vector<float> logits;

  explicit Trigrams(std::string_view text) : logits(32 * 32 * 32) {
    const std::vector<k3spec::index_t> ids = tokens(text);
    for (std::size_t i = 2; i < ids.size(); ++i)
      logits[row(ids[i - 2], ids[i - 1]) + static_cast<std::size_t>(ids[i])] += 1;
    for (float& x : logits) x = std::log(x + 0.01F);
  }
  static std::size_t row(k3spec::index_t a, k3spec::index_t b) { return static_cast<std::size_t>((a * 32 + b) * 32); }
  static std::vector<k3spec::index_t> tokens(std::string_view text) {
    std::vector<k3spec::index_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c) % 32);
    return ids;
  }
};

/// See k3spec::TargetEngine. What is kept of a sequence is its tokens.
class TrigramEngine {
  using index_t = k3spec::index_t;
  using Ids = std::span<const index_t>;

 public:
  using Target = Trigrams;
  using value_type = float;
  static constexpr index_t hidden = 1, vocabulary = Trigrams::vocabulary, num_hidden_layers = 0;

  static std::size_t bytes(index_t, const k3spec::TargetSessionSize& size) {
    return static_cast<std::size_t>(size.choices * vocabulary) * sizeof(float) +
           static_cast<std::size_t>(size.sequences * size.capacity) * sizeof(index_t);
  }
  TrigramEngine(const Trigrams& model, const std::vector<k3spec::Tap>& taps, const k3spec::TargetSessionSize& size,
                const k3spec::Cpu& = {})
      : model_(model),
        size_(size),
        texts_(at(size.sequences)),
        ran_(texts_.size()),
        logits_(at(size.choices * vocabulary)) {
    if (!taps.empty()) throw k3spec::Error("taps", std::to_string(taps.size()), "none: this target has no states");
    for (auto& text : texts_) text.reserve(at(size.capacity));
  }

  void reset(index_t b) { texts_[at(b)].clear(); }
  void accept(index_t b, index_t n) { texts_[at(b)].resize(texts_[at(b)].size() - at(ran_[at(b)] - n)); }

  void forward(const k3spec::Cpu&, Ids ids, Ids counts, Ids choices) {
    k3spec::require_forward(ids, counts, choices, size_);
    rows_ = 0;
    for (std::size_t b = 0, next = 0; b < texts_.size(); ++b) {
      if (counts[b] > 0) ran_[b] = counts[b];
      for (index_t i = 0; i < counts[b]; ++i) {
        std::vector<index_t>& text = texts_[b];
        text.push_back(ids[next++]);
        if (i < counts[b] - choices[b]) continue;
        const index_t before = text.size() < 2 ? 0 : text[text.size() - 2];
        std::copy_n(&model_.logits[Trigrams::row(before, text.back())], at(vocabulary),
                    &logits_[at(rows_++ * vocabulary)]);
      }
    }
  }
  k3spec::Matrix<float> logits() { return k3spec::Matrix<float>(logits_.data(), rows_, vocabulary); }
  k3spec::Matrix<const float> tapped(index_t n) const { return k3spec::Matrix<const float>(nullptr, n, 0); }

 private:
  static std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

  const Trigrams& model_;
  k3spec::TargetSessionSize size_;
  std::vector<std::vector<index_t>> texts_;
  std::vector<index_t> ran_;  // tokens of each sequence's last forward
  std::vector<float> logits_;
  index_t rows_ = 0;
};
static_assert(k3spec::TargetEngine<TrigramEngine>);

/// See k3spec::DraftSession. Proposes what followed the last time that the two newest tokens stood side by side.
class LookupDraft {
  using index_t = k3spec::index_t;
  using Ids = std::span<const index_t>;

 public:
  using value_type = float;
  struct Conventions {};
  struct Source {};  // it is made of nothing
  static constexpr index_t states = 0, target_hidden = 1, vocabulary = Trigrams::vocabulary, max_chain = 64;

  static index_t default_chain(const Conventions&) { return 4; }
  static std::vector<k3spec::Tap> taps(Ids, index_t, const Conventions&) { return {}; }
  static std::size_t bytes(const k3spec::SessionSize& size) {
    return static_cast<std::size_t>(size.sequences * (size.capacity + size.chain)) * sizeof(index_t);
  }
  LookupDraft(const Trigrams&, Source, const k3spec::SessionSize& size)
      : texts_(static_cast<std::size_t>(size.sequences)), proposals_(texts_.size()) {
    for (auto& text : texts_) text.reserve(static_cast<std::size_t>(size.capacity));
    for (auto& proposal : proposals_) proposal.reserve(static_cast<std::size_t>(size.chain));
  }

  void reset(index_t b) { texts_[static_cast<std::size_t>(b)].clear(); }
  /// Gets the tokens one position later: those from the second on.
  void append(const k3spec::Cpu&, const k3spec::Matrix<const float>&, Ids ids, Ids counts) {
    for (std::size_t b = 0, next = 0; b < texts_.size(); ++b)
      for (index_t i = 0; i < counts[b]; ++i) texts_[b].push_back(ids[next++]);
  }
  void draft(const k3spec::Cpu&, Ids counts, std::span<const k3spec::Sampling>) {
    for (std::size_t b = 0; b < texts_.size(); ++b) {
      const std::vector<index_t>& text = texts_[b];
      proposals_[b].clear();
      if (counts[b] == 0 || text.size() < 3) continue;
      const auto pair = text.end() - 2;
      const auto found = std::find_end(text.begin(), text.end() - 1, pair, text.end());
      for (auto next = found + 2; next < text.end() && proposals_[b].size() < static_cast<std::size_t>(counts[b]);
           ++next)
        proposals_[b].push_back(*next);
    }
  }
  k3spec::Proposal<float> proposal(index_t b) const { return {proposals_[static_cast<std::size_t>(b)]}; }

 private:
  std::vector<std::vector<index_t>> texts_, proposals_;
};
static_assert(k3spec::DraftSession<LookupDraft>);
