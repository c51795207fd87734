#!/usr/bin/env bash
# build_and_test.sh <source> <build> "<target>;..." "<room>;..." <cmake option>...: builds the targets and the rooms' tests
# and runs these.
set -euo pipefail
source="$1" build="$2"
IFS=';' read -ra targets <<<"$3"
IFS=';' read -ra rooms <<<"$4"
shift 4

cmake -S "$source" -B "$build" "$@"
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" "${rooms[@]/#/test_}"
for room in "${rooms[@]}"; do
  (cd "$source" && "$build/tests/test_$room")
done
