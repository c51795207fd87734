#!/usr/bin/env bash
# smoke_test.sh <bench_cuda on the stand-in>: each row of the table comes with finite figures, and what is no card is said so.
set -euo pipefail
program="$1"
fail() {
  echo "$1"
  exit 1
}

table="$("$program" --smoke)" || fail "--smoke: exit status $?: $table"
echo "$table"
for row in "copy, cudaMemcpyAsync" "copy, evaluate" "SiTU forward" "SiTU backward" "RMSNorm forward" "RMSNorm backward" \
           "embedding forward" "embedding backward" "sums of squares" "gradient norm" "AdamW step" "y = x Wt" \
           "d_x = d_y W" "d_W = d_yt x"; do
  [[ "$table" == *"| $row"* ]] || fail "no row: $row"
done
if grep -E '(^|[^a-z])-?(nan|inf)([^a-z]|$)' <<<"$table"; then fail "a figure is not finite"; fi

refuses() {  # <part of the sentence> <argument>...
  local wanted="$1" status=0 said
  shift
  said="$("$program" "$@" 2>&1 >/dev/null)" || status=$?
  [[ "$status" == 1 && "$said" == "bench_cuda: "*"$wanted"* && "$said" != *$'\n'* ]] ||
    fail "$*: exit status $status: $said"
}
refuses "CUDA: found" --smoke --device 99
refuses "--device: found x, wanted the number of a card" --device x
refuses "option: found --fast, wanted --device N or --smoke" --fast
