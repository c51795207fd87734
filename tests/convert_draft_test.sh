#!/usr/bin/env bash
# A draft in the layout that engines load: there and back bit for bit, and its logits in plain PyTorch. $1: the program,
# $2: train_draft.
program="$1"
train_draft="$2"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

train() {  # folder, arguments
  "$train_draft" --target "$tiny" --out "$dir/$1" --steps 2 --batch 2 --length 24 --eval-windows 2 --progress none \
    "${@:2}" >"$dir/log" 2>&1 || fail "train_draft: $(cat "$dir/log")"
}
python=
for candidate in python3 /usr/bin/python3; do
  "$candidate" -c 'import torch, numpy' 2>/dev/null && python="$candidate" && break
done

for version in 3 3.1; do
  train "v$version" --backbone deepseek_v3 --eagle3-version $version --aux-stream residual_mixture
  own="$dir/v$version/latest" engine="$dir/engine$version" back="$dir/back$version"
  expect 0 "engine layout" --draft "$own" --out "$engine" --probe "$dir/probe"
  expect 0 "k3spec layout" --draft "$engine" --out "$back" --layout k3spec
  expect 0 "engine layout" --draft "$back" --out "$dir/again$version"
  cmp "$engine/model.safetensors" "$dir/again$version/model.safetensors" || exit 1
  cmp "$engine/config.json" "$dir/again$version/config.json" || exit 1
  grep -q '"aux_stream": "residual_mixture"' "$back/config.json" || fail "the convention is lost: $(cat "$back/config.json")"
  if [[ -n "$python" ]]; then
    "$python" tests/reference/compare_export.py "$engine" "$dir/probe" || fail "PyTorch computes other logits"
    # It would see a difference: other weights, another position's phase.
    ! "$python" tests/reference/compare_export.py "$engine" "$dir/probe" --tolerance 1e-18 >"$dir/strict" ||
      fail "equal to 1e-18: nothing was compared: $(cat "$dir/strict")"
  fi
done
train k3
expect 1 "architectures: found a Kimi K3 draft, wanted one with DeepSeek-V3's block" --draft "$dir/k3/latest" --out "$dir/e"
expect 1 "architectures: found" --draft "$tiny" --out "$dir/e"
[[ ! -e "$dir/e" ]] || fail "a refused run left $dir/e"
if [[ -z "$python" ]]; then
  echo "python3 with torch and numpy is not there: the logits were not compared"
  exit 77
fi
