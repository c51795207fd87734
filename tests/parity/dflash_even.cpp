// The DFlash reference cases in even sizes.
#include <tests/parity/dflash.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference: dflash, even sizes", T, float, double) { test::dflash_cases<test::EvenCases, T>(); }
