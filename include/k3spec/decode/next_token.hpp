#pragma once
/// \file
/// The target's token behind a text.
/// defines: throw_no_largest_logit, NextToken

#include <span>
#include <string>

#include <k3spec/decode/decode_options.hpp>
#include <k3spec/decode/host_row.hpp>
#include <k3spec/decode/sampling.hpp>

namespace K3SPEC_NAMESPACE {

/// Ends a text that has no next token.
/// \param position  of the token that was to be chosen, the prompt's first token being 0
[[noreturn]] inline void throw_no_largest_logit(index_t position) {
  throw Error("target: logits of position " + std::to_string(position), "NaN among them or no finite largest one",
              "a finite largest one to choose by");
}

/// Chooses tokens from rows of a device's logits, one at a time.
template <Device D, class S>
class NextToken {
 public:
  /// Room for one row.
  /// \param vocabulary  how wide the rows are
  NextToken(const D& device, index_t vocabulary) : choices_(device, 1), row_(vocabulary) {}

  /// Bytes that it holds.
  static constexpr std::size_t bytes(index_t vocabulary) {
    return TokenChoices<D>::bytes(1) + HostRow<D, S>::bytes(vocabulary);
  }

  /// Has the processor change a row of logits, if there is one.
  void process(const D& device, const LogitProcessor& processor, const TextSoFar& text,
               const Matrix<element_t<D, S>>& logits) {
    if (!processor) return;
    row_.change(device, logits, [&](std::span<S> row) { processor(text, row); });
  }

  /// What the sampler chooses behind a text from a row of logits.
  /// \throws Error on a token that is none, and what the sampler throws
  index_t sample(const D& device, const TokenSampler& sampler, const TextSoFar& text,
                 const Matrix<element_t<D, S>>& logits) {
    return row_.read(device, logits, [&](std::span<const S> row) { return sampler(text, row); });
  }

  /// The target's token behind a text, from its logits [1, vocabulary], which are changed.
  /// \throws Error on logits without a finite largest one
  index_t choose(const D& device, const DecodeOptions& options, const Sampling& sampling,
                 const Matrix<element_t<D, S>>& logits, const TextSoFar& text) {
    process(device, options.logit_processor, text, logits);
    const index_t token = choices_.choose(device, logits, {0, sampling, Decision::token, text.size()});
    if (token < 0) throw_no_largest_logit(text.size());
    return options.sampler ? sample(device, options.sampler, text, logits) : token;
  }

 private:
  TokenChoices<D> choices_;
  HostRow<D, S> row_;
};

}  // namespace K3SPEC_NAMESPACE
