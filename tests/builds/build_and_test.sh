#!/usr/bin/env bash
# build_and_test.sh <source> <build> "<target>;..." "<room>;..." <cmake option>...: builds the targets and the rooms' tests
# and runs these.
set -euo pipefail
source="$1" build="$2"
IFS=';' read -ra targets <<<"$3"
IFS=';' read -ra rooms <<<"$4"
shift 4

# Tests ask for impossible sizes: the sanitizer's allocator, too, must say no and not end the program.
export ASAN_OPTIONS="allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"

cmake -S "$source" -B "$build" "$@"
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" "${rooms[@]/#/test_}" -- -k 0
cd "$source"
for room in "${rooms[@]}"; do "$build/tests/test_$room"; done
