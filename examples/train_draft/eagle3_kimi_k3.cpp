#include "eagle3.hpp"

namespace k3spec::examples {

void train_eagle3_kimi_k3(const Job& job) { train_eagle3_with<configs::KimiK3Tiny>(job); }

}  // namespace k3spec::examples
