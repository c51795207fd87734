// expect: k3spec is C++20: compile with -std=c++20 or newer
// options: -std=c++17
// errors: 2
// lines: 14
#include <k3spec/core/error.hpp>

void twice(int n) { k3spec::require(n % 2 == 0, "n", "an odd number", "an even one"); }
