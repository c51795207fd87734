#!/usr/bin/env bash
# same_bits_test.sh PROGRAM...: tests/same_bits.cpp built for one instruction set each; what they say of their trainings is
# the same. One that this processor cannot run is left out, with a sentence.
set -euo pipefail

wanted="" compared=0 sets=""
for program in "$@"; do
  status=0
  said="$("$program")" || status=$?
  built_for="${said%%$'\n'*}"
  case "$status" in
    0) ;;
    77) echo "this processor cannot run what was built for $built_for" && continue ;;
    *) echo "$program: ended with $status" && exit 1 ;;
  esac
  [[ "$built_for" == *portable* || "$sets" != *"$built_for"* ]] || { echo "two programs for $built_for" && exit 1; }
  sets="$sets$built_for"
  bits="${said#*$'\n'}"
  [[ "$(wc -l <<<"$bits")" == 2 ]] || { echo "$program: found '$bits', wanted two trainings" && exit 1; }
  wanted="${wanted:-$bits}"
  if [[ "$bits" != "$wanted" ]]; then
    printf '%s\nfound:\n%s\nwanted:\n%s\n' "$built_for" "$bits" "$wanted"
    exit 1
  fi
  echo "$built_for: $bits"
  compared=$((compared + 1))
done
((compared >= 2)) || { echo "found $compared programs that run, wanted two at least" && exit 1; }
