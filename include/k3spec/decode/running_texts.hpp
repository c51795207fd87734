#pragma once
/// \file
/// The texts that are decoded together: their places, their prompts, and which of them wants what next.
/// defines: RunningText, RunningTexts

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/core/require_shape.hpp>
#include <k3spec/decode/plain.hpp>

namespace K3SPEC_NAMESPACE {

/// A text among those that are decoded together.
struct RunningText {
  bool is_there = false;
  std::uint64_t arrival = 0;
  Continuation text;
  index_t read = 0;  ///< tokens of the prompt that have gone through the target
  Sampling sampling = {};
  std::exception_ptr failure = nullptr;  ///< what ended it before its end
  /// What processor or sampler threw for one of the round's rows of logits, and which: it ends the text that comes to
  /// that row.
  std::exception_ptr row_failure = nullptr;
  index_t failed_row = 0;

  explicit RunningText(const DecodeOptions& options) : text(options) {}

  bool is_finished() const { return text.ended() || failure != nullptr; }
  /// Tokens of the prompt that are still to be read; of a text that is over or not there, none.
  index_t unread() { return is_there && !is_finished() ? std::max<index_t>(text.text().prompt - read, 0) : 0; }
  /// Is its prompt read, and its end still to come?
  bool runs() { return is_there && !is_finished() && unread() == 0; }

  /// Does something with the text; what that throws ends this text alone.
  template <class F>
  void guarded(F&& f) {
    try {
      f();
    } catch (...) {
      failure = std::current_exception();
    }
  }
};

/// The texts that are decoded together, each at its place.
class RunningTexts {
 public:
  /// No texts at first.
  /// \param places  the most texts at a time
  /// \throws Error on a number of places out of range
  RunningTexts(const DecodeOptions& options, index_t places) : texts_(checked_places(places), RunningText(options)) {
    order_.reserve(texts_.size());
  }

  index_t places() const { return static_cast<index_t>(texts_.size()); }
  bool has_room() const { return free() != texts_.end(); }
  /// The text at a place.
  /// \throws Error on a place that is not there
  RunningText& operator[](index_t place) {
    require_index("texts: place", place, places());
    return texts_[static_cast<std::size_t>(place)];
  }

  /// Takes a text in.
  /// \param drafted  the most tokens that are drafted behind it
  /// \returns its place
  /// \throws Error on an empty prompt, one that leaves no room, an id outside the vocabulary, or too many texts
  index_t add(std::span<const index_t> prompt, const DecodeOptions& options, std::uint64_t seed, index_t capacity,
              index_t vocabulary, index_t drafted) {
    require_prompt(prompt, capacity, options);
    require_tokens(Vector<const index_t>(prompt.data(), static_cast<index_t>(prompt.size())), vocabulary);
    if (!has_room()) {
      throw Error("texts decoded at a time", std::to_string(places() + 1), "at most " + std::to_string(places()));
    }
    const index_t place = free() - texts_.begin();
    RunningText& t = (*this)[place];
    t.is_there = true, t.arrival = arrivals_++, t.read = 0, t.failure = t.row_failure = nullptr;
    t.text.begin(prompt, drafted);
    t.sampling = options.sampling(), t.sampling.seed = seed;
    return place;
  }

  /// Has the text come to its end?
  /// \throws Error where there is no such text
  bool is_finished(index_t place) const { return checked(place).is_finished(); }

  /// The finished text; its place is free again.
  /// \throws Error where there is no such text, or what ended it
  DecodeResult take(index_t place) {
    (void)checked(place);
    RunningText& t = (*this)[place];
    drop(place);
    if (t.failure) std::rethrow_exception(std::exchange(t.failure, nullptr));
    return t.text.take();
  }

  void drop(index_t place) { (*this)[place].is_there = false; }

  /// Those whose prompt is read and whose end is still to come. Valid until the next call.
  std::span<const index_t> running() {
    order_.clear();
    for (index_t b = 0; b < places(); ++b) {
      if ((*this)[b].runs()) order_.push_back(b);
    }
    return order_;
  }

  /// Sets counts to how much of each prompt is read next, `chunk` tokens in all or fewer, of those first that came
  /// first. \returns whether any is
  /// \throws Error on counts of another number of places
  bool share(index_t chunk, std::span<index_t> counts) {
    require_count("texts: counts", static_cast<index_t>(counts.size()), places(), " places");
    std::fill(counts.begin(), counts.end(), 0);
    order_.clear();
    for (index_t b = 0; b < places(); ++b) {
      if ((*this)[b].unread() > 0) order_.push_back(b);
    }
    std::sort(order_.begin(), order_.end(),
              [&](index_t a, index_t b) { return (*this)[a].arrival < (*this)[b].arrival; });
    for (const index_t b : order_) {
      index_t& count = counts[static_cast<std::size_t>(b)];
      count = std::min(chunk, (*this)[b].unread());
      chunk -= count;
    }
    return !order_.empty();
  }

 private:
  static std::size_t checked_places(index_t places) {
    constexpr index_t most = 65536;
    if (places < 1 || places > most) throw Error("texts", std::to_string(places), "1 to " + std::to_string(most));
    return static_cast<std::size_t>(places);
  }
  const RunningText& checked(index_t place) const {
    const auto i = static_cast<std::size_t>(place);
    if (place >= 0 && i < texts_.size() && texts_[i].is_there) return texts_[i];
    throw Error("text", std::to_string(place), "one that was added and not taken");
  }
  std::vector<RunningText>::const_iterator free() const {
    return std::find_if(texts_.begin(), texts_.end(), [](const RunningText& t) { return !t.is_there; });
  }

  std::vector<RunningText> texts_;
  std::uint64_t arrivals_ = 0;
  std::vector<index_t> order_;
};

}  // namespace K3SPEC_NAMESPACE
