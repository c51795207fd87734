#include <k3spec/decode/block_session.hpp>
#include <k3spec/drafts/dspark_draft.hpp>

#include "contestant.hpp"

namespace k3spec::examples {

Entry enter_dspark(const std::filesystem::path& folder, index_t capacity, const DecodeOptions& options) {
  using Draft = DSparkDraft<configs::KimiK3TinyDSpark>;
  using Session = BlockSession<Draft, float>;
  return make_entry<Draft, Session>(folder, capacity, options, [](const auto& draft) {
    return typename Session::Source{draft.parameters.weights()};
  });
}

}  // namespace k3spec::examples
