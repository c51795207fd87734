#!/usr/bin/env bash
# What examples/train_draft does: trains, goes on where it was stopped with the same bits, refuses what does not fit.
# $1: the program, $2: plot_training.
program="$1" plot_training="$2"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

small=(--target "$tiny" --batch 2 --length 24 --ttt-steps 2 --eval-windows 2 --eval-every 3)
same() {  # two checkpoints
  for file in model.safetensors config.json trainer.safetensors trainer.json; do
    cmp "$1/$file" "$2/$file" || exit 1
  done
}

expect 0 "--ttt-steps" --help
[[ "$output" == *"SIGINT (130), SIGTERM (143) and SIGHUP (129)"* ]] || fail "--help does not say how signals end it"
expect 0 "trained 4 of 4 steps" "${small[@]}" --out "$dir/a" --steps 4 --save-every 2 --threads 1
set="$(built_for "$program")"
[[ -n "$set" && "$output" == *$'\n'"instruction set $set, 1 thread"$'\n'* ]] || fail "what it runs on, '$set': $output"
expect 0 "simulated accept length" "${small[@]}" --out "$dir/b" --steps 4 --threads 2 --weights float
[[ "$output" == *$'\n'"instruction set $set, 2 threads"$'\n'* ]] || fail "what it runs on, '$set': $output"
same "$dir/a/latest" "$dir/b/latest"

# As if it had stopped after the second step, with the log further on.
cp -r "$dir/a" "$dir/c"
rm -r "$dir/c/step-00000004"
ln -sfn step-00000002 "$dir/c/latest"
expect 0 "trained 4 of 4 steps" "${small[@]}" --out "$dir/c" --resume
same "$dir/a/latest" "$dir/c/latest"
timeless() { sed 's/,"seconds":[^}]*//' "$1/train.jsonl"; }
diff <(timeless "$dir/a") <(timeless "$dir/c") || fail "the resumed run's log differs"
expect 0 "trained 4 of 4 steps: nothing is left to do" "${small[@]}" --out "$dir/c" --resume
same "$dir/a/latest" "$dir/c/latest"
expect 1 "--minutes: found 1 for a run that is fixed to 4 steps, wanted --resume without it" \
  "${small[@]}" --out "$dir/c" --resume --minutes 1
expect 1 "--steps: found 3 for a run that has made 4 steps, wanted as many or more" \
  "${small[@]}" --out "$dir/c" --resume --steps 3
expect 0 "trained 4 of 4 steps: nothing is left to do" "${small[@]}" --out "$dir/c" --resume --steps 4
expect 0 "trained 6 of 6 steps" "${small[@]}" --out "$dir/c" --resume --steps 6
[[ "$output" == *"6 steps instead of 4: after step 4 the rate is "* ]] || fail "nothing is said of the rate: $output"
grep -q '"total_steps": 6' "$dir/c/latest/trainer.json" || fail "the run does not have its new number of steps"

# Several sets are looked at; the first one decides, and alone is what a resumed run must have again.
head -c 2000 "$tiny/train.txt" >"$dir/seen.txt"
sets=("${small[@]}" --heldout "first=$tiny/heldout.txt" --heldout "$dir/seen.txt")
expect 0 "trained 4 of 4 steps" "${sets[@]}" --out "$dir/sets" --steps 4 --save-every 2 --progress lines
[[ "$output" == *"step 3: held-out first loss "*"step 3: held-out seen.txt loss "* ]] || fail "a set is not noted: $output"
same "$dir/a/latest" "$dir/sets/latest"
looks() { grep -o '"heldout":{.*' "$1/train.jsonl"; }
diff <(looks "$dir/a") <(looks "$dir/sets" | sed 's/,"heldout_name":"first","heldout_sets".*/}/') || fail "the first set is looked at otherwise"
expect 0 "trained 4 of 4 steps" "${small[@]}" --out "$dir/seen" --steps 4 --save-every 2 --heldout "$dir/seen.txt"
set_of() { sed -n 's/.*"heldout_sets":{"seen.txt":{\([^}]*\)}}}$/\1/p' "$1/train.jsonl"; }
diff <(looks "$dir/seen" | sed 's/^"heldout":{\(.*\)}}$/\1/') <(set_of "$dir/sets") || fail "the second set is looked at otherwise"
# The report has the same of both, the first one's as the run's own.
"$plot_training" "r=$dir/sets/train.jsonl" --out "$dir/sets.html" >/dev/null || fail "no report of several sets"
last() { looks "$1" | tail -n 1 | sed "s/.*\"$2\":\([^,}]*\).*/\1/" | xargs printf "%.$3f"; }
reported() { grep -qF "$1" "$dir/sets.html" || fail "the report lacks $1: $(cat "$dir/sets.html")"; }
reported "<th scope=\"row\">r, seen.txt</th><td>$(last "$dir/seen" loss 4)</td><td>$(last "$dir/seen" accept_length 3)</td>"
reported "<th scope=\"row\">Held-out loss, last</th><td>$(last "$dir/a" loss 4)</td>"
[[ "$(grep -o 'scope="row">r, ' "$dir/sets.html" | wc -l)" == 1 ]] || fail "other sets: $(cat "$dir/sets.html")"
expect 2 "--heldout: found it several times with --features, wanted the one that was captured" --features "$dir/none" \
  --heldout "$dir/seen.txt" --heldout "$tiny/heldout.txt" --out "$dir/e" --steps 1
expect 2 "--heldout: found two sets called 'seen.txt', wanted NAME=FILE with a name of its own" \
  "${small[@]}" --heldout "$dir/seen.txt" --heldout "seen.txt=$tiny/heldout.txt" --out "$dir/e" --steps 1
# A file that is called NAME=FILE as a whole is that file.
cp "$dir/seen.txt" "$dir/first=heldout.txt" && ln -s "$(realpath "$tiny/heldout.txt")" "$dir/heldout.txt"
(
  program="$(realpath "$program")" target="$(realpath "$tiny")"
  cd "$dir" || exit 1
  for at in whole apart; do
    expect 0 "trained 1 of 1 steps" --target "$target" "${small[@]:2}" --steps 1 --heldout first=heldout.txt --out "$dir/called.$at"
    rm -f first=heldout.txt
  done
) || exit 1
! cmp -s <(looks "$dir/called.whole") <(looks "$dir/called.apart") || fail "NAME=FILE is not the file that is called so"
for given in "=$dir/seen.txt" "name="; do
  expect 2 "--heldout: found '$given', wanted NAME=FILE" "${small[@]}" --heldout "$given" --out "$dir/e" --steps 1
done
expect 1 "--log: found $dir/seen.txt, which is also --heldout" "${sets[@]}" --out "$dir/e" --steps 1 --log "$dir/seen.txt"
printf 'short' >"$dir/short.txt"
expect 1 "short.txt: found 5 bytes, wanted " "${small[@]}" --heldout "$dir/seen.txt" --heldout "$dir/short.txt" \
  --out "$dir/e" --steps 1

# Between its beginning and its end a run need not look or save.
expect 0 "trained 4 of 4 steps" "${small[@]:0:8}" --eval-windows 2 --out "$dir/unseen" --steps 4 --eval-every 0 --save-every 0
[[ "$(grep -c '"heldout"' "$dir/unseen/train.jsonl")" == 2 && "$(echo "$dir"/unseen/step-*)" == "$dir/unseen/step-00000004" ]] ||
  fail "looks and checkpoints on the way: $(ls "$dir/unseen"; cat "$dir/unseen/train.jsonl")"

# A run may end when it gets no better, after the same step wherever it was stopped; the best checkpoint stays.
stale=("${small[@]:0:8}" --eval-windows 2 --eval-every 1 --save-every 2 --keep 1 --early-stop 3)
expect 0 "trained 3 of 9 steps in " "${stale[@]}" --out "$dir/stale" --steps 9 --lr 0
[[ "$output" == *": no look was better any more"*"best checkpoint: $dir/stale/best, simulated accept length "* ]] ||
  fail "nothing is said of the end: $output"
[[ "$(readlink "$dir/stale/best")" == step-00000002 && "$(readlink "$dir/stale/latest")" == step-00000003 ]] ||
  fail "the first of equals is not the best: $(ls -l "$dir/stale")"
cp -r "$dir/stale" "$dir/stale.resumed"
ln -sfn step-00000002 "$dir/stale.resumed/latest" && ln -sfn step-00000003 "$dir/stale.resumed/best"
expect 0 "trained 3 of 9 steps in " "${stale[@]}" --out "$dir/stale.resumed" --resume
same "$dir/stale/latest" "$dir/stale.resumed/latest"
[[ "$(readlink "$dir/stale.resumed/best")" == step-00000002 ]] || fail "another checkpoint is the best when resumed"
expect 0 "trained 3 of 9 steps, 3 looks without a better one: nothing is left to do" "${stale[@]}" --out "$dir/stale" --resume
expect 0 "trained 4 of 9 steps in " "${stale[@]:0:16}" --out "$dir/stale" --resume --early-stop 4
# Where the warmup's steps are measured, it ends first: the number of steps is not known before.
expect 0 "trained 6 of " "${small[@]:0:8}" --eval-windows 2 --eval-every 1 --early-stop 1 --lr 0 --warmup 6 --minutes 1 \
  --out "$dir/stale.timed"
[[ "$output" == *": no look was better any more"* ]] || fail "nothing is said of the end: $output"
# So with lengths that rise and fall, from any checkpoint: the same end, best and log.
wavy=("${stale[@]:0:14}" --keep 100)
expect 0 "trained " "${wavy[@]}" --early-stop 4 --out "$dir/wavy" --steps 40 --lr 0.05
best="$(readlink "$dir/wavy/best")" end="$(readlink "$dir/wavy/latest")"
[[ "$output" == *": no look was better any more"* && $best != "$end" && $best != step-00000001 ]] ||
  fail "best $best, end $end: $(ls "$dir/wavy") $output"
linked() { rm -rf "$dir/wavy.resumed" && cp -r "$dir/wavy" "$dir/wavy.resumed"; }
for at in "$dir"/wavy/step-*; do
  [[ "${at##*/}" != "$end" ]] || continue
  linked && ln -sfn "${at##*/}" "$dir/wavy.resumed/latest"
  expect 0 ": no look was better any more" "${wavy[@]}" --early-stop 4 --out "$dir/wavy.resumed" --resume
  same "$dir/wavy/latest" "$dir/wavy.resumed/latest"
  same "$dir/wavy/best" "$dir/wavy.resumed/best"
  diff <(timeless "$dir/wavy") <(timeless "$dir/wavy.resumed") || fail "from ${at##*/} the log is another"
done
# It is told when the link to the best is gone, or what it named, or that is damaged.
longer=("${wavy[@]}" --early-stop 5 --out "$dir/wavy.resumed" --resume)
linked && rm "$dir/wavy.resumed/best"
expect 0 "note: $dir/wavy.resumed/best: led to nothing, leads to $best now" "${longer[@]}"
linked && rm -r "$dir/wavy.resumed/$best"
expect 0 "note: $dir/wavy.resumed/best: led to $best, leads to step-" "${longer[@]}"
linked && sed -i 's/"accept_length": .*/"accept_length": 0.5,/' "$dir/wavy.resumed/$best/trainer.json"
expect 0 "note: $dir/wavy.resumed/best: led to $best, leads to step-" "${longer[@]}"
[[ "$output" == *"note: $dir/wavy.resumed/$best/trainer.json: heldout: accept_length: found 0.5, wanted a number of"* ]] ||
  fail "a damaged checkpoint is not told: $output"
linked && rm "$dir/wavy.resumed/best" && echo mine >"$dir/wavy.resumed/best"
expect 1 "$dir/wavy.resumed/best: found something else than a link, wanted a link to the best checkpoint" "${longer[@]}"
[[ "$(cat "$dir/wavy.resumed/best")" == mine ]] || fail "a file of somebody's is gone"
# A checkpoint from before there were looks in it goes on.
sed -i '/"heldout": {/,/}/d' "$dir/stale.resumed/latest/trainer.json"
expect 0 "trained 7 of 9 steps in " "${stale[@]}" --out "$dir/stale.resumed" --resume
expect 2 "--early-stop: found it with --eval-every 0, wanted looks on the way" \
  "${small[@]:0:8}" --eval-every 0 --early-stop 2 --out "$dir/e" --steps 1
expect 1 "--log: found $dir/e/best, which is the checkpoints' own" "${small[@]}" --out "$dir/e" --steps 1 --log "$dir/e/best"

# The other kinds go on, too, and keep their kind.
blocks=(--target "$tiny" --batch 2 --length 24 --anchors 3 --eval-windows 2 --eval-every 3)
for kind in dflash dspark; do
  expect 0 "trained 4 of 4 steps" "${blocks[@]}" --draft $kind --out "$dir/$kind" --steps 4 --save-every 2
  cp -r "$dir/$kind" "$dir/$kind.resumed"
  ln -sfn step-00000002 "$dir/$kind.resumed/latest"
  expect 0 "trained 4 of 4 steps" "${blocks[@]}" --out "$dir/$kind.resumed" --resume --threads 1
  same "$dir/$kind/latest" "$dir/$kind.resumed/latest"
done
# In bfloat16, with masters in float, which a resumed run goes on with; as long as the run is the same, with the same bits.
halves() { grep -ao '"dtype":"[A-Z0-9]*"' "$1" | sort | uniq -c | tr -s ' \n' ' '; }  # how many tensors are of which type
for kind in eagle3 dflash dspark; do
  way=("${blocks[@]}")
  [[ $kind != eagle3 ]] || way=("${small[@]}")
  expect 0 "trained 4 of 4 steps" "${way[@]}" --draft $kind --dtype bfloat16 --out "$dir/half.$kind" --steps 4 --save-every 2
  cp -r "$dir/half.$kind" "$dir/half.resumed"
  ln -sfn step-00000002 "$dir/half.resumed/latest"
  expect 0 "trained 4 of 4 steps" "${way[@]}" --out "$dir/half.resumed" --resume --threads 1
  same "$dir/half.$kind/latest" "$dir/half.resumed/latest"
  rm -r "$dir/half.resumed"
  types="$(halves "$dir/half.$kind/latest/model.safetensors")"
  [[ "$types" == *'"BF16" '* && "$types" != *'"F32"'* ]] || fail "found $types in a draft of bfloat16"
  grep -aq '"F32"' "$dir/half.$kind/latest/trainer.safetensors" || fail "no masters in float"
  grep -q '"dtype": "bfloat16"' "$dir/half.$kind/latest/config.json" || fail "$(cat "$dir/half.$kind/latest/config.json")"
done
# Muon moves such masters, too.
expect 0 "trained 4 of 4 steps" "${small[@]}" --optimizer muon --dtype bfloat16 --out "$dir/half.muon" --steps 4 --save-every 2
cp -r "$dir/half.muon" "$dir/half.resumed" && ln -sfn step-00000002 "$dir/half.resumed/latest"
expect 0 "trained 4 of 4 steps" "${small[@]}" --out "$dir/half.resumed" --resume --threads 1
same "$dir/half.muon/latest" "$dir/half.resumed/latest"
! cmp -s "$dir/half.muon/latest/model.safetensors" "$dir/half.eagle3/latest/model.safetensors" || fail "Muon is AdamW"
rm -r "$dir/half.resumed"
# With an average the run moves as without, and its draft is the average: measured, and what a new run begins with.
for kind in eagle3 dflash dspark; do
  way=("${blocks[@]}" --draft $kind) type=float
  [[ $kind != eagle3 ]] || way=("${small[@]}")
  [[ $kind != dspark ]] || type=bfloat16
  with=("${way[@]}" --dtype $type --accumulate 2 --steps 4 --save-every 2 --lr 0.05)
  expect 0 "trained 4 of 4 steps" "${with[@]}" --out "$dir/plain.$kind"
  expect 0 "ema 0.999: held-out text is measured with averaged weights, which are a checkpoint's draft" \
    "${with[@]}" --ema 0.999 --out "$dir/ema.$kind"
  steps_of() { timeless "$1" | grep -v heldout; }
  diff <(steps_of "$dir/plain.$kind") <(steps_of "$dir/ema.$kind") || fail "$kind: an average moves the run"
  [[ "$(grep -c '"heldout":{.*},"ema":0.999}$' "$dir/ema.$kind/train.jsonl")" == 3 ]] || fail "$(cat "$dir/ema.$kind/train.jsonl")"
  ! cmp -s "$dir/plain.$kind/latest/model.safetensors" "$dir/ema.$kind/latest/model.safetensors" || fail "$kind: no average"
  cp -r "$dir/ema.$kind" "$dir/ema.resumed" && ln -sfn step-00000002 "$dir/ema.resumed/latest"
  expect 0 "trained 4 of 4 steps" "${way[@]}" --out "$dir/ema.resumed" --resume --threads 1
  same "$dir/ema.$kind/latest" "$dir/ema.resumed/latest"
  diff <(timeless "$dir/ema.$kind") <(timeless "$dir/ema.resumed") || fail "$kind: the resumed run's log differs"
  rm -r "$dir/ema.resumed"
  expect 0 "trained 1 of 1 steps" "${way[@]}" --init-from "$dir/ema.$kind" --dtype $type --out "$dir/ema.begun" --steps 1
  diff <(looks "$dir/ema.begun" | head -n 1) <(looks "$dir/ema.$kind" | tail -n 1 | sed 's/,"ema":0.999//') ||
    fail "$kind: a checkpoint's draft is not what was measured"
  rm -r "$dir/ema.begun"
done
expect 1 "--ema: found 0.9, wanted 0.999, the resumed run's own" "${small[@]}" --out "$dir/ema.eagle3" --resume --ema 0.9
expect 1 "--ema: found 0.9, wanted null, the resumed run's own" "${small[@]}" --out "$dir/plain.eagle3" --resume --ema 0.9
# A run from before there was an average goes on.
sed -i '/"ema": null,/d' "$dir/plain.eagle3/latest/trainer.json"
expect 0 "trained 5 of 5 steps" "${small[@]}" --out "$dir/plain.eagle3" --resume --steps 5
expect 1 "--dtype: found float, wanted bfloat16, the resumed run's own" \
  "${blocks[@]}" --out "$dir/half.dspark" --resume --dtype float
expect 1 "--dtype: found bfloat16, wanted float, the resumed run's own" \
  "${blocks[@]}" --out "$dir/dspark" --resume --dtype bfloat16
# From one type to the other: what was float is rounded, what was bfloat16 stays what it was.
expect 0 "trained 1 of 1 steps" "${blocks[@]}" --init-from "$dir/dspark" --dtype bfloat16 --out "$dir/narrowed" --steps 1
expect 0 "trained 1 of 1 steps" "${blocks[@]}" --init-from "$dir/half.dspark" --out "$dir/widened" --steps 1
grep -q '"dtype": "float32"' "$dir/widened/latest/config.json" || fail "$(cat "$dir/widened/latest/config.json")"
cp -r "$dir/dspark" "$dir/wide_run"
sed -i 's/"dtype": "float32"/"dtype": "float64"/' "$dir/wide_run/latest/config.json"
expect 1 "config.json: dtype: found float64, wanted one of those compiled in: float, bfloat16" \
  "${blocks[@]}" --out "$dir/wide_run" --resume
rm -r "$dir/wide_run" "$dir/narrowed" "$dir/widened" "$dir"/half.*
expect 1 "--draft: found dflash, wanted dspark, the resumed run's own" \
  "${blocks[@]}" --out "$dir/dspark" --resume --draft dflash
expect 2 "--layers: found it with --resume" "${blocks[@]}" --out "$dir/dspark" --resume --layers 1,2,3
# Tensors may stay as they are, bit for bit, and whether the run was stopped is not seen; the others learn.
tensor() {  # checkpoint, name: its bytes
  local file="$1/model.safetensors" length header begin end
  length=$(od -An -t u8 -N 8 "$file" | tr -d ' ')
  header="$(head -c $((8 + length)) "$file" | tail -c "$length" | tr -d ' ')"
  [[ "$header" == *"\"$2\":{"* ]] || fail "$1 has no $2: $header"
  header="${header#*\"$2\":\{}"
  header="${header#*\"data_offsets\":\[}"
  begin="${header%%,*}" end="${header#*,}"
  tail -c +$((9 + length + begin)) "$file" | head -c $((${end%%]*} - begin)) | sha256sum
}
for kind in eagle3 dflash dspark; do
  with=("${blocks[@]}" --draft $kind) layer=layers.0 norm=norm.weight
  [[ $kind != eagle3 ]] || with=("${small[@]}") layer=model.layers.0 norm=model.norm.weight
  for optimizer in adamw muon; do
    at="$dir/frozen.$kind.$optimizer" freeze=(--freeze '*fc.weigh?' --freeze "$layer.mlp.*")
    decays=("${with[@]}" --optimizer $optimizer --steps 4 --weight-decay 0.5 --save-every 2 "${freeze[@]}")
    expect 0 "trained 4 of 4 steps" "${decays[@]}" --out "$at"
    expect 0 "trained 4 of 4 steps" "${decays[@]}" --out "$at.still" --lr 0
    for name in "${norm%norm.weight}fc.weight" $layer.mlp.{gate,up,down}_proj.weight; do
      [[ "$(tensor "$at/latest" $name)" == "$(tensor "$at.still/latest" $name)" ]] || fail "$at: $name has moved"
    done
    for name in $norm $layer.self_attn.o_proj.weight; do
      moved="$(tensor "$at/latest" $name)"
      [[ "$moved" =~ ^[0-9a-f]{64}\ +-$ ]] || fail "$moved"
      [[ "$moved" != "$(tensor "$at.still/latest" $name)" ]] || fail "$at: $name has not moved"
    done
  done
  cp -r "$at" "$at.resumed" && ln -sfn step-00000002 "$at.resumed/latest"
  expect 0 "trained 4 of 4 steps" "${with[@]}" --out "$at.resumed" --resume "${freeze[@]}"
  same "$at/latest" "$at.resumed/latest"
  expect 1 "--freeze: found [\"*fc.weigh?\"], wanted [\"*fc.weigh?\",\"$layer.mlp.*\"], the resumed run's own" \
    "${with[@]}" --out "$at" --resume "${freeze[@]:0:2}"
done
expect 1 "--freeze: found [\"fc.*\"], wanted [], the resumed run's own" "${small[@]}" --out "$dir/a" --resume --freeze 'fc.*'
# So do EAGLE-3's options, which a resumed run takes from its checkpoint.
options=(--backbone deepseek_v3 --eagle3-version 3.1 --lk lambda --fc-init last_identity --packing apart
         --aux-stream residual_mixture --layer-ids layers_executed --layers 2,4,6 --accumulate 2)
expect 0 "target layers [2,4,6]" "${small[@]}" "${options[@]}" --out "$dir/o" --steps 4 --save-every 2
[[ "$output" == *", 384 tokens"* ]] || fail "not 4 steps of 2 batches of 2 windows of 24 tokens: $output"
cp -r "$dir/o" "$dir/o.resumed"
ln -sfn step-00000002 "$dir/o.resumed/latest"
expect 0 "trained 4 of 4 steps" "${small[@]}" --out "$dir/o.resumed" --resume --threads 1
same "$dir/o/latest" "$dir/o.resumed/latest"
expect 1 "--backbone: found kimi_k3, wanted deepseek_v3, the resumed run's own" \
  "${small[@]}" --out "$dir/o" --resume --backbone kimi_k3
expect 1 "--accumulate: found 3, wanted 2, the resumed run's own" "${small[@]}" --out "$dir/o" --resume --accumulate 3
expect 1 "--eagle3-version: found 3, wanted 3.1, the resumed run's own" \
  "${small[@]}" --out "$dir/o" --resume --eagle3-version 3
expect 1 '--lk: found "alpha", wanted "lambda", the resumed run'"'"'s own' "${small[@]}" --out "$dir/o" --resume --lk alpha
expect 2 "--aux-stream: found it with --resume" "${small[@]}" --out "$dir/o" --resume --aux-stream running_sum
expect 2 "--backbone: found it with --draft dflash, wanted --draft eagle3" \
  "${blocks[@]}" --draft dflash --backbone deepseek_v3 --out "$dir/e" --steps 1
expect 2 "--lk: found it with --draft dspark, wanted --draft eagle3" \
  "${blocks[@]}" --draft dspark --lk alpha --out "$dir/e" --steps 1
expect 2 "--lk-kl-scale: found 1.5, wanted 0 to 1" "${small[@]}" --out "$dir/e" --steps 1 --lk lambda --lk-kl-scale 1.5
expect 2 "--lk-kl-decay: found it with --lk alpha, wanted --lk lambda" \
  "${small[@]}" --out "$dir/e" --steps 1 --lk alpha --lk-kl-decay 1
expect 2 "--packing: found through_target" "${small[@]}" --out "$dir/e" --steps 1 --packing through_target
expect 2 "--tensor-parallel: found 2, wanted 1: it is not implemented" "${small[@]}" --out "$dir/e" --steps 1 --tensor-parallel 2
expect 2 "--context-parallel: found 2, wanted 1: it is not implemented" "${small[@]}" --out "$dir/e" --steps 1 --context-parallel 2
expect 2 "--pipeline-parallel: found 2, wanted 1: it is not implemented" "${small[@]}" --out "$dir/e" --steps 1 --pipeline-parallel 2
expect 2 "--parallel-drafting: found true" "${small[@]}" --out "$dir/e" --steps 1 --parallel-drafting
expect 2 "--expert-parallel: found 3" "${small[@]}" --out "$dir/e" --steps 1 --expert-parallel 3
expect 2 "--expert-parallel: found 4, wanted 1" "${small[@]}" --out "$dir/e" --steps 1 --expert-parallel 4

expect 0 "target layers [0,4,8]" "${blocks[@]}" --draft dspark --packing apart --aux-stream residual_mixture \
  --layer-ids layers_executed --layers 0,4,8 --out "$dir/packed" --steps 2
expect 2 "--layers: target layer id: found -1, wanted 0 to 8, counted as layers_executed" \
  "${blocks[@]}" --draft dflash --layer-ids layers_executed --layers -1,2,7 --out "$dir/e" --steps 1
expect 0 "target layers [-1,2,7]" "${blocks[@]}" --draft dflash --layers -1,2,7 --variable-prefix --gamma inf \
  --out "$dir/prefix" --steps 2
grep -q '"accept_rate_4":' "$dir/dspark/train.jsonl" || fail "DSpark's log lacks accept rates"
# A look's acceptance of each depth, and DSpark's calibration: counts of bins, mean confidence and accuracy.
number='[-+.e0-9]*'
looks_like() {  # run, what its looks have
  [[ "$(grep -c '"heldout"' "$dir/$1/train.jsonl")" == "$(grep '"heldout"' "$dir/$1/train.jsonl" | grep -c "$2")" ]] ||
    fail "a look without $2: $(grep '"heldout"' "$dir/$1/train.jsonl")"
}
looks_like a "\"acceptance\":\[$number,$number\]}}"
looks_like dflash "\"acceptance\":\[$number\(,$number\)\{6\}\]}}"
looks_like dspark "\"acceptance\":\[$number\(,$number\)\{4\}\],\"calibration\":{\"bins\":\[{\"accuracy\":$number,\"confidence\":$number,\"count\":[1-9]"
looks_like dspark "],\"ece\":$number}}}"
expect 2 "--ttt-steps: found it with --draft dflash, wanted --draft eagle3" \
  "${blocks[@]}" --draft dflash --ttt-steps 3 --out "$dir/e" --steps 1
expect 2 "--anchors: found it with --draft eagle3, wanted --draft dflash or dspark" "${blocks[@]}" --out "$dir/e" --steps 1
expect 2 "--variable-prefix: found it with --draft dspark, wanted --draft dflash" \
  "${blocks[@]}" --draft dspark --variable-prefix --out "$dir/e" --steps 1
expect 2 "--anchors: found 0, wanted at least 1" \
  --target "$tiny" --draft dflash --anchors 0 --out "$dir/e" --steps 1
expect 2 "--length: found 7, wanted at least 8, a block" \
  --target "$tiny" --draft dflash --length 7 --out "$dir/e" --steps 1
expect 2 "--layers: target layers: found 2, wanted 3" "${blocks[@]}" --draft dspark --layers 1,2 --out "$dir/e" --steps 1
expect 2 "--layers: target layer id: found 8, wanted -1 to 7" "${blocks[@]}" --draft dspark --layers 1,2,8 --out "$dir/e" --steps 1
expect 2 "--ce-alpha, --l1-alpha and --confidence-alpha: found 0, wanted one above 0: else nothing is learnt" "${blocks[@]}" \
  --draft dspark --ce-alpha 0 --l1-alpha 0 --confidence-alpha 0 --out "$dir/e" --steps 1

expect 0 " steps in 0.0 minutes" "${small[@]}" --out "$dir/d" --minutes 0.02
# Stopped while its speed was measured: the number of steps is not fixed, and the measuring goes on.
expect 0 " steps in 0.0 minutes" "${small[@]}" --out "$dir/m" --minutes 0.02 --warmup 4 --save-every 2 --keep 100
ln -sfn step-00000002 "$dir/m/latest"
grep -q '"total_steps": null' "$dir/m/latest/trainer.json" || fail "steps that are not fixed are not null"
expect 1 "--steps: found 9 for a run with --minutes, wanted --resume without it" \
  "${small[@]}" --out "$dir/m" --resume --steps 9
expect 0 " steps in 0.0 minutes" "${small[@]}" --out "$dir/m" --resume --minutes 0.02
grep -q '"total_steps": [0-9]' "$dir/m/latest/trainer.json" || fail "the resumed run's steps are not fixed"
expect 0 " of 3 steps" "${small[@]}" --out "$dir/u" --steps 3 --clip inf --save-every 2
ln -sfn step-00000002 "$dir/u/latest"
expect 0 "trained 3 of 3 steps" "${small[@]}" --out "$dir/u" --resume
expect 0 "trained 20 of 21 steps" "${small[@]}" --out "$dir/f" --minutes 0.0001
expect 0 "trained 21 of 21 steps" "${small[@]}" --out "$dir/f" --resume

expect 1 "--device cuda: found " "${small[@]}" --out "$dir/e" --device cuda
expect 1 "--out: found $dir/a/step-00000004, wanted a directory without a run, or --resume" "${small[@]}" --out "$dir/a"
expect 1 "--lr: found 0.5, wanted 0.002, the resumed run's own" "${small[@]}" --out "$dir/a" --resume --lr 0.5
expect 1 "--resume: found no checkpoint" "${small[@]}" --out "$dir/e" --resume
expect 1 "nowhere/train.txt: found No such file or directory" --target nowhere --out "$dir/e"
expect 1 "train.txt: found $(stat -c %s "$tiny/train.txt") bytes, wanted a window of 9999999 bytes" \
  --target "$tiny" --out "$dir/e" --steps 1 --length 9999999
truncate -s 1T "$dir/huge.txt" &&
  expect 1 "--train and --heldout: found a plan of 1099." --target "$tiny" --out "$dir/e" --train "$dir/huge.txt"
rm -f "$dir/huge.txt"
expect 2 "--ttt-steps: found 0, wanted 1 to 16" --target "$tiny" --out "$dir/e" --steps 1 --ttt-steps 0
expect 2 "--steps: found 0, wanted 1 to 4294967296" "${small[@]}" --out "$dir/e" --steps 0
expect 2 "--steps: found 9223372036854775807, wanted 1 to 4294967296" \
  "${small[@]}" --out "$dir/e" --steps 9223372036854775807
expect 2 "--batch and --length: found 4611686018427387905 windows of 4" \
  --target "$tiny" --out "$dir/e" --steps 1 --batch 4611686018427387905 --length 4
# What cannot be is said before the target is loaded: this one has no tensors.
mkdir "$dir/empty" && cp "$tiny"/{config.json,train.txt,heldout.txt} "$dir/empty"
empty=(--target "$dir/empty" --batch 2 --out "$dir/e" --steps 1)
expect 2 "--ttt-steps: found 17, wanted 1 to 16" "${empty[@]}" --ttt-steps 17
expect 2 "--freeze: found 'model.fk.*', no tensor's name, wanted the name of a trained tensor, or * and ? in it; near are \
'model.fc.weight', " "${empty[@]}" --freeze 'model.fk.*'
expect 2 "--freeze: found 'model.embed*', only tensors that are never trained, wanted" "${empty[@]}" --freeze 'model.embed*'
expect 2 "--freeze: found patterns of all trained tensors, wanted one to train" "${empty[@]}" --freeze '*'
expect 2 "--freeze: found 'none', no tensor's name" "${empty[@]}" --init-from "$dir/a" --freeze none
expect 2 "--layers: aux layers: found 2, wanted 3" "${empty[@]}" --layers 1,2
expect 2 "--layers: aux layer id: found 8, wanted 0 to 7" "${empty[@]}" --layers 1,2,8
expect 2 "found 3 more than once" "${empty[@]}" --layers 3,3,3
expect 2 "--layers: target layer id: found 8, wanted -1 to 7" "${empty[@]}" --draft dflash --layers 1,2,8
expect 2 "--length: found 7, wanted at least 8, a block" "${empty[@]}" --draft dflash --length 7
expect 2 "--packing: found through_target" "${empty[@]}" --packing through_target
expect 1 "$dir/empty: found" "${empty[@]}"

# Other texts are taken when told so, another target never.
cp -r "$dir/a" "$dir/data"
ln -sfn step-00000002 "$dir/data/latest"
head -c 90000 "$tiny/train.txt" >"$dir/other.txt"
expect 1 "trainer.json: training_text: found " "${small[@]}" --out "$dir/data" --resume --train "$dir/other.txt"
expect 1 "trainer.json: heldout_text: found " "${small[@]}" --out "$dir/data" --resume --heldout "$dir/other.txt"
expect 2 "--other-data: found it without --resume" "${small[@]}" --out "$dir/e" --steps 1 --other-data
expect 0 "trained 4 of 4 steps" "${small[@]}" --out "$dir/data" --resume --train "$dir/other.txt" --other-data
cmp -s "$dir/a/latest/model.safetensors" "$dir/data/latest/model.safetensors" && fail "the other text was not learnt from"
mkdir "$dir/target"
cp "$tiny"/*.{json,safetensors,txt} "$dir/target"
weights="$dir/target/model-00001-of-00002.safetensors" last=$(($(stat -c %s "$tiny/model-00001-of-00002.safetensors") - 4))
byte="$(tail -c 4 "$weights" | head -c 1 | od -An -tu1)"
printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$weights" bs=1 seek="$last" conv=notrunc status=none
expect 1 "trainer.json: target: found " --target "$dir/target" "${small[@]:2}" --out "$dir/data" --resume --steps 6 \
  --train "$dir/other.txt" --other-data

# Data of every kind of file: the same tokens train the same draft. A text's documents are its lines.
lines_of() {  # JSON lines, a document for each line of a text
  od -An -v -tu1 -w1 "$1" | awk '
    { printf "%s%d", n++ ? "," : "{\"input_ids\":[", $1 }
    $1 == 10 { print "]}"; n = 0 }
    END { if (n) print "]}" }'
}
head -c 6000 "$tiny/train.txt" >"$dir/data.txt" && head -c 1500 "$tiny/heldout.txt" >"$dir/look.txt"
for name in data look; do
  iconv -f latin1 -t utf-16le "$dir/$name.txt" >"$dir/$name.uint16"
  iconv -f latin1 -t utf-32le "$dir/$name.txt" >"$dir/$name.bin"
  lines_of "$dir/$name.txt" >"$dir/$name.jsonl"
done
of() {  # suffix, arguments
  expect 0 "trained" "${small[@]}" --train "$dir/data.$1" --heldout "$dir/look.$1" "${@:2}"
}
of txt --out "$dir/of.txt" --steps 3
of uint16 --out "$dir/of.uint16" --steps 3
of bin --out "$dir/of.bin" --steps 3 --bin-type uint32
same "$dir/of.txt/latest" "$dir/of.uint16/latest" && same "$dir/of.txt/latest" "$dir/of.bin/latest"
packed=(--sampling packed --packing apart --accumulate 20 --save-every 2 --keep 9)
of txt --out "$dir/packed.txt" "${packed[@]}" --epochs 1.5
[[ "$output" =~ "training data: 6000 bytes; "([0-9]+)" windows of 24: "[0-9]+" documents whole, "[0-9]+" cut, 0 empty ones left out, "[0-9]+" of padding (" ]] ||
  fail "nothing is said of the windows: $output"
steps=$(((BASH_REMATCH[1] * 3 + 79) / 80))
[[ "$output" == *"trained $steps of $steps steps"* && $steps -gt 4 ]] || fail "not 1.5 epochs: $output"
of jsonl --out "$dir/packed.jsonl" "${packed[@]}" --epochs 1.5
[[ "$output" == *"training data: 6000 tokens, in "*" documents; "* ]] || fail "nothing is said of documents: $output"
same "$dir/packed.txt/latest" "$dir/packed.jsonl/latest"
ln -sfn step-00000002 "$dir/packed.jsonl/latest"
of jsonl --out "$dir/packed.jsonl" --resume
same "$dir/packed.txt/latest" "$dir/packed.jsonl/latest"
expect 1 "--sampling: found \"random\", wanted \"packed\", the resumed run's own" "${small[@]}" --out "$dir/packed.txt" \
  --resume --sampling random
of uint16 --out "$dir/shuffled" --sampling shuffled --epochs 0.1
[[ "$output" == *"6000 tokens; 250 windows of 24, 0 left out"*"trained 13 of 13 steps"* ]] || fail "shuffled: $output"
sed 's/]}$/],"loss_mask":[]}/' "$dir/data.jsonl" >"$dir/masked.jsonl"
expect 1 "masked.jsonl: line 1: loss_mask: found 0 values, wanted " "${empty[@]}" --train "$dir/masked.jsonl"
expect 1 "data.bin: found a file of tokens that does not say their type" "${empty[@]}" --train "$dir/data.bin"
expect 2 "--bin-type: found it without a file *.bin" "${empty[@]}" --bin-type uint16
expect 2 "--bin-type: found 'int8', wanted one of uint16, uint32" "${empty[@]}" --bin-type int8
expect 2 "--sampling: found packed with packing none, wanted packing apart" "${empty[@]}" --sampling packed
expect 2 "--epochs: found it with --sampling random, wanted --sampling shuffled or packed" "${empty[@]:0:6}" --epochs 1
expect 2 "--epochs: found it with --steps, wanted one of them" "${empty[@]}" --sampling shuffled --epochs 1
expect 2 "--epochs: found it with --resume" "${empty[@]:0:6}" --sampling shuffled --epochs 1 --resume
printf '\xff\xff' >"$dir/far.uint16"
expect 1 "far.uint16: token 0: found 65535, wanted 0 to 259" "${empty[@]}" --train "$dir/far.uint16"
: >"$dir/none.jsonl"
expect 1 "none.jsonl: found 0 tokens, wanted a window of 192 tokens" "${empty[@]}" --train "$dir/none.jsonl"

# A run that learns nothing fails, and one that diverges, too. Neither leaves a draft, or it leaves the last good one.
printf '\n%.0s' {1..3000} >"$dir/newlines.txt"
cat "$dir/newlines.txt" "$tiny/heldout.txt" | head -c 4500 >"$dir/sparse.txt"
for kind in eagle3 dspark; do
  expect 1 "newlines.txt: found no update in 3 steps, 3 with nothing supervised" --target "$tiny" --batch 2 --length 24 \
    --draft $kind --eval-windows 2 --out "$dir/nothing$kind" --steps 3 --save-every 2 --packing apart \
    --train "$dir/newlines.txt"
  [[ ! -e "$dir/nothing$kind/latest" ]] || fail "a draft that learnt nothing was saved"
done
expect 1 "newlines.txt: found nothing supervised in the windows that are looked at, wanted text to measure on" \
  "${small[@]}" --out "$dir/unmeasured" --steps 1 --packing apart --heldout "$dir/newlines.txt"
expect 0 "had nothing supervised; more than 10 % is much" "${small[@]}" --out "$dir/sparse" --steps 4 --packing apart \
  --train "$dir/sparse.txt"
expect 1 "newlines.txt: found no update in 1 steps, 1 with nothing supervised and 0 with a gradient that is not finite, wanted text to learn from; the last good \
checkpoint is $dir/sparse/step-00000004" "${small[@]}" --out "$dir/sparse" --resume --steps 5 --other-data \
  --train "$dir/newlines.txt"
expect 1 "step 2: held-out loss: found nan, wanted a finite number; there is no good checkpoint" \
  "${small[@]:0:8}" --eval-windows 2 --out "$dir/diverged" --steps 2 --lr 1e30 --eval-every 100
[[ ! -e "$dir/diverged/latest" ]] || fail "a diverged draft was saved"

# A run may begin with a draft, of which it has the kind and all that belongs to it.
weights() { tail -c 60000 "$1/model.safetensors"; }  # the step that the file names is another
for kind in a dflash dspark o; do
  with=("${small[@]}")
  [[ $kind != d* ]] || with=("${blocks[@]}")
  expect 0 "trained 1 of 1 steps" "${with[@]}" --init-from "$dir/$kind" --out "$dir/from.$kind" --steps 1 --lr 0
  cmp <(weights "$dir/$kind/latest") <(weights "$dir/from.$kind/latest") || fail "--init-from has other parameters"
  cmp "$dir/$kind/latest/config.json" "$dir/from.$kind/latest/config.json" || exit 1
done
from=("${small[@]}" --out "$dir/e" --steps 1 --init-from)
expect 1 "--draft: found eagle3, wanted dflash, that of $dir/dflash/step-00000004" "${from[@]}" "$dir/dflash" --draft eagle3
expect 1 "--backbone: found kimi_k3, wanted deepseek_v3" "${from[@]}" "$dir/o" --backbone kimi_k3
expect 2 "--layers: found it with --init-from" "${from[@]}" "$dir/a" --layers 1,2,3
expect 2 "--fc-init: found it with --init-from" "${from[@]}" "$dir/a" --fc-init last_identity
expect 2 "--init-from: found it with --resume" "${small[@]}" --out "$dir/a" --resume --init-from "$dir/o"
cp -rL "$dir/a" "$dir/copied"
expect 0 "note: $dir/copied/latest: a folder of its own" "${small[@]}" --init-from "$dir/copied" --out "$dir/odd"$'\e[2J' --steps 1
[[ "$(grep -c "a folder of its own" <<<"$output")" == 1 ]] || fail "a note is not said once: $output"
[[ "$output" == *"draft: $dir/odd\\x1b[2J/latest" ]] || fail "a path is shown as it is: $output"
mkdir "$dir/wide"
cp "$dir/a/latest/model.safetensors" "$dir/wide"
sed 's/"hidden_size": 128/"hidden_size": 256/' "$dir/a/latest/config.json" >"$dir/wide/config.json"
expect 1 "hidden_size: found 256, wanted 128" "${from[@]}" "$dir/wide"
for kind in a dflash dspark; do  # what is not finite is neither begun nor gone on with
  rm -rf "$dir/broken" && cp -r "$dir/$kind" "$dir/broken"
  poke_nan "$dir/broken/latest/model.safetensors"
  expect 1 "found nan, wanted a finite number" "${small[@]:0:6}" --out "$dir/e" --steps 1 \
    --init-from "$dir/broken"
  expect 1 "found nan, wanted a finite number" "${small[@]:0:6}" --out "$dir/broken" --resume --steps 9
done

# No checkpoint is lost to a run that does not see it, nor a run for want of somebody who reads what it says.
cp -r "$dir/prefix" "$dir/lost"
rm "$dir/lost/latest"
expect 1 "--out: found $dir/lost/step-00000002, which no link 'latest' names" "${blocks[@]}" --draft dflash --out "$dir/lost" \
  --steps 1
"$program" "${small[@]}" --out "$dir/quiet" --steps 2 --progress lines 2>&- >/dev/null || fail "standard error closed"
grep -v '^{' "$dir/quiet/train.jsonl" && fail "the log has what standard error was to get"
("$program" "${small[@]}" --out "$dir/unread" --steps 9 --progress lines 2>&1 || fail "nobody reads") | true
[[ -e "$dir/unread/latest" ]] || fail "a run whose output nobody reads was not saved"
mkfifo "$dir/fifo"
head -n 3 "$dir/fifo" >/dev/null &
sleep 0.2
expect 1 "fifo: found Broken pipe, wanted room for " "${small[@]}" --out "$dir/broken.log" --steps 1000000 --log "$dir/fifo"
[[ "$output" == *"the last good checkpoint is $dir/broken.log/step-"* ]] || fail "a broken log lost the run: $output"

# A signal ends a run after its step; what it made is saved.
await() {  # command: until it holds
  for _ in {1..1200}; do
    "$@" && return
    sleep 0.05
  done
  kill -s KILL "$run"
  fail "$* never held"
}
ended() { ! kill -0 "$run" 2>/dev/null; }
for signal in INT:130 TERM:143 HUP:129; do
  name="SIG${signal%:*}" out="$dir/${signal%:*}"
  "$program" "${small[@]}" --out "$out" --steps 1000000 --progress none >"$dir/output" 2>&1 &
  run=$!
  await grep -qs '"grad_norm"' "$out/train.jsonl"
  kill -s "${signal%:*}" $run
  sleep 0.01
  kill -s "${signal%:*}" $run 2>/dev/null  # told twice, as `timeout` and terminals do
  await ended
  wait $run
  found=$?
  output="$(cat "$dir/output")"
  [[ $found -eq ${signal#*:} && "$output" == *"stopped by $name after "*" steps: saved as $out/step-"*"; --resume goes on"* ]] ||
    fail "$name: found status $found and: $output"
done
made=$(($(grep '"next_step"' "$out/latest/trainer.json" | tr -dc 0-9)))
expect 0 "trained $((made + 1)) of $((made + 1)) steps" "${small[@]}" --out "$out" --resume --steps $((made + 1))
"$program" "${small[@]:0:8}" --out "$dir/twice" --steps 2 --eval-windows 1000000 >"$dir/output" 2>&1 &
run=$!
await test -e "$dir/twice/train.jsonl"  # now it looks at all held-out text, which takes seconds
kill -s INT $run
sleep 0.7  # sooner it would be the same wish
kill -s TERM $run
await ended
wait $run
found=$?
[[ $found -eq 143 && ! -e "$dir/twice/latest" ]] || fail "a second signal: found status $found and: $(cat "$dir/output")"

# Nothing that is read is written over, nor what no run wrote, and this is said before the target is loaded.
cp "$tiny/train.txt" "$dir/mine.txt" && ln "$dir/mine.txt" "$dir/hard" && ln -s mine.txt "$dir/linked"
echo "notes of mine" >"$dir/notes"
for name in mine.txt hard linked; do
  expect 1 "--log: found $dir/$name, which is also --train" "${empty[@]}" --train "$dir/mine.txt" --log "$dir/$name"
done
expect 1 "--log: found $dir/empty/train.txt, which is also $dir/empty/train.txt of --target" "${empty[@]}" --log "$dir/empty/train.txt"
expect 1 "--log: found $dir/empty/config.json, which is also $dir/empty/config.json of --target" \
  "${empty[@]}" --log "$dir/empty/config.json"
expect 1 "--log: $dir/notes: line 1: found no record of a training step" "${empty[@]}" --log "$dir/notes"
expect 1 "--log: $dir/notes: line 1: found no record of a training step" "${small[@]}" --out "$dir/c" --resume --steps 7 \
  --log "$dir/notes"
expect 1 "--log: found $dir/e/latest, which is the checkpoints' own" "${empty[@]}" --log "$dir/e/latest"
for own in e/.k3spec a/.k3spec/new; do
  expect 1 "--log: found $dir/$own, in a folder that is a run's own" "${empty[@]}" --log "$dir/$own"
done
expect 1 "--out: found $dir/a/.k3spec/new, in a folder that is a run's own" --target "$dir/empty" --steps 1 \
  --out "$dir/a/.k3spec/new"
mkfifo "$dir/lonely"
expect 1 "--log: $dir/lonely: found No such device or address, wanted a device that can be written, or a FIFO that is read" \
  "${empty[@]}" --log "$dir/lonely"
expect 1 "--log: /dev/stdin: found a file that is open for reading only" "${empty[@]}" --log /dev/stdin </dev/null
expect 1 "--log: /dev/fd/999: found no such file, nor one that is open" "${empty[@]}" --log /dev/fd/999
expect 1 "--out: found $dir/empty, which is also --target" --target "$dir/empty" --steps 1 --out "$dir/empty"
cmp "$tiny/train.txt" "$dir/mine.txt" && cmp "$tiny/train.txt" "$dir/empty/train.txt" && cmp "$tiny/config.json" "$dir/empty/config.json" &&
  [[ "$(cat "$dir/notes")" == "notes of mine" && ! -e "$dir/empty/.k3spec" ]] || fail "a file of somebody's is gone"
cp "$dir/a/train.jsonl" "$dir/old.jsonl" && true >"$dir/blank.jsonl"
for name in old blank; do
  expect 0 "trained 1 of 1 steps" "${small[@]}" --out "$dir/over$name" --steps 1 --log "$dir/$name.jsonl"
  [[ "$(wc -l <"$dir/$name.jsonl")" == 3 ]] || fail "$name.jsonl is not the new run's"
done

# Folders of somebody's own stay, whatever they are called; so do checkpoints of a run from before there were manifests.
mkdir -p "$dir/own"/{step-7,step-00000002,step-00000500,step-notes.tmp}
for name in "$dir/own"/*; do echo mine >"$name/notes"; done
expect 0 "trained 3 of 3 steps" "${small[@]}" --out "$dir/own" --steps 3 --save-every 1 --keep 1 --lr 0
expect 0 "trained 5 of 5 steps" "${small[@]}" --out "$dir/own" --resume --steps 5 --save-every 1 --keep 1
# With a rate of 0 all are as good, and the first one is the best.
[[ "$(cd "$dir/own" && echo *)" == "best latest step-00000001 step-00000002 step-00000005 step-00000500 step-7 step-notes.tmp train.jsonl" ]] ||
  fail "found $(ls "$dir/own")"
for name in step-7 step-00000002 step-00000500 step-notes.tmp; do
  [[ "$(cat "$dir/own/$name/notes")" == mine ]] || fail "$name is gone"
done
# The best one stays it in a copy that says nothing of who wrote it, and when the run goes on with other data: of a rate of
# 0 the first one is. Measured on another text it is nothing any more.
still=("${small[@]}" --save-every 1 --keep 1)
expect 0 "trained 2 of 2 steps" "${still[@]}" --out "$dir/still" --steps 2 --lr 0
head -c 3000 "$tiny/heldout.txt" >"$dir/other.txt"
for way in copy train heldout; do
  cp -r "$dir/still" "$dir/still.$way"
  more=(--other-data --$way "$dir/other.txt") wanted=step-00000001
  [[ $way != copy ]] || more=()
  [[ $way != copy ]] || rm -r "$dir/still.$way/.k3spec"
  [[ $way != heldout ]] || wanted=step-00000003
  expect 0 "trained 3 of 3 steps" "${still[@]}" --out "$dir/still.$way" --resume --steps 3 "${more[@]}"
  [[ "$(readlink "$dir/still.$way/best")" == $wanted ]] || fail "$way: the best is $(readlink "$dir/still.$way/best"): $output"
done
# So when more windows are looked at; without a flag it is as many as before.
for given in "" "--eval-windows 4" "--eval-windows 3"; do
  rm -rf "$dir/still.windows" && cp -r "$dir/still" "$dir/still.windows"
  wanted=step-00000001
  [[ "$given" != *4 ]] || wanted=step-00000003
  expect 0 "trained 3 of 3 steps" "${small[@]:0:8}" --save-every 1 --keep 1 --eval-every 3 --out "$dir/still.windows" \
    --resume --steps 3 $given
  [[ "$(readlink "$dir/still.windows/best")" == $wanted ]] || fail "'$given': best is $(readlink "$dir/still.windows/best")"
done
cp -r "$dir/a" "$dir/unmarked" && rm -r "$dir/unmarked/.k3spec"
unmarked=("${small[@]}" --out "$dir/unmarked" --resume --save-every 1 --keep 1)
expect 0 "note: $dir/unmarked: nothing says whether this run wrote step-00000002, step-00000004: they stay until" "${unmarked[@]}" --steps 6
expect 0 "trained 7 of 7 steps" "${unmarked[@]}" --steps 7
[[ "$output" != *note* && "$(cd "$dir/unmarked" && echo step*)" == "step-00000002 step-00000004"*" step-00000007" ]] ||
  fail "found $(ls "$dir/unmarked") and: $output"

# One run to a folder: a second is told which process is at work. One that was killed is in nobody's way.
long=("${small[@]}" --out "$dir/locked" --steps 1000000 --save-every 1 --progress none)
"$program" "${long[@]}" >"$dir/output" 2>&1 &
run=$!
await test -e "$dir/locked/latest"
for more in "" --resume; do
  expect 1 "$dir/locked: found a run that is at work in it: process $run, since 20" "${long[@]}" $more
done
expect 1 "--log: $dir/locked/train.jsonl: found a file that another process logs to" \
  "${small[@]}" --out "$dir/e" --steps 1 --log "$dir/locked/train.jsonl"
kill -s KILL $run
wait $run 2>/dev/null
[[ -e "$dir/locked/.k3spec/lock" ]] || fail "the run that was killed had no lock"
made=$(($(grep '"next_step"' "$dir/locked/latest/trainer.json" | tr -dc 0-9)))
expect 0 "trained $((made + 1)) of" "${small[@]}" --out "$dir/locked" --resume --steps $((made + 1))
# The look at held-out text before the first step, the steps, a look after every third one and after the last.
lines=$((1 + made + 1 + (made + 1 + 2) / 3))
[[ "$(ls "$dir/locked/.k3spec")" == manifest.json && "$(wc -l <"$dir/locked/train.jsonl")" == "$lines" ]] ||
  fail "found $(ls "$dir/locked/.k3spec") and $(wc -l <"$dir/locked/train.jsonl") lines"
for round in $(seq "${ROUNDS:-2}"); do
  "$program" "${small[@]}" --out "$dir/two$round" --steps 2 >"$dir/output" 2>&1 &
  run=$!
  "$program" "${small[@]}" --out "$dir/two$round" --steps 2 >"$dir/output2" 2>&1
  second=$?
  wait $run
  found="$second$?"
  lines="$(sed 's/^{"step":\([0-9]*\),"\([a-z]*\)".*}$/\1\2/' "$dir/two$round/train.jsonl" | xargs)"
  [[ ($found == 01 || $found == 10) && "$lines" == "0heldout 1loss 2loss 2heldout" ]] ||
    fail "two runs at once ended with $found: $(cat "$dir/output" "$dir/output2" "$dir/two$round/train.jsonl")"
done

# A save that fails says the file and leaves nothing half written.
(
  ulimit -f 100
  expect 1 "found File too large, wanted room for" "${small[@]}" --out "$dir/full" --steps 1
) || exit 1
[[ "$(ls -A "$dir/full")" == train.jsonl ]] || fail "a failed save left $(find "$dir/full")"
expect 1 "--out: /proc/none: found No such file or directory, wanted a directory that can be created" \
  --target "$dir/empty" --out /proc/none --steps 1
[[ ! -e "$dir/e" ]] || fail "a refused run left $dir/e"
