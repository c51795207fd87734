// Two translation units that include everything: they must link, and mean the same by it.
#include <cstdio>
#include <string_view>

#include <k3spec/all.hpp>

using namespace k3spec;

#ifdef FOUND_VERSION  // by CMake
static_assert(std::string_view(FOUND_VERSION) == K3SPEC_VERSION);
#endif

float product_elsewhere(float x, float y);
const void* layers_elsewhere();

int main() {
  require_cpu_features();
  float a = 3, b = 5, c = 0;
  const Matrix<float> product(&c, 1, 1);
  gemm(Cpu{1}, Matrix<float>(&a, 1, 1), Op::plain, Matrix<float>(&b, 1, 1), Op::plain, product);
  const bool same_product = c == 15 && product_elsewhere(3, 5) == c;
  const bool same_object = layers_elsewhere() == static_cast<const void*>(&configs::KimiK3::full_attn_layers);
  std::printf("same product: %d, same object: %d\n", same_product, same_object);
  return same_product && same_object ? 0 : 1;
}
