#pragma once
/// \file
/// For tests: numbers against another implementation's, and backward passes against differences. No other umbrella
/// brings it.
/// defines: nothing of its own

#include <k3spec/io.hpp>
#include <k3spec/layers.hpp>

// testing: dumps of another implementation, comparisons with them as a table, gradients against central differences
#include <k3spec/testing/compare.hpp>
#include <k3spec/testing/dump.hpp>
#include <k3spec/testing/gradients.hpp>
#include <k3spec/testing/name_map.hpp>
#include <k3spec/testing/near_names.hpp>
#include <k3spec/testing/report.hpp>
#include <k3spec/testing/tensor.hpp>
