#!/usr/bin/env bash
# What nvcc has compiled and linked: it trains on the host with the bits of another program, and on a card where one is.
# Arguments: train_draft by nvcc, one without it, random_target.
set -euo pipefail
program="$1" other="$2" random_target="$3"
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
"$random_target" --out "$dir/model" >/dev/null
train() {
  "$@" --target "$dir/model" --train README.md --heldout README.md --steps 2 --batch 2 --length 20 --eval-windows 2 \
    --layers 0,2,4 --progress none
}

train "$program" --out "$dir/nvcc" >/dev/null
train "$other" --out "$dir/other" >/dev/null
cmp "$dir/nvcc/latest/model.safetensors" "$dir/other/latest/model.safetensors"

if found="$(train "$program" --device cuda --out "$dir/card" 2>&1)"; then
  [[ "$found" == *"the draft on "* ]] || { echo "found $found, wanted the card's name" && exit 1; }
elif [[ "$found" != "train_draft: --device cuda: found "*", wanted a device that CUDA runs on" ]]; then
  echo "found $found, wanted a sentence of the driver's"
  exit 1
fi
