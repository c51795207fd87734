#include <k3spec/all.hpp>

using namespace k3spec;

float product_elsewhere(float x, float y) {
  float result = 0;
  const Matrix<float> product(&result, 1, 1);
  gemm(Cpu{1}, Matrix<float>(&x, 1, 1), Op::plain, Matrix<float>(&y, 1, 1), Op::plain, product);
  return result;
}

const void* layers_elsewhere() { return &configs::KimiK3::full_attn_layers; }
