#!/usr/bin/env bash
# model_test.sh <bench_cuda_model>: card_step.md is what it writes, and its products are those that were counted by hand.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
program="$1"
fail() {
  echo "$1"
  exit 1
}

page="$("$program")" || fail "exit status $?"
diff <(echo "$page") "$here/../../card_step.md" || fail "card_step.md is not what $program writes: write it anew"
if grep -E '(^|[^a-z])-?(nan|inf)([^a-z]|$)' <<<"$page"; then fail "a figure is not finite"; fi

# Kernels of a draft of Kimi K3: prints a column of a row of its table.
kernel() { awk -F ' *[|] *' -v draft="$1" -v row="$2" -v column="$3" \
             '/gradients rounded$/ { here = index($0, draft " of Kimi K3,") == 1 } here && $2 == row { print $column }' <<<"$page"; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0.995 * b && a < 1.005 * b) }' || fail "$3: found $1, wanted $2"; }

# EAGLE-3, 8192 tokens, five steps. A layer reads 2 · 7168 columns: q_a and q_b, kv_a and kv_b, the output's gate, o; then
# the MLP's three, the head. The taps' projection and the teacher's head run once.
near "$(kernel EAGLE-3 product 4)" "$(awk 'BEGIN {
  h = 7168; heads = 96; T = 8192
  step = 2 * h * 1536 + 1536 * heads * 192 + 2 * h * 576 + 512 * heads * 256 + 2 * h * heads * 128 + heads * 128 * h
  step += 3 * h * 33792 + h * 32000
  print 2 * T * (5 * step + 3 * h * h + h * 32000) / 1e12 }')" "forward products"
# Each query with the keys up to its own, and with one key of each later step so far: two products, then seven.
pairs="$(awk 'BEGIN { T = 8192; print 5 * T * (T + 1) / 2 + T * (1 + 2 + 3 + 4) }')"
near "$(kernel EAGLE-3 'attention forward' 4)" "$(awk -v n="$pairs" 'BEGIN { print 2 * 96 * n * (192 + 128) / 1e12 }')" attention
near "$(kernel EAGLE-3 'attention backward' 4)" "$(awk -v n="$pairs" 'BEGIN { print 2 * 96 * n * (4 * 192 + 3 * 128) / 1e12 }')" \
     "attention, backward"
# AdamW: gradient, two moments and master are read, the last three and a bfloat16 parameter are written.
near "$(kernel EAGLE-3 'formula, rows of 32' 5)" "$(awk 'BEGIN {
  h = 7168; heads = 96
  n = 2 * h * 1536 + 1536 * heads * 192 + 2 * h * 576 + 512 * heads * 256 + 2 * h * heads * 128 + heads * 128 * h
  n += 3 * h * 33792 + h * 32000 + 3 * h * h
  print n * (4 * 4 + 3 * 4 + 2) / 1e9 }')" AdamW

refuses() {  # <sentence> <argument>...
  local wanted="$1" status=0 said
  shift
  said="$("$program" "$@" 2>&1 >/dev/null)" || status=$?
  [[ "$status" == 1 && "$said" == "bench_cuda_model: $wanted" ]] || fail "$*: exit status $status: $said"
}
refuses "option: found --fast, wanted --length N" --fast
refuses "--length: found 3x, wanted 64 to 9999999" --length 3x
