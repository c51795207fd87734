// A product and a sum, once as two operations and once as one.
#include <cmath>

#include <k3spec/core/view.hpp>

extern "C" __global__ void two_operations(k3spec::Matrix<float> x) { x(0, 0) = x(0, 1) * x(0, 2) + x(0, 3); }
extern "C" __global__ void one_operation(k3spec::Matrix<float> x) { x(0, 0) = std::fma(x(0, 1), x(0, 2), x(0, 3)); }
