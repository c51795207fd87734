#include "eagle3.hpp"

namespace k3spec::examples {

int train_eagle3_deepseek_v3(const Job& job) { return train_eagle3_with<configs::DeepSeekV3Tiny>(job); }

}  // namespace k3spec::examples
