#!/usr/bin/env bash
# What examples/train_draft does: trains, goes on where it was stopped with the same bits, refuses what does not fit.
# $1: the program.
program="$1"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

small=(--target "$tiny" --batch 2 --length 24 --ttt-steps 2 --eval-windows 2 --eval-every 3)
same() {  # two checkpoints
  for file in model.safetensors config.json trainer.safetensors trainer.json; do
    cmp "$1/$file" "$2/$file" || exit 1
  done
}

expect 0 "--ttt-steps" --help
expect 0 "trained 4 of 4 steps" "${small[@]}" --out "$dir/a" --steps 4 --save-every 2 --threads 1
expect 0 "simulated accept length" "${small[@]}" --out "$dir/b" --steps 4 --threads 2
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

# The other kinds go on, too, and keep their kind.
blocks=(--target "$tiny" --batch 2 --length 24 --anchors 3 --eval-windows 2 --eval-every 3)
for kind in dflash dspark; do
  expect 0 "trained 4 of 4 steps" "${blocks[@]}" --draft $kind --out "$dir/$kind" --steps 4 --save-every 2
  cp -r "$dir/$kind" "$dir/$kind.resumed"
  ln -sfn step-00000002 "$dir/$kind.resumed/latest"
  expect 0 "trained 4 of 4 steps" "${blocks[@]}" --out "$dir/$kind.resumed" --resume --threads 1
  same "$dir/$kind/latest" "$dir/$kind.resumed/latest"
done
expect 1 "--draft: found dflash, wanted dspark, the resumed run's own" \
  "${blocks[@]}" --out "$dir/dspark" --resume --draft dflash
expect 1 "--layers: found it with --resume" "${blocks[@]}" --out "$dir/dspark" --resume --layers 1,2,3
# So do EAGLE-3's options, which a resumed run takes from its checkpoint.
options=(--backbone deepseek_v3 --eagle3-version 3.1 --lk lambda --fc-init last_identity --packing apart
         --aux-stream residual_mixture --layer-ids layers_executed --layers 2,4,6)
expect 0 "target layers [2,4,6]" "${small[@]}" "${options[@]}" --out "$dir/o" --steps 4 --save-every 2
cp -r "$dir/o" "$dir/o.resumed"
ln -sfn step-00000002 "$dir/o.resumed/latest"
expect 0 "trained 4 of 4 steps" "${small[@]}" --out "$dir/o.resumed" --resume --threads 1
same "$dir/o/latest" "$dir/o.resumed/latest"
expect 1 "--backbone: found kimi_k3, wanted deepseek_v3, the resumed run's own" \
  "${small[@]}" --out "$dir/o" --resume --backbone kimi_k3
expect 1 "--eagle3-version: found 3, wanted 3.1, the resumed run's own" \
  "${small[@]}" --out "$dir/o" --resume --eagle3-version 3
expect 1 '--lk: found "alpha", wanted "lambda", the resumed run'"'"'s own' "${small[@]}" --out "$dir/o" --resume --lk alpha
expect 1 "--aux-stream: found it with --resume" "${small[@]}" --out "$dir/o" --resume --aux-stream running_sum
expect 1 "--backbone: found it with --draft dflash, wanted --draft eagle3" \
  "${blocks[@]}" --draft dflash --backbone deepseek_v3 --out "$dir/e" --steps 1
expect 1 "--lk: found it with --draft dspark, wanted --draft eagle3" \
  "${blocks[@]}" --draft dspark --lk alpha --out "$dir/e" --steps 1
expect 1 "lk_kl_scale: found 1.5, wanted 0 to 1" "${small[@]}" --out "$dir/e" --steps 1 --lk lambda --lk-kl-scale 1.5
expect 1 "--lk-kl-decay: found it with --lk alpha, wanted --lk lambda" \
  "${small[@]}" --out "$dir/e" --steps 1 --lk alpha --lk-kl-decay 1
expect 1 "packing: found through_target" "${small[@]}" --out "$dir/e" --steps 1 --packing through_target
expect 1 "tensor_parallel" "${small[@]}" --out "$dir/e" --steps 1 --tensor-parallel 2
expect 1 "context_parallel" "${small[@]}" --out "$dir/e" --steps 1 --context-parallel 2
expect 1 "pipeline_parallel" "${small[@]}" --out "$dir/e" --steps 1 --pipeline-parallel 2
expect 1 "parallel_drafting" "${small[@]}" --out "$dir/e" --steps 1 --parallel-drafting
expect 1 "expert_parallel: found 3" "${small[@]}" --out "$dir/e" --steps 1 --expert-parallel 3
expect 1 "--expert-parallel: found 4, wanted 1" "${small[@]}" --out "$dir/e" --steps 1 --expert-parallel 4

expect 0 "target layers [0,4,8]" "${blocks[@]}" --draft dspark --packing apart --aux-stream residual_mixture \
  --layer-ids layers_executed --layers 0,4,8 --out "$dir/packed" --steps 2
expect 1 "target layer id: found -1, wanted 0 to 8, counted as layers_executed" \
  "${blocks[@]}" --draft dflash --layer-ids layers_executed --layers -1,2,7 --out "$dir/e" --steps 1
expect 0 "target layers [-1,2,7]" "${blocks[@]}" --draft dflash --layers -1,2,7 --variable-prefix --gamma inf \
  --out "$dir/prefix" --steps 2
grep -q '"accept_rate_4":' "$dir/dspark/train.jsonl" || fail "DSpark's log lacks accept rates"
expect 1 "--ttt-steps: found it with --draft dflash, wanted --draft eagle3" \
  "${blocks[@]}" --draft dflash --ttt-steps 3 --out "$dir/e" --steps 1
expect 1 "--anchors: found it with --draft eagle3, wanted --draft dflash or dspark" "${blocks[@]}" --out "$dir/e" --steps 1
expect 1 "--variable-prefix: found it with --draft dspark, wanted --draft dflash" \
  "${blocks[@]}" --draft dspark --variable-prefix --out "$dir/e" --steps 1
expect 1 "anchors: found 0, wanted at least 1" \
  "${blocks[@]}" --draft dflash --anchors 0 --out "$dir/e" --steps 1
expect 1 "length: found 7, wanted at least 8, a block" \
  "${blocks[@]}" --draft dflash --length 7 --out "$dir/e" --steps 1
expect 1 "target layers: found 2, wanted 3" "${blocks[@]}" --draft dspark --layers 1,2 --out "$dir/e" --steps 1
expect 1 "target layer id: found 8, wanted -1 to 7" "${blocks[@]}" --draft dspark --layers 1,2,8 --out "$dir/e" --steps 1

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
expect 1 "window length: found 9999999" "${small[@]}" --out "$dir/e" --steps 1 --length 9999999
expect 1 "ttt_steps: found 0" "${small[@]}" --out "$dir/e" --steps 1 --ttt-steps 0
expect 1 "schedule: total_steps: found 0" "${small[@]}" --out "$dir/e" --steps 0
expect 1 "batch and length: found 4611686018427387905 windows of 4" \
  "${small[@]}" --out "$dir/e" --steps 1 --batch 4611686018427387905 --length 4
# What cannot be is said before the target is loaded: this one has no tensors.
mkdir "$dir/empty" && cp "$tiny"/{config.json,train.txt,heldout.txt} "$dir/empty"
empty=(--target "$dir/empty" --batch 2 --length 24 --out "$dir/e" --steps 1)
expect 1 "ttt_steps: found 17, wanted 1 to 16" "${empty[@]}" --ttt-steps 17
expect 1 "aux layers: found 2, wanted 3" "${empty[@]}" --layers 1,2
expect 1 "aux layer id: found 8, wanted 0 to 7" "${empty[@]}" --layers 1,2,8
expect 1 "found 3 more than once" "${empty[@]}" --layers 3,3,3
expect 1 "target layer id: found 8, wanted -1 to 7" "${empty[@]}" --draft dflash --layers 1,2,8
expect 1 "length: found 7, wanted at least 8, a block" "${empty[@]}" --draft dflash --length 7
expect 1 "packing: found through_target" "${empty[@]}" --packing through_target
expect 1 "$dir/empty: found" "${empty[@]}"
[[ ! -e "$dir/e" ]] || fail "a refused run left $dir/e"
