#pragma once
/// \file
/// Decoding with a draft of each kind. To be included where `enter` is instantiated.
/// defines: enter

#include <k3spec/decode/block_session.hpp>
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>

#include "contestant.hpp"

namespace k3spec::examples {

namespace detail {

template <class Config, DraftKind Kind = draft_kind_of<Config>()>
struct DraftOf {
  using type = Eagle3Draft<Config>;
};
template <class Config>
struct DraftOf<Config, DraftKind::dflash> {
  using type = DFlashDraft<Config>;
};
template <class Config>
struct DraftOf<Config, DraftKind::dspark> {
  using type = DSparkDraft<Config>;
};

}  // namespace detail

template <class Config>
Entry enter(const std::filesystem::path& folder, index_t capacity, const DecodeOptions& options) {
  using Draft = typename detail::DraftOf<Config>::type;
  if constexpr (Draft::kind == DraftKind::eagle3) {
    using Session = Eagle3Session<Draft, float>;
    return make_entry<Draft, Session>(folder, capacity, options, [](const auto& draft) {
      const auto ids = draft.vocabulary.target_ids();
      return typename Session::Source{draft.parameters.weights(), {ids.data(), ids.data() + ids.size()}};
    });
  } else {
    using Session = BlockSession<Draft, float>;
    return make_entry<Draft, Session>(folder, capacity, options, [](const auto& draft) {
      return typename Session::Source{draft.parameters.weights()};
    });
  }
}

}  // namespace k3spec::examples
