#!/usr/bin/env bash
# Every option of EAGLE-3 trains: from train_draft's flags on the miniature's states, the simulated accept length on
# held-out text must rise by at least a fifth of a token. A draft of each form then decodes without changing a token.
# What each run wrote has its golden bits. $1: train_draft, $2: speculate, $3: golden_bits.
train_draft="$1"
speculate="$2"
golden_bits="$3"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

learn() {  # name, arguments
  local name="$1" lengths
  shift
  "$train_draft" --target "$tiny" --out "$dir/$name" --steps 60 --warmup 6 --batch 4 --length 64 --eval-windows 16 \
    --eval-every 1000 --progress none "$@" >"$dir/log" 2>&1 || fail "$name: $(cat "$dir/log")"
  lengths="$(sed -n 's/.*"heldout":{.*"accept_length":\([0-9.e+-]*\).*/\1/p' "$dir/$name/train.jsonl" | xargs)"
  echo "$name: simulated accept length $lengths"
  awk -v lengths="$lengths" 'BEGIN { n = split(lengths, x, " "); exit !(n == 2 && x[2] >= x[1] + 0.2) }' || exit 1
  "$golden_bits" "options: $name" "$dir/$name/latest/"{model,trainer}.safetensors || exit 1
}

learn plain
learn deepseek --backbone deepseek_v3
learn v3_1 --eagle3-version 3.1
learn deepseek_v3_1 --backbone deepseek_v3 --eagle3-version 3.1
learn lk_alpha --lk alpha --fc-init last_identity
learn lk_lambda --lk lambda --lk-kl-scale 0.9 --lk-kl-decay 2
learn fc_init --fc-init last_identity
learn packed --packing apart
learn deepseek_packed --backbone deepseek_v3 --packing apart
learn residual_mixture --aux-stream residual_mixture
learn layers_executed --layer-ids layers_executed --layers 2,4,5
learn muon --optimizer muon
# Another text's most frequent bytes.
"$train_draft" --target "$tiny" --out "$dir/other" --steps 1 --batch 1 --length 24 --eval-windows 1 --progress none \
  --train LICENSE >"$dir/log" 2>&1 || fail "other: $(cat "$dir/log")"
learn vocabulary --vocabulary-from "$dir/other/latest"

drafts=()
for name in plain deepseek v3_1 deepseek_v3_1 residual_mixture layers_executed; do
  drafts+=(--draft "$dir/$name/latest")
done
table="$("$speculate" --target "$tiny" "${drafts[@]}" --repeat 1 --prompts 4 --tokens 32)" || fail "$table"
[[ "$(grep -c '^eagle3 .* yes$' <<<"$table")" == 6 ]] || fail "$table"

# The numbering is a name for the same layers.
cmp "$dir/plain/latest/model.safetensors" "$dir/layers_executed/latest/model.safetensors" ||
  fail "layers 2, 4, 5 executed are not layers 1, 3, 4 counted from 0"
# Options that are none: the runs would be the same.
for name in lk_lambda fc_init packed residual_mixture muon vocabulary; do
  ! cmp -s "$dir/plain/latest/model.safetensors" "$dir/$name/latest/model.safetensors" || fail "$name changed nothing"
done
