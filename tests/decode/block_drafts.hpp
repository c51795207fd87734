#pragma once
/// \file
/// Block drafts of every variant, for the small target and for k3-tiny.
/// defines: test::DFlashOf, test::DSparkOf, test::layers_of, test::for_each_draft

#include <k3spec/decode/block_session.hpp>

#include "tests/decode/sampled.hpp"

namespace k3spec::test {

template <class Base>
struct DFlashOf : configs::DFlash<Base> {
  static constexpr index_t block_size = 4;
  static constexpr std::optional<index_t> mask_token_id = Base::vocab_size - 1;
};
/// Causal blocks and a window.
template <class Base>
struct NarrowDFlash : DFlashOf<Base> {
  static constexpr index_t num_draft_layers = 1;
  static constexpr bool block_causal = true;
  static constexpr std::optional<index_t> sliding_window = 4;
};
template <class Base>
struct WindowedDFlash : DFlashOf<Base> {
  static constexpr std::optional<index_t> sliding_window = 6;
};

template <class Base, MarkovHeadType Type = MarkovHeadType::vanilla, index_t Rank = 6>
struct DSparkOf : configs::DSpark<Base> {
  static constexpr index_t block_size = 5;
  static constexpr std::optional<index_t> mask_token_id = Base::vocab_size - 1;
  static constexpr index_t markov_rank = Rank;
  static constexpr MarkovHeadType markov_head_type = Type;
  static constexpr bool confidence_head_with_markov = Rank > 0 && Type != MarkovHeadType::gated;
};
template <class Base>
struct NarrowDSpark : DSparkOf<Base> {
  static constexpr bool block_causal = true;
  static constexpr std::optional<index_t> sliding_window = 3;
};
template <class Base>
struct UnsureDSpark : DSparkOf<Base, MarkovHeadType::rnn> {
  static constexpr bool enable_confidence_head = false, confidence_head_with_markov = false;
};

inline constexpr std::array<index_t, 3> small_layers{-1, 1, 3}, tiny_layers{2, 4, 7};

/// f(name, draft type) for one draft of each kind.
template <class Base, class F>
void for_each_draft(F&& f) {
  const auto call = [&](const char* name, auto draft) { f(name, draft); };
  call("DFlash", std::type_identity<DFlashDraft<DFlashOf<Base>>>{});
  call("DFlash, causal, window", std::type_identity<DFlashDraft<NarrowDFlash<Base>>>{});
  call("DFlash, window", std::type_identity<DFlashDraft<WindowedDFlash<Base>>>{});
  call("DSpark, vanilla", std::type_identity<DSparkDraft<DSparkOf<Base>>>{});
  call("DSpark, causal, window", std::type_identity<DSparkDraft<NarrowDSpark<Base>>>{});
  call("DSpark, gated", std::type_identity<DSparkDraft<DSparkOf<Base, MarkovHeadType::gated>>>{});
  call("DSpark, rnn", std::type_identity<DSparkDraft<DSparkOf<Base, MarkovHeadType::rnn>>>{});
  call("DSpark, no Markov head", std::type_identity<DSparkDraft<DSparkOf<Base, MarkovHeadType::vanilla, 0>>>{});
  call("DSpark, no confidence head", std::type_identity<DSparkDraft<UnsureDSpark<Base>>>{});
}

}  // namespace k3spec::test
