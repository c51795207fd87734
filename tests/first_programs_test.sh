#!/usr/bin/env bash
# The first programs of README.md: each is a file of examples/, as it is but for the comment at its head, and has no more
# than 25 lines of code. The bundled dump is what tests/reference/mlp_dump.py writes, where there is Python.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT

fail() {
  echo "$1"
  exit 1
}
for name in 01_train 02_check_dump 03_decode; do
  file="examples/$name.cpp"
  lines="$(grep -cvE '^[[:space:]]*(//.*)?$' "$file")"
  ((lines <= 25)) || fail "$file: found $lines lines of code, wanted at most 25"
  longest="$(awk '{ if (length > most) most = length } END { print most }' "$file")"
  ((longest <= 120)) || fail "$file: found a line of $longest characters, wanted at most 120"
  awk -v first="// $file" '/^```$/ { shown = 0 } shown; $0 == first { shown = 1 }' README.md >"$dir/shown"
  sed -n '/^#include/,$p' "$file" >"$dir/is"
  cmp -s "$dir/shown" "$dir/is" || fail "README.md does not show $file as it is: $(diff "$dir/shown" "$dir/is" || true)"
done

# math's functions may be another C library's.
if python3 tests/reference/mlp_dump.py "$dir/mlp.safetensors" 2>/dev/null; then
  found="$(stat -c %s "$dir/mlp.safetensors")" wanted="$(stat -c %s examples/data/mlp.safetensors)"
  [[ "$found" == "$wanted" ]] || fail "mlp_dump.py writes $found bytes, examples/data/mlp.safetensors has $wanted"
fi
