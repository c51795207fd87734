#include "eagle3.hpp"

namespace k3spec::examples {

int train_eagle3_kimi_k3(const Job& job) { return train_eagle3_with<configs::KimiK3Tiny>(job); }

}  // namespace k3spec::examples
