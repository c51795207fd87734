#pragma once
/// \file
/// EAGLE-3 drafts of either version, with one backbone.
/// defines: enter_eagle3_with

#include <string>
#include <vector>

#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>

#include "../common/eagle3_form.hpp"
#include "contestant.hpp"

namespace k3spec::examples {

template <class Base>
Entry enter_eagle3_with(const std::string& version, const std::filesystem::path& folder, index_t capacity,
                        const DecodeOptions& options) {
  return with_eagle3_version<Base>(version, [&]<class Config> {
    using Draft = Eagle3Draft<Config>;
    using Session = Eagle3Session<Draft, float>;
    return make_entry<Draft, Session>(folder, capacity, options, [](const auto& draft) {
      const auto ids = draft.vocabulary.target_ids();
      return typename Session::Source{draft.parameters.weights(), {ids.data(), ids.data() + ids.size()}};
    });
  });
}

}  // namespace k3spec::examples
