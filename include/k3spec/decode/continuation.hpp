#pragma once
/// \file
/// One text on its way: the prompt, what was generated behind it, and whether it has come to its end.
/// defines: Continuation

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include <k3spec/core/require_shape.hpp>
#include <k3spec/decode/decode_options.hpp>

namespace K3SPEC_NAMESPACE {

/// A text as it is being generated: its tokens, its bytes, and whether a stop token or string has ended it.
class Continuation {
 public:
  /// A place for texts; `begin` starts one.
  /// \throws Error on an empty stop string
  explicit Continuation(const DecodeOptions& options)
      : max_new_tokens_(options.max_new_tokens),
        stop_token_ids_(options.stop_token_ids),
        stop_strings_(options.stop_strings),
        token_bytes_(options.token_bytes) {}

  /// Starts a new text. Takes all the memory that it will need.
  /// \param most_drafted  the most tokens that text() is asked for behind it
  void begin(std::span<const index_t> prompt, index_t most_drafted = 0) {
    began_ = Clock::now();
    result_ = {};
    result_.tokens.reserve(static_cast<std::size_t>(max_new_tokens_));
    prompt_ = static_cast<index_t>(prompt.size());
    text_.resize(prompt.size() + static_cast<std::size_t>(max_new_tokens_ + most_drafted));
    std::copy(prompt.begin(), prompt.end(), text_.begin());
    stop_strings_.reset();
    ended_ = max_new_tokens_ == 0;
  }

  /// Adds the next token of a text that has not ended. \throws Error when it has
  void push(index_t token) {
    require(left() > 0, "text: tokens left", "none", "at least one");
    *end() = token;
    result_.tokens.push_back(token);
    if (result_.tokens.size() == 1) result_.seconds_to_first_token = seconds();
    result_.seconds_after = seconds() - result_.seconds_to_first_token;
    if (std::find(stop_token_ids_.begin(), stop_token_ids_.end(), token) != stop_token_ids_.end()) {
      finish(FinishReason::stop_token);
    } else if (completes_stop_string(token)) {
      finish(FinishReason::stop_string);
    } else if (left() == 0) {
      finish(FinishReason::length);
    }
  }

  bool ended() const { return ended_; }
  /// Tokens that may still come.
  index_t left() const { return max_new_tokens_ - static_cast<index_t>(result_.tokens.size()); }
  /// The newest token. \throws Error when there is none
  std::span<const index_t> last() const {
    require(!result_.tokens.empty(), "text: tokens", "none", "at least one");
    return std::span(result_.tokens).last(1);
  }

  /// The text. Valid until the next call of anything.
  TextSoFar text() { return {{text_.data(), static_cast<std::size_t>(end() - text_.begin())}, prompt_}; }
  /// The text with the drafted tokens behind it, which become no part of it. Valid until the next call of anything.
  /// \throws Error on more of them than begin() was told of
  TextSoFar text(std::span<const index_t> drafted) {
    auto behind = end();
    require_part("text: drafted tokens", 0, static_cast<index_t>(drafted.size()), text_.end() - behind);
    for (const index_t token : drafted) *behind++ = token;  // no std::copy: g++ warns where nothing can be drafted
    return {{text_.data(), static_cast<std::size_t>(behind - text_.begin())}, prompt_};
  }

  /// The counts of forwards and drafted tokens are the decoder's.
  DecodeResult& result() { return result_; }
  DecodeResult take() { return std::move(result_); }

 private:
  using Clock = std::chrono::steady_clock;

  std::vector<index_t>::iterator end() {
    return text_.begin() + prompt_ + static_cast<std::ptrdiff_t>(result_.tokens.size());
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  void finish(FinishReason reason) { ended_ = true, result_.finish = reason; }

  bool completes_stop_string(index_t token) {
    if (stop_strings_.empty()) return false;
    const std::string_view bytes = token_bytes_(token);
    const auto stop = stop_strings_.feed(bytes);
    if (stop) result_.bytes_after_stop = bytes.size() - *stop;
    return stop.has_value();
  }

  index_t max_new_tokens_;
  std::vector<index_t> stop_token_ids_;
  StopStrings stop_strings_;
  TokenBytes token_bytes_;
  std::vector<index_t> text_;
  index_t prompt_ = 0;
  DecodeResult result_;
  bool ended_ = true;
  Clock::time_point began_;
};

}  // namespace K3SPEC_NAMESPACE
