// expect: k3spec looks for NaN and infinity: compile without -ffast-math
// options: -ffinite-math-only
// errors: 2
// lines: 14
#include <k3spec/core/error.hpp>

void twice(int n) { k3spec::require(n % 2 == 0, "n", "an odd number", "an even one"); }
