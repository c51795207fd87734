#!/usr/bin/env bash
# contraction_test.sh <PTX of contraction.cu>: two roundings where two operations are written, one where std::fma is. PTX that
# says .rn is not contracted later.
set -euo pipefail
body() { sed -n "/^\.visible \.entry $1(/,/^}/p" "$ptx" | grep -oE '(mul|add|fma)(\.rn)?(\.f32)' | tr '\n' ' '; }
ptx="$1" two="$(body two_operations)" one="$(body one_operation)"
[[ "$two" == "mul.rn.f32 add.rn.f32 " ]] || { echo "two operations: found '$two', wanted mul.rn.f32 add.rn.f32"; exit 1; }
[[ "$one" == "fma.rn.f32 " ]] || { echo "std::fma: found '$one', wanted fma.rn.f32"; exit 1; }
