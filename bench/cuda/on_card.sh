#!/usr/bin/env bash
# on_card.sh <folder>: the first minutes on a card, at most eight. Builds what was not built, runs the device tests, then
# compute-sanitizer's four tools over kernels written by hand, then the bench; each part has its own limit of time, and
# what one finds does not keep the next from running. <folder>/results.md is to be pasted into bench/RESULTS.md; beside
# it is what each part said. Exit status 1 when a part failed.
#
# on_card.sh --smoke <device tests> <bench> <model> <folder>: the same parts with programs built for what stands in for a
# card and few of their tests, so that the first minute on one is not spent on errors of this script.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Kernels that share memory or send values between threads, by the names of their tests.
with_barriers='*reduc*,*gradients of columns*,*embedding*,*loss*,*attention*,*matrix unit*'

smoke=0
if [[ "${1-}" == --smoke ]]; then
  (($# == 5)) || { echo "usage: on_card.sh --smoke <device tests> <bench> <model> <folder>" >&2 && exit 2; }
  smoke=1 tests="$2" bench="$3" model="$4"
  shift 4
fi
if (($# != 1)) || [[ "$1" == -* ]]; then
  echo "usage: on_card.sh <folder>" >&2
  exit 2
fi
mkdir -p "$1"
out="$(cd "$1" && pwd)"
failed=0
: >"$out/parts.md"

part() {  # <name> <seconds at most> <command>...
  local name="$1" limit="$2" begin=$SECONDS status=0 said=passed
  shift 2
  echo "== $name (at most $limit s)"
  timeout --kill-after=5 "$limit" "$@" >"$out/$name.log" 2>&1 || status=$?
  if ((status == 124 || status == 137)); then
    said="stopped after $limit s"
  elif ((status != 0)); then
    said="failed, exit status $status"
  fi
  ((status == 0)) || { failed=1 && tail -n 20 "$out/$name.log"; }
  printf '| %s | %d s | %s |\n' "$name" $((SECONDS - begin)) "$said" | tee -a "$out/parts.md"
}

if ((!smoke)); then
  build=build/card
  command -v nvidia-smi >/dev/null || { echo "on_card.sh: found no nvidia-smi, wanted a card and its driver" >&2 && exit 1; }
  [[ -e $build/CMakeCache.txt ]] || part configure 60 cmake -S . -B $build -D K3SPEC_CUDA=ON -D K3SPEC_BUILD_TESTS=ON \
    -D K3SPEC_BUILD_BENCH=ON -D K3SPEC_BENCH_PROGRAMS=OFF
  part build 240 cmake --build $build --parallel "$(nproc)" --target test_cuda_card bench_cuda bench_cuda_model
  tests=$build/tests/nvcc/test_cuda_card bench=$build/bench/cuda/bench_cuda model=$build/bench/cuda/bench_cuda_model
fi

few=()
if ((smoke)); then few=(--test-case='*embedding and its gradient*'); fi
part tests 60 "$tests" "${few[@]}"
count="$("$tests" --count --test-case="$with_barriers" 2>/dev/null | grep -oE 'filters: [0-9]+' | grep -oE '[0-9]+' || true)"
if [[ "${count:-0}" == 0 ]]; then
  echo "| sanitizer | | no test of $tests is called $with_barriers |" | tee -a "$out/parts.md"
  failed=1
else
  for tool in memcheck racecheck synccheck initcheck; do
    checker=(compute-sanitizer --tool "$tool" --error-exitcode 9)
    if [[ $tool == memcheck ]]; then checker+=(--report-api-errors no); fi  # tests provoke API errors
    chosen=(--test-case="$with_barriers")
    if ((smoke)); then checker=(env) chosen=("${few[@]}"); fi
    part "$tool" 45 "${checker[@]}" "$tests" "${chosen[@]}"
  done
fi
sizes=()
if ((smoke)); then sizes=(--smoke); fi
part bench 90 "$bench" "${sizes[@]}"
part model 30 "$model"

{
  if ((smoke)); then
    echo "## $(date +%F), no card: what stands in for one"
  else
    echo "## $(date +%F), $(nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total --format=csv,noheader | head -1)"
  fi
  printf '\n| part | time | |\n| --- | ---: | --- |\n'
  cat "$out/parts.md"
  echo
  cat "$out/bench.log"
} >"$out/results.md"
echo "$out/results.md"
exit $failed
