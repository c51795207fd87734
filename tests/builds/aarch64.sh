#!/usr/bin/env bash
# aarch64.sh <source> <build> <qemu> <same_bits here> "<room>;..." <cmake option>...: builds for aarch64, runs the rooms'
# tests under qemu, and compares what a training's bits are there with what they are here.
set -euo pipefail
source="$1" build="$2" qemu="$3" here="$4"
IFS=';' read -ra rooms <<<"$5"
shift 5

cmake -S "$source" -B "$build" "$@"
cmake --build "$build" --parallel "$(nproc)" --target same_bits_one "${rooms[@]/#/test_}"

export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
cd "$source"
for room in "${rooms[@]}"; do "$qemu" "$build/tests/test_$room"; done
there="$build/same_bits_aarch64"
printf '#!/bin/sh\nexec "%s" "%s"\n' "$qemu" "$build/tests/same_bits_one" >"$there"
chmod +x "$there"
tests/same_bits_test.sh "$here" "$there"
