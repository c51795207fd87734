#include <vector>

#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>

#include "contestant.hpp"

namespace k3spec::examples {

Contestant make_eagle3(const Target& target, const std::filesystem::path& folder, index_t capacity,
                       const DecodeOptions& options) {
  using Draft = Eagle3Draft<TargetConfig>;
  using Session = Eagle3Session<Draft, float>;
  return make_contestant<Draft, Session>(target, folder, capacity, options, [](const auto& draft) {
    const auto ids = draft.vocabulary.target_ids();
    return typename Session::Source{draft.parameters.weights(), {ids.data(), ids.data() + ids.size()}};
  });
}

}  // namespace k3spec::examples
