#include "eagle3.hpp"

namespace k3spec::examples {

Contestant make_eagle3_deepseek_v3(const std::string& version, const Target& target,
                                   const std::filesystem::path& folder, index_t capacity,
                                   const DecodeOptions& options) {
  return make_eagle3_with<configs::DeepSeekV3Tiny>(version, target, folder, capacity, options);
}

}  // namespace k3spec::examples
