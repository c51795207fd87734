#!/usr/bin/env bash
# alone_test.sh <compiler>: alone.sh with planted headers. $1: the compiler.
set -euo pipefail
check="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/alone.sh"
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
house="$dir/include/k3spec"
mkdir -p "$house/backend/cuda" "$dir/tests/cuda_host/include"

put() { printf '#pragma once\n%b\n' "$2" >"$house/$1"; }
whole() {  # a house whose headers all stand alone
  put anchor.hpp '#include <vector>\ninline std::vector<int> numbers();\ninline std::vector<int> numbers() { return {1}; }'
  put behind.hpp '#include <k3spec/through.hpp>\ninline int one() { return numbers()[0]; }'
  put through.hpp '#  include <k3spec/anchor.hpp>'
  put beside.hpp 'struct Beside {};'
  put backend/cuda/there.hpp '#include <stand_in.h>'
  echo '#pragma once' >"$dir/tests/cuda_host/include/stand_in.h"
}
expect() {  # exit status, part of the output
  local status=0 found
  found="$("$check" "$dir/scratch" "$dir" "k3spec/anchor.hpp" "$compiler" -std=c++20 -Wall -Werror 2>&1)" || status=$?
  [[ $status -eq $1 && "$found" == *"$2"* ]] && return
  echo "found exit status $status and: $found"
  echo "wanted exit status $1 and: $2"
  exit 1
}
compiler="$1"

whole && expect 0 "5 headers, each alone"
expect 0 ""  # nothing changed
# What its own includes do not bring.
put beside.hpp 'struct Beside { std::vector<int> numbers; };' && expect 1 "not alone: k3spec/beside.hpp"
expect 1 "not alone: k3spec/beside.hpp"
put beside.hpp 'inline int two() { return one() + one(); }' && expect 1 "not alone: k3spec/beside.hpp"
whole && put behind.hpp '#include <k3spec/anchor.hpp>\ninline std::string text();' && expect 1 "not alone: k3spec/behind.hpp"
whole && put through.hpp '' && expect 1 "not alone: k3spec/behind.hpp"
# Twice, warnings, the anchor itself, CUDA.
whole && printf 'struct Beside {};\n' >"$house/beside.hpp" && expect 1 "not alone: k3spec/beside.hpp"
whole && put behind.hpp '#include <k3spec/anchor.hpp>\ninline int one() { int unused; return 1; }' && expect 1 "unused"
whole && put anchor.hpp 'inline std::vector<int> numbers() { return {1}; }' && expect 1 "k3spec/anchor.hpp"
whole && rm "$dir/tests/cuda_host/include/stand_in.h" && expect 1 "not alone: k3spec/backend/cuda/there.hpp"
whole && put beside.hpp '#include <stand_in.h>' && expect 1 "not alone: k3spec/beside.hpp"
whole && rm "$house/anchor.hpp" && expect 1 "no header: k3spec/anchor.hpp"
whole && expect 0 "5 headers, each alone"
