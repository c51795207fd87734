// expect: k3spec promises the same bits everywhere: compile without -funsafe-math-optimizations
// options: -funsafe-math-optimizations
// errors: 2
// lines: 14
// not: clang
#include <k3spec/core/error.hpp>

void twice(int n) { k3spec::require(n % 2 == 0, "n", "an odd number", "an even one"); }
