// The DFlash reference cases in odd sizes.
#include <tests/parity/dflash.hpp>

using namespace k3spec;

TEST_CASE_TEMPLATE("reference: dflash, odd sizes", T, float, double) { test::dflash_cases<test::OddCases, T>(); }
