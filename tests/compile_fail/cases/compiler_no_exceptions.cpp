// expect: k3spec reports errors by exceptions: compile without -fno-exceptions
// options: -fno-exceptions
// errors: 2
// lines: 14
#include <k3spec/core/error.hpp>

void twice(int n) { k3spec::require(n % 2 == 0, "n", "an odd number", "an even one"); }
