#!/usr/bin/env bash
# Installs missing packages, builds k3spec and runs all its tests. The last line is `N passed, N failed`: doctest's test
# cases plus the tests that are scripts. Extra arguments go to ctest, e.g. `tests/run.sh -R core`. What is tested is the
# build that packages have, for x86-64-v3, or one for what K3SPEC_MARCH in the environment names, in a folder of that name;
# a build folder that was configured before keeps its instruction set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build="${K3SPEC_BUILD_DIR:-build}${K3SPEC_MARCH:+/$K3SPEC_MARCH}"
log="$build/tests.log"

give_up() {
  echo "$1"
  echo "0 passed, 1 failed"
  exit 1
}

bash cmake/install_packages.sh || give_up "the packages could not be installed"
march=()
[[ -e "$build/CMakeCache.txt" ]] || march=(-D K3SPEC_MARCH="${K3SPEC_MARCH:-x86-64-v3}")
# -O1: that compiles fastest, no result hangs on it, and rooms of tests that are about optimised code say so.
cmake -S . -B "$build" -G Ninja "${march[@]}" -D K3SPEC_BUILD_TESTS=ON -D K3SPEC_BUILD_EXAMPLES=ON \
  -D K3SPEC_BENCH_PROGRAMS=OFF -D CMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" || give_up "configuring failed"

# Beside other programs, threads that wait must not take the cores that others need.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"

# What does build is still tested; a failed build is one failure more.
unbuilt=0
cmake --build "$build" --parallel "$(nproc)" -- -k 0 || unbuilt=1

# Tests that build take all cores by themselves; many others take one.
{ ctest --test-dir "$build" --parallel "$(nproc)" --verbose --no-tests=error "$@" </dev/null 2>&1 || true; } | tee "$log" |
  awk -v unbuilt="$unbuilt" -v built="$build/.ninja_log" -f tests/count.awk
