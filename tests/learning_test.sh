#!/usr/bin/env bash
# What a short training reaches: each kind of draft must give at least 0.97 times the tokens per target forward that the
# plain PyTorch reference reached in as many steps. Batch, rates, losses and sizes are the reference's; other than there
# the block drafts are causal with a window of 8, and DSpark's Markov table begins wide and its context is layers -1, 3
# and 7 (bench/RESULTS.md has what is reached without). $1: train_draft, $2: speculate,
# $3: golden_bits.
train_draft="$1"
speculate="$2"
golden_bits="$3"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

learn() {  # kind, steps, what the reference reached, arguments
  local kind="$1" steps="$2" reference="$3" table found
  shift 3
  "$train_draft" --target "$tiny" --draft "$kind" --out "$dir/$kind" --steps "$steps" --eval-every 1000 --progress none \
    "$@" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }
  table="$("$speculate" --target "$tiny" --draft "$dir/$kind/latest" --repeat 1 --tokens 64)" || exit 1
  found="$(awk -v kind="$kind" '$1 == kind { print $5 }' <<<"$table")"
  echo "$kind: $found tokens per target forward after $steps steps, the reference $reference"
  awk -v found="$found" -v reference="$reference" 'BEGIN { exit !(found >= 0.97 * reference) }' ||
    { echo "$table" && exit 1; }
  "$golden_bits" "learning: $kind" "$dir/$kind/latest/"{model,trainer}.safetensors || exit 1
}

learn dflash 105 1.27 --gamma 4 --anchors 24
learn dspark 120 1.86 --gamma 4 --anchors 24
learn eagle3 118 2.03
