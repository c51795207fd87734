#!/usr/bin/env bash
# Features: what `capture` writes of the miniature trains the bits of a target that runs, also resumed in mid-epoch; a
# capture that is killed, at any of ten points, comes to the bytes of one that is not. $1: capture, $2: train_draft.
capture="$1" train_draft="$2"
program="$capture"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

head -c 1500 "$tiny/train.txt" >"$dir/train.txt"
head -c 300 "$tiny/heldout.txt" >"$dir/heldout.txt"
data=(--train "$dir/train.txt" --heldout "$dir/heldout.txt")
same() {  # two checkpoints
  for file in model.safetensors config.json trainer.safetensors trainer.json; do cmp "$1/$file" "$2/$file" || exit 1; done
}
expect_of() {  # program, and as expect
  program="${!1}"
  shift
  expect "$@"
}

for kind in eagle3 dflash dspark; do
  at="$dir/$kind"
  mkdir "$at"
  windows=(--target "$tiny" "${data[@]}" --draft $kind --length 24)
  expect_of capture 0 "62 windows of 24 tokens and 4 held out: " "${windows[@]}" --eval-windows 4 --out "$at/cache"
  # A word each for the token and the choice, and floats of the last state and of three tapped ones.
  [[ "$output" == *" $((4 + 4 + (1 + 3) * 128 * 4)) bytes per token"* ]] || fail "sizes: $output"
  small=(--batch 2 --eval-windows 4 --eval-every 3 --steps 6 --save-every 3)
  [[ $kind == eagle3 ]] && small+=(--ttt-steps 2) || small+=(--anchors 3)
  expect_of train_draft 0 "trained 6 of 6 steps" "${windows[@]}" --sampling shuffled "${small[@]}" --out "$at/running"
  expect 0 "trained 6 of 6 steps" --features "$at/cache" --draft $kind "${small[@]}" --out "$at/cached" --threads 1
  same "$at/running/latest" "$at/cached/latest"
  for from in running cached; do  # each goes on with what the other has saved
    cp -r "$at/$from" "$at/$from.resumed"
    rm -r "$at/$from.resumed/step-00000006"
    ln -sfn step-00000003 "$at/$from.resumed/latest"
  done
  expect 0 "trained 6 of 6 steps" --features "$at/cache" --out "$at/running.resumed" --resume --eval-windows 4 --eval-every 3
  expect 0 "trained 6 of 6 steps" --target "$tiny" "${data[@]}" --out "$at/cached.resumed" --resume --eval-windows 4 --eval-every 3
  same "$at/running/latest" "$at/running.resumed/latest"
  same "$at/running/latest" "$at/cached.resumed/latest"
done

# Half the bytes in bfloat16, a quarter and a scale in float8_e4m3fn, and a draft that is not the same, which is said; of
# floats nothing is said.
[[ "$output" != *rounded* ]] || fail "floats: $output"
narrower() {  # dtype, its name in the cache, bytes of a state
  local at="$dir/narrow.$1"
  local narrow=(--target "$tiny" "${data[@]}" --config k3_tiny::DSpark --length 24 --eval-windows 4 --dtype "$1")
  expect_of capture 0 " $((4 + 4 + (1 + 3) * $3)) bytes per token" "${narrow[@]}" --out "$at"
  expect_of capture 1 "states: dtype: found \"F32\", wanted \"$2\", as this capture would have it" "${narrow[@]}" --out "$dir/dspark/cache"
  small=(--draft dspark --batch 2 --eval-windows 4 --eval-every 3 --steps 6 --save-every 3 --anchors 3)
  expect_of train_draft 0 "features: states in $2, rounded: not the bits of a run beside the target" \
    --features "$at" "${small[@]}" --out "$at/draft"
  cmp -s "$dir/dspark/cached/step-00000006/model.safetensors" "$at/draft/latest/model.safetensors" && fail "$1: the same bits"
  return 0
}
narrower bfloat16 BF16 $((128 * 2))
narrower float8_e4m3fn F8_E4M3 $((128 + 4))

# What is another one is refused, before anything is loaded.
cache="$dir/dspark/cache" json="$dir/dspark/cache/features.json"
cached=(--features "$cache" --draft dspark --batch 2 --steps 1 --out "$dir/refused" --eval-windows 4)
expect 1 "$json: windows: length: found 24, wanted 12" "${cached[@]}" --length 12
expect 1 "$json: windows: packing: found none, wanted apart" "${cached[@]}" --packing apart
expect 1 "--sampling: found random with --features: pieces at any place were not captured" "${cached[@]}" --sampling random
expect 1 "$json: states: taps: found [" "${cached[@]}" --layers 1,2,3
expect 1 "$json: states: taps: found [" "${cached[@]}" --aux-stream residual_mixture
expect 1 "$json: tokens: training: found " "${cached[@]}" --train "$tiny/train.txt"
expect 1 "$json: windows: held_out: found 4, wanted 12 or more, which are looked at" "${cached[@]:0:10}" --eval-windows 100
expect 2 "--dtype: found bfloat16 with --features, wanted float: what capture writes is of a target in float" \
  "${cached[@]}" --dtype bfloat16
expect 2 "--weights: found it with --features, wanted a target that runs" "${cached[@]}" --weights float
cp -r "$tiny" "$dir/other"
printf '\x01' | dd of="$dir/other/model-00002-of-00002.safetensors" bs=1 seek=$((1 << 20)) conv=notrunc status=none
expect 1 "$json: target: fingerprint: found " "${cached[@]}" --target "$dir/other"
expect 0 "trained 1 of 1 steps" "${cached[@]}" --target "$tiny"
expect_of capture 2 "--sampling: found random: a run takes other pieces of the data in each epoch" \
  "${windows[@]}" --sampling random --out "$dir/refused"
expect 1 "$json: states: aux_stream: found \"running_sum\", wanted \"residual_mixture\", as this capture would have it" \
  "${windows[@]}" --aux-stream residual_mixture --eval-windows 4 --out "$cache"
expect 0 ": nothing is left to do" "${windows[@]}" --eval-windows 4 --out "$cache"

# Killed as soon as the folder has so many files.
pieces=("${windows[@]}" --eval-windows 4 --shard-windows 6 --threads 1)
expect 0 "features: " "${pieces[@]}" --out "$dir/whole"
killed=0
for files in 0 1 2 3 4 5 7 9 11 13; do
  "$capture" "${pieces[@]}" --out "$dir/killed.$files" >"$dir/log" 2>&1 &
  while kill -0 $! 2>"$dir/ignored" && [[ $(find "$dir/killed.$files" -type f 2>"$dir/ignored" | wc -l) -lt $files ]]; do :; done
  kill -9 $! 2>"$dir/ignored"
  wait $! 2>"$dir/ignored"
  [[ $? -ne 137 ]] || killed=$((killed + 1))
  [[ $files -eq 0 ]] || expect_of train_draft 1 "features.json" --features "$dir/killed.$files" --draft dspark --out "$dir/none" --steps 1
  expect_of capture 0 "features: " "${pieces[@]}" --out "$dir/killed.$files"
  diff -r "$dir/whole" "$dir/killed.$files" || fail "killed at $files files: other bytes"
done
# Interrupted: it ends behind a file, says so, and goes on.
"$capture" "${pieces[@]}" --out "$dir/stopped" >"$dir/log" 2>&1 &
while kill -0 $! 2>"$dir/ignored" && [[ $(find "$dir/stopped" -name 'states-*' 2>"$dir/ignored" | wc -l) -lt 2 ]]; do :; done
kill -INT $!
status=0
wait $! || status=$?
[[ $status -eq 130 ]] && grep -q "stopped by SIGINT: the same command goes on" "$dir/log" ||
  fail "interrupted: status $status and $(cat "$dir/log")"
expect_of capture 0 "features: " "${pieces[@]}" --out "$dir/stopped"
diff -r "$dir/whole" "$dir/stopped" || fail "interrupted: other bytes"
((killed >= 8)) || fail "only $killed of 10 captures were killed in time"
