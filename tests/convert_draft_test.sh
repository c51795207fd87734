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
python="$(python_with "torch, numpy")"

for version in 3 3.1; do
  train "v$version" --backbone deepseek_v3 --eagle3-version $version --aux-stream residual_mixture
  own="$dir/v$version/latest" engine="$dir/engine$version" back="$dir/back$version"
  expect 0 "engine layout" --draft "$own" --out "$engine" --probe "$dir/probe"
  expect 0 "k3spec layout" --draft "$engine" --out "$back" --layout k3spec
  expect 0 "engine layout" --draft "$back" --out "$dir/again$version"
  cmp "$engine/model.safetensors" "$dir/again$version/model.safetensors" || exit 1
  cmp "$engine/config.json" "$dir/again$version/config.json" || exit 1
  grep -q '"aux_stream": "residual_mixture"' "$back/config.json" || fail "the convention is lost: $(cat "$back/config.json")"
  grep -q '"ttt_steps": 5' "$back/config.json" || fail "the steps are lost: $(cat "$back/config.json")"
  # A file that names no conventions, as other tools write it, is not guessed at; one without an embedding has the
  # target's.
  mkdir "$dir/foreign$version" && cp "$engine/model.safetensors" "$dir/foreign$version"
  grep -v '"aux_stream"\|"layer_ids"\|"softmax_mscale"\|"state_norm"' "$engine/config.json" >"$dir/foreign$version/config.json"
  foreign=(--draft "$dir/foreign$version" --out "$dir/read$version" --layout k3spec)
  expect 1 "aux_stream: found nothing" "${foreign[@]}"
  expect 2 "--assume-aux-stream: found it alone, wanted --assume-aux-stream and --assume-layer-ids together" "${foreign[@]}" --assume-aux-stream residual_mixture
  expect 0 "k3spec layout" "${foreign[@]}" --assume-aux-stream residual_mixture --assume-layer-ids layers_executed
  cmp "$dir/read$version/model.safetensors" "$back/model.safetensors" || exit 1
  cmp "$dir/read$version/config.json" "$back/config.json" || exit 1
  expect 1 "embed_tokens.weight" --draft "$own" --out "$dir/bare$version" --no-embed-tokens --probe "$dir/bare_probe"
  expect 0 "engine layout" --draft "$own" --out "$dir/bare$version" --no-embed-tokens --probe "$dir/bare_probe" \
    --target "$tiny"
  # As many elements in another shape are another target's embedding.
  { safetensors '{"model.embed_tokens.weight":{"dtype":"BF16","shape":[128,260],"data_offsets":[0,66560]}}' &&
    head -c 66560 /dev/zero; } >"$dir/turned.safetensors"
  expect 1 "turned.safetensors: 'model.embed_tokens.weight': shape: found [128, 260], wanted [260, 128]" \
    --draft "$dir/bare$version" --out "$dir/other$version" --target "$dir/turned.safetensors"
  if [[ -n "$python" ]]; then
    compare() { "$python" tests/reference/compare_export.py "$@"; }
    compare "$engine" "$dir/probe" || fail "PyTorch computes other logits"
    compare "$dir/bare$version" "$dir/bare_probe" || fail "PyTorch computes other logits with the target's embedding"
    # It sees positions that turn a little faster, a softmax scaled by YaRN, rotated slices that are, and another eps.
    for change in 's/"rope_theta": 10000.0/"rope_theta": 9999.0/' 's/"mscale_all_dim": 0.0/"mscale_all_dim": 0.01/' \
      's/"mscale": 0.0/"mscale": 1.0/' \
      's/"rms_norm_eps": 1e-06/"rms_norm_eps": 2e-06/'; do
      cp "$engine/model.safetensors" "$dir/foreign$version" && sed "$change" "$engine/config.json" \
        >"$dir/foreign$version/config.json"
      cmp -s "$engine/config.json" "$dir/foreign$version/config.json" && fail "$change changes nothing"
      ! compare "$dir/foreign$version" "$dir/probe" >"$dir/seen" || fail "$change is not seen: $(cat "$dir/seen")"
    done
    # Without betas it takes 32 and 1.
    sed '/"beta_/d' "$engine/config.json" >"$dir/foreign$version/config.json"
    compare "$dir/foreign$version" "$dir/probe" || fail "betas that are not there are others"
  fi
done
# Nothing that is read or that this program did not write is written over.
own="$dir/v3/latest" engine="$dir/engine3"
cp -rL "$own" "$dir/kept" && echo mine >"$dir/notes" && cp -r "$tiny" "$dir/target"
expect 1 "--out: found $own, which is also --draft" --draft "$own" --out "$own"
expect 1 "--out: found $dir/v3.1/latest/model.safetensors, a file that is not a draft of convert_draft's" \
  --draft "$own" --out "$dir/v3.1/latest"
expect 1 "--out: found $dir/target, which is also --target" --draft "$own" --out "$dir/target" --target "$dir/target"
expect 1 "--out: found $dir/target/config.json, a file that is not a draft of" --draft "$own" --out "$dir/target"
cp -r "$engine" "$dir/mixed" && cp "$tiny/config.json" "$dir/mixed"
expect 1 "--out: found $dir/mixed/config.json, a file that is not a draft of" --draft "$own" --out "$dir/mixed"
cmp "$tiny/config.json" "$dir/mixed/config.json" || fail "a config.json of somebody's is gone"
# In a run's folder it would be taken for the run's draft; what lies in the run's own the run removes.
cp -r "$dir/v3" "$dir/unmarked" && rm -r "$dir/unmarked/.k3spec"
for name in v3 unmarked; do
  expect 1 "--out: found $dir/$name, the folder of a training run, wanted another one" --draft "$own" --out "$dir/$name"
  [[ ! -e "$dir/$name/config.json" ]] || fail "a draft is in the folder of a run"
done
expect 1 "--out: found $dir/v3/.k3spec/a, in a folder that is a run's own" --draft "$own" --out "$dir/v3/.k3spec/a"
expect 1 "--probe: found $dir/v3/.k3spec/a, in a folder that is a run's own" --draft "$own" --out "$dir/e" \
  --probe "$dir/v3/.k3spec/a"
expect 1 "--probe: found $own/model.safetensors, which is also $own/model.safetensors of --draft" \
  --draft "$own" --out "$dir/e" --probe "$own/model.safetensors"
expect 1 "--probe: found $dir/notes, a file that is not a probe" --draft "$own" --out "$dir/e" --probe "$dir/notes"
expect 1 "--probe: found $engine/model.safetensors, which is also a file of --out" \
  --draft "$own" --out "$engine" --probe "$engine/model.safetensors"
expect 1 "--probe: found $dir/e, a folder that --out makes or lies in" --draft "$own" --out "$dir/e" --probe "$dir/e"
expect 1 "--probe: found $dir/e, a folder that --out makes or lies in" --draft "$own" --out "$dir/e/f/" --probe "$dir/e"
[[ "$(cat "$dir/notes")" == mine ]] && diff -r "$tiny" "$dir/target" && diff -r "$own/" "$dir/kept" || fail "a file of somebody's is gone"
cp -r "$engine" "$dir/before"
expect 0 "engine layout" --draft "$own" --out "$engine" --probe "$dir/probe"
diff -r "$engine" "$dir/before" || fail "another draft the second time"
(
  ulimit -f 8
  expect 1 "found File too large, wanted room for" --draft "$own" --out "$engine"
) || exit 1
diff -r "$engine" "$dir/before" || fail "a failed save left something"
expect 1 "/proc/none: found No such file or directory, wanted a directory that can be created" --draft "$own" --out /proc/none
cp -rL "$dir/v3/latest" "$dir/broken" && poke_nan "$dir/broken/model.safetensors"
expect 1 "found nan, wanted a finite number" --draft "$dir/broken" --out "$dir/e"
train k3
expect 1 "architectures: found a Kimi K3 draft, wanted one with DeepSeek-V3's block" --draft "$dir/k3/latest" --out "$dir/e"
expect 1 "architectures: found" --draft "$tiny" --out "$dir/e"
[[ ! -e "$dir/e" ]] || fail "a refused run left $dir/e"

# Kimi K3's own block as NeMo Automodel writes it: EAGLE-3's file lacks eight fields, and keeps its target's depth.
own="$dir/k3/latest" nemo="$dir/nemo"
mkdir "$nemo" && cp "$own/model.safetensors" "$nemo"
nemo_config() {  # arguments of sed
  grep -v '"num_aux_hidden_states"\|"mla_norm_eps"\|"train_embeddings"\|"aux_stream"\|"layer_ids"\|"softmax_mscale"\|"state_norm"\|"ttt_steps"' \
    "$own/config.json" | sed -e '/"aux_layer_ids"/,/\]/d' -e 's/KimiK3Eagle3DraftModel/LlamaEagle3DraftModel/' \
    -e 's/"kimi_k3"/"kimi_linear"/' -e 's/"num_hidden_layers": 1/"num_hidden_layers": 8/' "$@" >"$nemo/config.json"
}
nemo_config
expect 1 "nemo/config.json: found a draft that NeMo Automodel wrote, which leaves fields unsaid" \
  --draft "$nemo" --out "$dir/e" --layout k3spec
expect 1 "found no draft of Kimi K3's that NeMo Automodel wrote" --draft "$own" --out "$dir/e" --from nemo
expect 2 "--layout: found engine with --from nemo" --draft "$nemo" --out "$dir/e" --from nemo --layout engine
[[ ! -e "$dir/e" ]] || fail "a refused run left $dir/e"
from_nemo=(--draft "$nemo" --out "$dir/of_nemo" --from nemo)
expect 0 "k3spec layout" "${from_nemo[@]}"
[[ "$output" == *"nemo/config.json: it does not say, so assumed as NeMo Automodel has it: aux_layer_ids [1,3,4],"* ]] ||
  fail "what was assumed is not said: $output"
# The run's own file, but for the steps that NeMo does not say and the element type.
diff <(grep -v '"ttt_steps"\|"dtype"' "$own/config.json") <(grep -v '"dtype"' "$dir/of_nemo/config.json") ||
  fail "another config.json than the run's own"
expect 0 "k3spec layout" "${from_nemo[@]}" --assume-layers 2,4,6 --assume-aux-stream residual_mixture \
  --assume-layer-ids layers_executed
tr -d ' \n' <"$dir/of_nemo/config.json" >"$dir/flat"
grep -q '"aux_layer_ids":\[2,4,6\],"aux_stream":"residual_mixture"' "$dir/flat" || fail "assumed, but lost: $(cat "$dir/flat")"
nemo_config -e 's/"hidden_size": 128/"hidden_size": 128, "residual_multiplier": 2/'
expect 0 "config.json: not known here, and so not heeded, though it may change what the model computes: 'residual_multiplier'" \
  "${from_nemo[@]}"
nemo_config -e 's/"hidden_act": "situ"/"hidden_act": "silu"/'
expect 1 "hidden_act: found \"silu\", wanted \"situ\"" "${from_nemo[@]}"

# A run's folder means its newest checkpoint, also in a copy that has a folder for its link; one without it is refused.
run="$dir/v3"
expect 0 "engine layout" --draft "$run" --out "$dir/of_run"
cmp "$dir/of_run/model.safetensors" "$dir/engine3/model.safetensors" || exit 1
cp -rL "$run" "$dir/copied"
expect 0 "note: $dir/copied/latest: a folder of its own" --draft "$dir/copied" --out "$dir/of_run"
rm -r "$dir/copied/latest"
expect 1 "$dir/copied/latest: found nothing, where a run has a link to its newest checkpoint, wanted a checkpoint by its name" \
  --draft "$dir/copied" --out "$dir/of_run"
if [[ -z "$python" ]]; then
  echo "python3 with torch and numpy is not there: the logits were not compared"
  exit 77
fi
