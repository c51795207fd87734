#!/usr/bin/env bash
# What the lists plant is code that a compiler takes: no expression that is a statement, no half of one.
# $1: the compiler; further arguments: its options.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$here/../.."
compiler="$1"
shift
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

"$compiler" -std=c++20 -I "$root" "$here/tool/plant.cpp" -o "$scratch/plant"
"$scratch/plant" plant "$here/list" "$root/include" "$scratch/include"
echo '#include <k3spec/cuda.hpp>' >"$scratch/all.cpp"  # and all.hpp with it; CUDA's own are the stand-in's
compile() {
  "$compiler" -std=c++20 -w -fsyntax-only -I "$scratch/include" -I "$root/tests/cuda_host/include" -I "$root" "$@" \
    "$scratch/all.cpp"
}
compile "$@"

# One that is none is seen.
file="$scratch/include/k3spec/core/range.hpp"
sed -i 's/return (above ? x > least/return if (above ? x > least/' "$file"
grep -q 'return if (above' "$file"
if compile "$@" 2>"$scratch/errors"; then
  echo "a statement for an expression was compiled"
  exit 1
fi
grep -q 'core/range.hpp' "$scratch/errors"
