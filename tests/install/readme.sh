#!/usr/bin/env bash
# readme.sh <source> <scratch>: does what README.md says under "Using it", word for word, on a machine that has no more
# than the headers need, and what a machine with less is told.
set -euo pipefail
source="$1" scratch="$2"
rm -rf "$scratch"
mkdir -p "$scratch/k3spec" "$scratch/mine" "$scratch/folder/k3spec" "$scratch/fetched"
command -v make >/dev/null || export CMAKE_GENERATOR=Ninja
if command -v ccache >/dev/null; then CCACHE_DIR="$(ccache --get-config cache_dir)" && export CCACHE_DIR; fi
export HOME="$scratch/home"

fail() {
  echo "$1"
  exit 1
}
block() { awk -v section="$1" -v language="$2" -v number="$3" -f "$source/tests/install/blocks.awk" "$source/README.md"; }
run() { (cd "$1" && bash -euo pipefail -c "$2") >"$scratch/log" 2>&1 || fail "$2: $(cat "$scratch/log")"; }

# Libraries that this machine has can be hidden.
hide() {
  local name
  for name in "$@"; do echo "set(CMAKE_DISABLE_FIND_PACKAGE_$name TRUE)"; done >"$scratch/hidden.cmake"
}
export CMAKE_TOOLCHAIN_FILE="$scratch/hidden.cmake"
hide doctest CLI11 benchmark

# Installed. Tests, examples and benchmarks are there, what they need is not.
cp -r "$source/CMakeLists.txt" "$source/LICENSE" "$source/CHANGELOG.md" "$source/cmake" "$source/include" "$source/tests" \
  "$source/examples" "$source/bench" "$scratch/k3spec"
run "$scratch/k3spec" "$(block 'Using it' sh 1)"
for part in tests examples benchmarks; do
  grep -q "Not built: the $part" "$scratch/log" || fail "not a word on the $part: $(cat "$scratch/log")"
done
[[ ! -e "$scratch/k3spec/build/tests" ]] || fail "tests are built without doctest"
block 'Using it' cmake 1 >"$scratch/mine/CMakeLists.txt"
block 'A model is a type' cpp 1 >"$scratch/mine/main.cpp"
run "$scratch/mine" "$(block 'Using it' sh 2)"

# As a folder, and fetched by CMake (here from a folder).
echo '#include <k3spec/core/error.hpp>
int main() { return k3spec::Error("a", "b", "c").what() == nullptr; }' >"$scratch/main.cpp"
another_way() {  # <folder> <what stands instead of find_package> <cmake option>...
  local folder="$1" instead="$2"
  shift 2
  grep -qx 'find_package(k3spec .*)' "$scratch/mine/CMakeLists.txt" || fail "the README's program finds no package"
  while IFS= read -r line; do
    if [[ "$line" == find_package* ]]; then echo "$instead"; else echo "$line"; fi
  done <"$scratch/mine/CMakeLists.txt" >"$folder/CMakeLists.txt"
  cp "$scratch/main.cpp" "$folder"
  run "$folder" "cmake -S . -B build $* && cmake --build build && build/mine"
}
cp -r "$source/CMakeLists.txt" "$source/cmake" "$source/include" "$scratch/folder/k3spec"
grep -q '`add_subdirectory(k3spec)`' "$source/README.md" || fail "README.md does not say add_subdirectory(k3spec)"
another_way "$scratch/folder" 'add_subdirectory(k3spec)'
another_way "$scratch/fetched" "$(block 'Using it' cmake 2)" "-D FETCHCONTENT_SOURCE_DIR_K3SPEC=$source"

# What is missing is named, with its package, all in one sentence.
refused() {  # <part of the sentence> <source> <cmake option>...
  local wanted="$1" source="$2" found
  shift 2
  if found="$(cmake -S "$source" -B "$source/refused" "$@" 2>&1)"; then fail "accepted: $source $*"; fi
  found="$(tr -s '[:space:]' ' ' <<<"$found")"
  [[ "$found" == *"$wanted"* ]] || fail "wanted '$wanted', but: $found"
}
refused "K3SPEC_BUILD_TESTS is ON: missing libraries, with their Debian packages: doctest (doctest-dev)" \
  "$scratch/k3spec" -D K3SPEC_BUILD_TESTS=ON
refused "with their Debian packages: CLI11 (libcli11-dev)" "$scratch/k3spec" \
  -D K3SPEC_BUILD_TESTS=OFF -D K3SPEC_BUILD_EXAMPLES=ON
refused "packages: Google Benchmark (libbenchmark-dev), OpenBLAS (libopenblas-dev)" "$scratch/k3spec" \
  -D K3SPEC_BUILD_TESTS=OFF -D K3SPEC_BUILD_EXAMPLES=OFF -D K3SPEC_BUILD_BENCH=ON -D K3SPEC_OPENBLAS=OFF
hide Eigen3 RapidJSON
missing="missing libraries, with their Debian packages: Eigen 3.4 (libeigen3-dev), RapidJSON (rapidjson-dev)"
refused "k3spec: $missing" "$scratch/k3spec"
refused "$missing" "$scratch/mine" -D CMAKE_PREFIX_PATH="$HOME/.local"

# The packages that the README names are the ones that this project's own script installs.
packages="$(grep -o '`g++ make cmake [^`]*`' "$source/README.md" | tr -d '\`')"
for package in ${packages/ make/}; do
  grep -qw -e "$package" "$source/cmake/install_packages.sh" || fail "README.md names the package $package"
done
