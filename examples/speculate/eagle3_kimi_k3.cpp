#include "eagle3.hpp"

namespace k3spec::examples {

Entry enter_eagle3_kimi_k3(const std::string& version, const std::filesystem::path& folder, index_t capacity,
                           const DecodeOptions& options) {
  return enter_eagle3_with<configs::KimiK3Tiny>(version, folder, capacity, options);
}

}  // namespace k3spec::examples
