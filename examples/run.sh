#!/usr/bin/env bash
# The main job: installs missing packages, builds the examples, trains a draft for k3-tiny from random values and lets it
# draft for the target on held-out text. Extra arguments go to train_draft, e.g. `examples/run.sh --minutes 1`, --resume
# or --out DIR; speculate gets the same target, draft, device and threads. A draft of an earlier run is moved, not
# removed.
set -euo pipefail
start="$PWD"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build="${K3SPEC_BUILD_DIR:-build}"

target=examples/data/k3-tiny draft="" resume="" help="" device=cpu
threads=()
here() { [[ "$1" == /* ]] && echo "$1" || echo "$start/$1"; }  # a path as the caller meant it
arguments=()
while (($#)); do
  name="$1" value=""
  case "$1" in
    --target=* | --out=* | --output=* | --device=* | --threads=* | --train=* | --heldout=* | --log=*)
      name="${1%%=*}" value="${1#*=}"
      shift ;;
    --target | --out | --output | --device | --threads | --train | --heldout | --log)
      if (($# < 2)); then echo "run.sh: $1: found no value, wanted one" >&2; exit 1; fi
      value="$2"
      shift 2 ;;
    *) shift ;;
  esac
  case "$name" in
    --target) target="$(here "$value")" ;;
    --out | --output) draft="$(here "$value")" ;;
    --device) device="$value" ;;
    --threads) threads=(--threads "$value") ;;
    --train | --heldout | --log) arguments+=("$name" "$(here "$value")") ;;
    --resume) resume=1 arguments+=("$name") ;;
    -h | --help) help=1 ;;
    *) arguments+=("$name") ;;
  esac
done

bash cmake/install_packages.sh
cmake -S . -B "$build" -G Ninja
cmake --build "$build" --parallel "$(nproc)" --target train_draft speculate

if [[ -n "$help" ]]; then exec "$build/examples/train_draft" --help; fi
# A directory of the caller's own is never moved: train_draft refuses one that has a run.
if [[ -z "$draft" ]]; then
  draft="$build/draft-k3-tiny"
  if [[ -e "$draft" && -z "$resume" ]]; then
    number=1
    while [[ -e "$draft.$number" ]]; do number=$((number + 1)); done
    mv "$draft" "$draft.$number"
    echo "The draft of an earlier run is now $draft.$number (--resume would go on with it instead)"
  fi
fi
shared=(--device "$device" "${threads[@]}" --target "$target")
"$build/examples/train_draft" "${shared[@]}" --output "$draft" "${arguments[@]}"
"$build/examples/speculate" "${shared[@]}" --draft "$draft/latest"
