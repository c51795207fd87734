#!/usr/bin/env bash
# A cache that PyTorch writes is capture's: examples/dump_features.py, of a model that has capture's own states, comes to
# capture's bytes, and examples/convert_features.py, of files as SpecForge and EAGLE store them, to a draft's. $1: capture,
# $2: train_draft.
capture="$1" train_draft="$2"
program="$capture"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

python="$(python_with "torch, numpy")"
if [[ -z "$python" ]]; then
  echo "python3 with torch and numpy is not there: nothing was dumped"
  exit 77
fi
stand_in="tests/reference/stand_in_features.py"
refused() {  # what is said, command
  local wanted="$1" said
  shift
  said="$("$python" "$@" 2>&1)" && fail "$* was not refused: $said"
  [[ "$said" == *"$wanted"* && "$said" != *Traceback* ]] || fail "$*: found $said; wanted $wanted"
}

# Documents of 1 to 24 tokens, so that no window of 24 cuts one.
documents() {  # how many, seed
  awk -v count="$1" -v seed="$2" 'BEGIN {
    for (d = 0; d < count; ++d) {
      ids = mask = ""
      for (t = 0; t <= (d * 7 + seed) % 24; ++t) {
        ids = ids (t ? "," : "") (1 + (d * 37 + t * t * 11 + seed) % 250)
        mask = mask (t ? "," : "") (t % 5 ? 1 : 0)
      }
      print "{\"input_ids\":[" ids "],\"loss_mask\":[" mask "]}"
    }
  }'
}
documents 40 3 >"$dir/train.jsonl"
documents 12 9 >"$dir/heldout.jsonl"
data=(--target "$tiny" --train "$dir/train.jsonl" --heldout "$dir/heldout.jsonl" --length 24 --eval-windows 20)
train() {  # cache, output
  program="$train_draft"
  expect 0 "trained 4 of 4 steps" --features "$1" --draft eagle3 --layers 0,3,6 --ttt-steps 2 --batch 2 --eval-windows 4 \
    --steps 4 --out "$2"
  program="$capture"
}
windows=("--packing none" "--packing apart --shard-windows 7" "--packing apart --sampling packed")
for i in 0 1 2; do
  read -r -a flags <<<"${windows[i]}"
  expect 0 "features: " "${data[@]}" "${flags[@]}" --layers 0,3,6 --out "$dir/captured.$i"
  "$python" "$stand_in" again "$dir/captured.$i" "$dir/again.$i" || fail "dump_features.py fails: ${windows[i]}"
  diff -r -x .capture "$dir/captured.$i" "$dir/again.$i" || fail "other bytes: ${windows[i]}"
done

# From the shell, of a fingerprint of its own: the same draft.
train "$dir/captured.2" "$dir/of_capture"
"$python" - "$dir" <<'END'
import json, sys
config = json.load(open(f"{sys.argv[1]}/captured.2/features.json"))["target"]["config"]
json.dump(config, open(f"{sys.argv[1]}/config.json", "w"))
# Numbers of which Python and the library must have the same text: it is hashed.
config["odd"] = [1e14, 1e15, 1234567890123456.0, 1e16, 1e22, 1e23, 1e300, 1e-4, 1e-5, -0.0, 5e-324, 2**64 - 1, 2**64, -2**63 - 1]
json.dump(config, open(f"{sys.argv[1]}/odd.json", "w"))
END
dump=(examples/dump_features.py "$stand_in:make" --config "$dir/config.json" --layers 0,3,6 --length 24 --packing apart
  --sampling packed --eval-windows 20)
of=(--train "$dir/captured.2/training.safetensors" --heldout "$dir/captured.2/held_out.safetensors")
export STAND_IN="$dir/captured.2"
"$python" "${dump[@]}" "${of[@]}" --out "$dir/dumped" >"$dir/log" || fail "dump_features.py fails: $(cat "$dir/log")"
grep -q " $((8 + 4 + 4 * 128 * 4)) bytes per token" "$dir/log" || fail "sizes: $(cat "$dir/log")"
train "$dir/dumped" "$dir/of_dump"
cmp "$dir/of_capture/latest/model.safetensors" "$dir/of_dump/latest/model.safetensors" || fail "another draft"
"$python" "${dump[@]}" "${of[@]}" --config "$dir/odd.json" --out "$dir/odd" >"$dir/log" || fail "odd numbers: $(cat "$dir/log")"
train "$dir/odd" "$dir/of_odd"
"$python" "${dump[@]}" "${of[@]}" --dtype bfloat16 --out "$dir/narrow" >"$dir/log" || fail "--dtype bfloat16 fails"
expect 0 "features: " --target "$tiny" "${data[@]:2}" --packing apart --sampling packed --layers 0,3,6 --dtype bfloat16 --out "$dir/narrow.captured"
"$python" "$stand_in" same "$dir/narrow.captured" "$dir/narrow" || fail "other bfloat16"
"$python" "${dump[@]}" "${of[@]}" --dtype float8_e4m3fn --out "$dir/eight" >"$dir/log" || fail "--dtype float8_e4m3fn fails"
grep -q " $((8 + 4 + 4 * (128 + 4))) bytes per token" "$dir/log" || fail "sizes: $(cat "$dir/log")"
expect 0 "features: " --target "$tiny" "${data[@]:2}" --packing apart --sampling packed --layers 0,3,6 --dtype float8_e4m3fn --out "$dir/eight.captured"
"$python" "$stand_in" same "$dir/eight.captured" "$dir/eight" || fail "other float8_e4m3fn"
refused "$dir/dumped: found " "${dump[@]}" "${of[@]}" --out "$dir/dumped"
refused "--layers: found 8, wanted layers of a target that has 8" "${dump[@]}" "${of[@]}" --layers 0,3,8 --out "$dir/none"
refused "--layers: found -1, wanted layers of a target that has 8" "${dump[@]}" "${of[@]}" --layers -1,3 --out "$dir/none"
refused "module 'norm': found none of that name, wanted one of model," "${dump[@]}" "${of[@]}" --norm norm --out "$dir/none"
refused "nothing.npy" "${dump[@]}" "${of[@]}" --train "$dir/nothing.npy" --out "$dir/none"
refused "config: hidden_size: found 96, wanted 128, as the head has it" "${dump[@]}" "${of[@]}" --out "$dir/none" \
  --config <(sed 's/"hidden_size": 128/"hidden_size": 96/' "$dir/config.json")
[[ ! -e "$dir/none" ]] || fail "a refused dump left $dir/none"

# Stored by other trainers.
for origin in specforge eagle; do
  files="$("$python" "$stand_in" stored "$dir/captured.2" "$dir/$origin" "$origin" | tr '\n' ' ')"
  [[ "$files" == "40 52 " ]] || fail "stored: $files"
done
convert=(examples/convert_features.py "$dir/specforge" --from specforge --target "$tiny" --config "$dir/config.json"
  --heldout-files 12 --eval-windows 20)
"$python" "${convert[@]}" --layers 0,3,6 --out "$dir/converted" >"$dir/log" || fail "convert_features.py fails"
"$python" "$stand_in" same "$dir/captured.2" "$dir/converted" || fail "convert_features.py: other states"
train "$dir/converted" "$dir/of_converted"
cmp "$dir/of_capture/latest/model.safetensors" "$dir/of_converted/latest/model.safetensors" || fail "another draft"
"$python" "${convert[@]/specforge/eagle}" --draft dflash --layers 7 --out "$dir/of_eagle" >"$dir/log" || fail "--from eagle fails"
program="$train_draft"
# The drafts compiled in read three layers.
expect 2 "--layers: target layers: found 1, wanted 3" --features "$dir/of_eagle" --draft dflash --layers 7 --batch 2 \
  --steps 4 --out "$dir/of_eagle.draft"
program="$capture"
damage() {  # expression about the dict `one`; what is said
  rm -rf "$dir/damaged"
  cp -r "$dir/specforge" "$dir/damaged"
  "$python" -c "import sys, torch; path = sys.argv[1]; one = torch.load(path); $1; torch.save(one, path)" \
    "$dir/damaged/rows_4-8/data_5.ckpt"
  refused "$dir/damaged/rows_4-8/data_5.ckpt: $2" "${convert[0]}" "$dir/damaged" "${convert[@]:2}" --layers 0,3,6 --out "$dir/none"
  rm -rf "$dir/none"
}
damage 'del one["loss_mask"]' "loss_mask: found no such field, wanted a tensor"
damage 'one["aux_hidden_state"] = None' "aux_hidden_state: found no such field, wanted a tensor"
damage 'one["aux_hidden_state"] = one["aux_hidden_state"][..., :-1]' "aux_hidden_state: found [1, 15, 383], wanted [15, 384]"
damage 'one["hidden_state"] = one["hidden_state"][:, 1:]' "hidden_state: found [1, 14, 128], wanted [15, 128]"
damage 'one["hidden_state"][0, 2, 3] = float("nan")' "hidden_state: found numbers that are not finite, wanted finite ones"
damage 'one["input_ids"][4] = 260' "input_ids: 4: found 260, wanted 0 to 259"
damage 'one["loss_mask"][4] = 2' "loss_mask: found other numbers, wanted 0 or 1"
damage 'one = one["input_ids"]' "found Tensor, wanted a dict of tensors"
head -c 500 "$dir/specforge/rows_4-8/data_5.ckpt" >"$dir/cut.ckpt"
cp "$dir/cut.ckpt" "$dir/damaged/rows_4-8/data_5.ckpt"
refused "data_5.ckpt: found " "${convert[0]}" "$dir/damaged" "${convert[@]:2}" --layers 0,3,6 --out "$dir/none"
refused "--length: found 23, wanted 24 or more: conversations are not cut" "${convert[@]}" --layers 0,3,6 --length 23 --out "$dir/none"
refused "aux_hidden_state: found [1, 24, 384], wanted [24, 256]" "${convert[@]}" --layers 0,3 --out "$dir/none"

mkdir "$dir/speculators"
"$python" "${stand_in%/*}/stored_by_speculators.py" "$dir/captured.2" "$tiny" "$dir/config.json" "$dir/speculators" >"$dir/log" 2>&1 ||
  fail "--from speculators: $(tail -n 3 "$dir/log")"
