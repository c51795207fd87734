#!/usr/bin/env bash
# The main job: installs missing packages, builds the examples, trains an EAGLE-3, a DFlash and a DSpark draft for k3-tiny
# from random values, lets each draft for the target on held-out text, with as many tokens at a time as it was trained for
# and with as many as pay, and reports how they learned (report.html). `--draft KIND` takes one of them. Other arguments go to train_draft,
# e.g. `examples/run.sh --minutes 1`, --resume or --out DIR; speculate gets the same target, drafts and threads. With
# `--device cuda` drafts are trained on a card, and decode on the host.
# Drafts of an earlier run are moved, not removed. The programs are built for this machine, or for what K3SPEC_MARCH in the
# environment names, in a folder of that name: the tests' build folder, which is for any x86-64-v3, is left alone.
set -euo pipefail
start="$PWD"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root="${K3SPEC_BUILD_DIR:-build}"
march="${K3SPEC_MARCH:-native}"
build="$root/$march"

give_up() {  # a command line that cannot be meant
  echo "run.sh: $*" >&2
  exit 2
}

target=examples/data/k3-tiny out="" resume="" help="" device=cpu log=""
kinds=(eagle3 dflash dspark)
threads=()
dtypes=float  # what is not asked for is not compiled
# Muon learns these in fewer steps than AdamW (bench/RESULTS.md). A rate or an optimizer of the caller's own, and a run that
# has them already, go before.
optimizer=(--optimizer muon --lr 0.02) scale=(--muon-scale original)
here() { [[ "$1" == /* ]] && echo "$1" || echo "$start/$1"; }  # a path as the caller meant it
arguments=()
while (($#)); do
  name="$1" value=""
  case "$1" in
    --draft=* | --target=* | --out=* | --output=* | --device=* | --threads=* | --train=* | --heldout=* | --log=* | \
      --init-from=* | --vocabulary-from=*)
      name="${1%%=*}" value="${1#*=}"
      shift ;;
    --draft | --target | --out | --output | --device | --threads | --train | --heldout | --log | --init-from | \
      --vocabulary-from)
      (($# >= 2)) || give_up "$1: found no value, wanted one"
      value="$2"
      shift 2 ;;
    *) shift ;;
  esac
  case "$name" in
    --dtype | --dtype=*) dtypes="float;bfloat16" ;;
    --muon-scale | --muon-scale=*) scale=() ;;
    --optimizer | --optimizer=* | --lr | --lr=* | --resume) optimizer=() ;;
  esac
  case "$name" in
    --draft) kinds=("$value") ;;
    --target) target="$(here "$value")" ;;
    --out | --output) out="$(here "$value")" ;;
    --device) device="$value" ;;
    --threads) threads=(--threads "$value") ;;
    --heldout)  # FILE or NAME=FILE
      if [[ "$value" == *=* && "${value%%=*}" != */* && ! -e "$(here "$value")" ]]; then
        arguments+=("$name" "${value%%=*}=$(here "${value#*=}")")
      else
        arguments+=("$name" "$(here "$value")")
      fi ;;
    --train | --init-from | --vocabulary-from) arguments+=("$name" "$(here "$value")") ;;
    --log) log="$(here "$value")" ;;
    --resume) resume=1 arguments+=("$name") ;;
    -h | --help) help=1 ;;
    *) arguments+=("$name") ;;
  esac
done
((${#optimizer[@]} == 0)) || optimizer+=("${scale[@]}")
if [[ -n "$resume" ]] && grep -qs '"dtype": "bfloat16"' "${out:-$root/drafts-k3-tiny}"/*/latest/config.json; then
  dtypes="float;bfloat16"
fi
if [[ -n "$log" ]]; then
  ((${#kinds[@]} == 1)) || give_up "--log: found one file for ${#kinds[@]} drafts, wanted it with --draft"
  arguments+=(--log "$log")
fi

# What is trained on a card is decoded on the host.
cards=(-D K3SPEC_PROGRAM_CUDA=OFF)
if [[ "$device" == cuda ]]; then cards=(-D K3SPEC_PROGRAM_CUDA=ON -D CMAKE_CUDA_ARCHITECTURES=native); fi

bash cmake/install_packages.sh
cmake -S . -B "$build" -G Ninja -D K3SPEC_MARCH="$march" -D K3SPEC_BUILD_EXAMPLES=ON \
  "${cards[@]}" -D K3SPEC_PROGRAM_DTYPES="$dtypes"
cmake --build "$build" --parallel "$(nproc)" --target train_draft speculate plot_training

if [[ -n "$help" ]]; then exec "$build/examples/train_draft" --help; fi
# A directory of the caller's own is never moved: train_draft refuses one that has a run.
if [[ -z "$out" ]]; then
  out="$root/drafts-k3-tiny"
  # Another job that is at work there would go on in the folder that is moved. The lock goes with this job's processes.
  alone() {
    exec 8<"$out"
    if ! command -v flock >/dev/null || flock --nonblock 8; then return; fi
    give_up "$out: found a job that is at work in it, wanted to be alone; --out DIR is another place"
  }
  if [[ -e "$out" && -z "$resume" ]]; then
    alone
    number=1
    while [[ -e "$out.$number" ]]; do number=$((number + 1)); done
    mv "$out" "$out.$number"
    echo "The drafts of an earlier run are now $out.$number (--resume would go on with them instead)"
  fi
  mkdir -p "$out"
  alone
fi
shared=("${threads[@]}" --target "$target")
drafts=() logs=()
for kind in "${kinds[@]}"; do
  "$build/examples/train_draft" --device "$device" "${shared[@]}" --draft "$kind" --output "$out/$kind" "${optimizer[@]}" \
    "${arguments[@]}"
  drafts+=(--draft "$out/$kind/latest")
  logs+=("$kind=${log:-$out/$kind/train.jsonl}")
done
"$build/examples/speculate" "${shared[@]}" "${drafts[@]}" --adaptive --json "$out/decoding.json"
"$build/examples/plot_training" "${logs[@]}" --decoding "$out/decoding.json" --out "$out/report.html"
