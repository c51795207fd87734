#!/usr/bin/env bash
# on_card_test.sh <device tests> <bench> <model>: the script for the first minutes on a card goes through where none is, and
# a part that fails is told, without keeping the others from running.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "$1"
  exit 1
}

said="$("$here/on_card.sh" --smoke "$@" "$scratch/out" 2>&1)" || fail "exit status $?: $said"
results="$(cat "$scratch/out/results.md")"
for part in tests memcheck racecheck synccheck initcheck bench model; do
  grep -qE "^\| $part \| [0-9]+ s \| passed \|$" <<<"$results" || fail "no part $part: $results"
done
grep -q '| AdamW step' <<<"$results" || fail "no table of the bench: $results"
cases="$(grep -oE 'test cases: +[0-9]+' "$scratch/out/racecheck.log" | grep -oE '[0-9]+$')"
((cases > 0)) || fail "the sanitizer's part ran no test"

# A bench that fails, tests that are not there.
printf '#!/bin/sh\necho broken; exit 3\n' >"$scratch/broken"
printf '#!/bin/sh\necho "filters: 3"\n' >"$scratch/passes"
chmod +x "$scratch/broken" "$scratch/passes"
status=0
said="$("$here/on_card.sh" --smoke "$scratch/passes" "$scratch/broken" "$scratch/passes" "$scratch/other" 2>&1)" || status=$?
[[ $status == 1 && "$said" == *'| bench | 0 s | failed, exit status 3 |'* && "$said" == *'| model | '*passed* ]] ||
  fail "a bench that fails: exit status $status: $said"
printf '#!/bin/sh\necho "filters: 0"\n' >"$scratch/passes"
status=0
said="$("$here/on_card.sh" --smoke "$scratch/passes" "$scratch/passes" "$scratch/passes" "$scratch/other" 2>&1)" || status=$?
[[ $status == 1 && "$said" == *"no test of $scratch/passes is called "* ]] || fail "no tests: exit status $status: $said"
status=0
said="$("$here/on_card.sh" 2>&1)" || status=$?
[[ $status == 2 && "$said" == usage* ]] || fail "no folder: exit status $status: $said"
