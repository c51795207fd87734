#!/usr/bin/env bash
# What examples/run.sh and tests/run.sh build, for which instruction set and where: copies of them run on a cmake and a
# ctest that write down how they were called.
set -euo pipefail
source="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
unset K3SPEC_MARCH K3SPEC_BUILD_DIR

mkdir -p "$dir"/{bin,cmake,examples,tests}
cp "$source/examples/run.sh" "$dir/examples"
cp "$source"/tests/{run.sh,count.awk} "$dir/tests"
echo >"$dir/cmake/install_packages.sh"
cat >"$dir/bin/cmake" <<'STAND_IN'
#!/usr/bin/env bash
echo "cmake $*" >>"$CALLS"
if [[ "$1" == --build ]]; then exit 0; fi
mkdir -p "$4/examples" && touch "$4/CMakeCache.txt"
for program in train_draft speculate plot_training; do
  printf '#!/usr/bin/env bash\necho "%s $*" >>"$CALLS"\n' "$4/examples/$program" >"$4/examples/$program"
  chmod +x "$4/examples/$program"
done
STAND_IN
printf '#!/usr/bin/env bash\necho "ctest $*" >>"$CALLS"\n' >"$dir/bin/ctest"
chmod +x "$dir/bin"/*
export PATH="$dir/bin:$PATH" CALLS="$dir/calls"

called() {  # what all calls must have in them, each on a line of their own, in this order; command
  local wanted="$1" line
  shift
  : >"$CALLS"
  "$@" >"$dir/log" 2>&1 || true  # no test runs: tests/run.sh fails
  exec 3<"$CALLS"
  while IFS= read -r wanted_line; do
    while IFS= read -r line <&3 || { echo "$*: no call '$wanted_line' in:" && cat "$CALLS" "$dir/log" && exit 1; }; do
      # shellcheck disable=SC2053
      if [[ "$line" == $wanted_line ]]; then break; fi
    done
  done <<<"$wanted"
}
never() {  # what no call may have in it
  if grep -F -e "$1" "$CALLS"; then echo "found a call with '$1'" && exit 1; fi
}

job="$dir/examples/run.sh" tests="$dir/tests/run.sh"
called 'cmake -S . -B build/native * -D K3SPEC_MARCH=native *
cmake --build build/native *
build/native/examples/train_draft * --output build/drafts-k3-tiny/dspark --optimizer muon --lr 0.02 --muon-scale original
build/native/examples/speculate * --json build/drafts-k3-tiny/decoding.json
build/native/examples/plot_training dspark=* --decoding build/drafts-k3-tiny/decoding.json --out build/drafts-k3-tiny/report.html' "$job" --draft dspark
called 'cmake -S . -B build * -D K3SPEC_MARCH=x86-64-v3 *
cmake --build build *
ctest --test-dir build *' "$tests"
never native

# One after the other, neither changes what the other one has built, and both again are as they were.
called 'cmake -S . -B build/native * -D K3SPEC_MARCH=native *' "$job" --resume
never "-B build "
never --optimizer
called 'cmake * -D K3SPEC_PROGRAM_DTYPES=float
build/native/examples/train_draft * --output build/drafts-k3-tiny/dspark --lr 0.01
build/native/examples/speculate *' "$job" --draft dspark --lr 0.01
called 'build/native/examples/train_draft * --optimizer muon --lr 0.02 --muon-scale adamw --muon-momentum 0.9
build/native/examples/speculate *' "$job" --draft dspark --muon-scale adamw --muon-momentum 0.9
never original
called 'build/native/examples/train_draft * --optimizer muon * --ema 0.999
build/native/examples/speculate *' "$job" --draft dspark --ema 0.999
called 'cmake * -D K3SPEC_PROGRAM_CUDA=ON -D CMAKE_CUDA_ARCHITECTURES=native *
build/native/examples/train_draft --device cuda --threads 2 *
build/native/examples/speculate --threads 2 *' "$job" --draft dspark --device cuda --threads 2
called 'cmake * -D K3SPEC_PROGRAM_CUDA=OFF *' "$job" --draft dspark
# Files are meant where the caller is.
called "build/native/examples/train_draft * --heldout code=$PWD/a=b.txt --heldout $PWD/c.txt --heldout /d=e.txt
build/native/examples/speculate *" "$job" --draft dspark --heldout code=a=b.txt --heldout c.txt --heldout=/d=e.txt
touch "$dir/f=g.txt"
(cd "$dir" && called "build/native/examples/train_draft * --heldout $PWD/f=g.txt
build/native/examples/speculate *" "$job" --draft dspark --heldout f=g.txt) || exit 1
called 'cmake * -D K3SPEC_PROGRAM_DTYPES=float;bfloat16
build/native/examples/train_draft * --dtype bfloat16' "$job" --resume --dtype bfloat16
mkdir -p "$dir/build/drafts-k3-tiny/dspark/latest"
echo '  "dtype": "bfloat16",' >"$dir/build/drafts-k3-tiny/dspark/latest/config.json"
called 'cmake * -D K3SPEC_PROGRAM_DTYPES=float;bfloat16
build/native/examples/train_draft *' "$job" --resume
called 'cmake -S . -B build *' "$tests"
never native

# A folder that was configured by hand is tested as it is.
never K3SPEC_MARCH

# Who calls them chooses, and the next one need not.
called 'cmake -S . -B build/x86-64-v4 * -D K3SPEC_MARCH=x86-64-v4 *
build/x86-64-v4/examples/train_draft * --output build/drafts-k3-tiny/*' env K3SPEC_MARCH=x86-64-v4 "$job" --resume
called 'cmake -S . -B build/x86-64-v2 * -D K3SPEC_MARCH=x86-64-v2 *
ctest --test-dir build/x86-64-v2 *' env K3SPEC_MARCH=x86-64-v2 "$tests"
called 'cmake -S . -B build/native * -D K3SPEC_MARCH=native *' "$job" --resume
called 'cmake -S . -B elsewhere/native * -D K3SPEC_MARCH=native *
elsewhere/native/examples/train_draft * --output elsewhere/drafts-k3-tiny/eagle3 *' env K3SPEC_BUILD_DIR=elsewhere "$job"
called 'cmake -S . -B elsewhere * -D K3SPEC_MARCH=x86-64-v3 *' env K3SPEC_BUILD_DIR=elsewhere "$tests"
