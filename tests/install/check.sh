#!/usr/bin/env bash
# check.sh <route> <source> <build> <scratch> <cmake option>...: configures, builds and runs the consumer.
set -euo pipefail
route="$1" source="$2" build="$3" scratch="$4"
shift 4
consumer="$source/tests/install/consumer"
rm -rf "$scratch"

fail() {
  echo "$1"
  exit 1
}

case "$route" in
  find_package)
    prefix="$scratch/prefix"
    cmake --install "$build" --prefix "$prefix" >/dev/null
    if grep -rF "$source" "$prefix"; then fail "the installed files name the source folder"; fi
    set -- "$@" -D "CMAKE_PREFIX_PATH=$prefix"
    ;;
  add_subdirectory) set -- "$@" -D "K3SPEC_SOURCE=$source" ;;
esac

cmake -S "$consumer" -B "$scratch/build" "$@"
cmake --build "$scratch/build" --parallel "$(nproc)"
"$scratch/build/consumer"
if [[ -e "$scratch/build/consumer_cuda" ]]; then
  "$scratch/build/consumer_cuda"
elif [[ " $* " == *CONSUMER_CUDA=ON* ]]; then
  fail "no consumer_cuda was built"
fi

# The instruction set is the consumer's choice.
options() { cmake -S "$consumer" -B "$scratch/options" "$@" | grep -- '-- k3spec options:'; }
found="$(options "$@" -D K3SPEC_MARCH=)"
[[ "$found" == *-ffp-contract=off* ]] || fail "-ffp-contract=off is missing: $found"
[[ "$found" != *-march* ]] || fail "K3SPEC_MARCH is empty, but: $found"
if [[ "$(uname -m)" == x86_64 ]]; then
  found="$(options "$@" -D K3SPEC_MARCH=x86-64-v2)"
  [[ "$found" == *-march=x86-64-v2* && "$found" != *-march=x86-64-v3* ]] || fail "wanted x86-64-v2, but: $found"
fi

# Without CUDA k3spec is as it was, has no k3spec::cuda, and says so to whom insists.
if [[ "$route" == find_package ]]; then
  set -- "$@" -D CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON
  found="$(cmake -S "$consumer" -B "$scratch/no_cuda" "$@" -D CONSUMER_CUDA=OFF)" || fail "without CUDA: $found"
  [[ "$found" == *"k3spec::cuda: no"* ]] || fail "k3spec::cuda without CUDA: $found"
  if found="$(cmake -S "$consumer" -B "$scratch/no_cuda" "$@" -D CONSUMER_CUDA=ON 2>&1)"; then
    fail "COMPONENTS cuda is found without CUDA: $found"
  fi
fi
