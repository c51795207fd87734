#include <k3spec/decode/block_session.hpp>
#include <k3spec/drafts/dflash_draft.hpp>

#include "contestant.hpp"

namespace k3spec::examples {

Entry enter_dflash(const std::filesystem::path& folder, index_t capacity, const DecodeOptions& options) {
  using Draft = DFlashDraft<configs::KimiK3TinyDFlash>;
  using Session = BlockSession<Draft, float>;
  return make_entry<Draft, Session>(folder, capacity, options, [](const auto& draft) {
    return typename Session::Source{draft.parameters.weights()};
  });
}

}  // namespace k3spec::examples
