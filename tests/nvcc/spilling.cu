// A kernel that cannot do with few registers: 96 values live at once. Compiled with -maxrregcount=32 it must spill.
__global__ void spilling(const float* x, float* y) {
  constexpr int n = 96;
  float value[n];
#pragma unroll
  for (int i = 0; i < n; ++i) value[i] = x[i * blockDim.x + threadIdx.x];
  for (int step = 0; step < 4; ++step) {
#pragma unroll
    for (int i = 0; i < n; ++i) value[i] += value[(i * 7 + 5) % n] * value[(i * 11 + 3) % n];
  }
#pragma unroll
  for (int i = 0; i < n; ++i) y[i * blockDim.x + threadIdx.x] = value[i];
}
