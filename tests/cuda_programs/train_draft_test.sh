#!/usr/bin/env bash
# train_draft --device cuda, on the runtime that stands in for a card: every kind of draft, float and bfloat16, runs that
# go on there and here, and what is said and refused. Arguments: a C++ compiler, train_draft for cards, random_target.
set -euo pipefail
compiler="$1" program="$2" random_target="$3"
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT
fail() {
  echo "$1"
  exit 1
}

"$random_target" --out "$dir/model" >/dev/null
train=("$program" --target "$dir/model" --train README.md --heldout README.md --batch 2 --length 20 --eval-windows 2
  --save-every 2 --keep 9 --lr 0.01 --warmup 1 --progress none)
expect() {  # <status> <part of the output> <argument>...
  local status="$1" part="$2" found=0 output
  shift 2
  output="$("${train[@]}" "$@" 2>&1)" || found=$?
  [[ $found == "$status" && "$output" == *"$part"* && ($status == 0 || "$output" != *$'\n'*) ]] ||
    fail "$*: found status $found and: $output; wanted status $status and: $part"
}

# The driver's sentence comes first, with nothing left behind.
if [[ "$(ldconfig -p 2>/dev/null)" != *libcuda.so.1* ]]; then
  expect 1 "--device cuda: found no NVIDIA driver (libcuda.so.1 not found), wanted a device that CUDA runs on" \
    --device cuda --out "$dir/none" --steps 4 --layers 0,2,4
  [[ ! -e "$dir/none" ]] || fail "a refused run left something"
fi
mkdir "$dir/driver"
cat >"$dir/driver/driver.cpp" <<'DRIVER'
extern "C" int cuInit(unsigned) { return 0; }
extern "C" int cuDriverGetVersion(int* version) { *version = 13010; return 0; }
extern "C" int cuDeviceGetCount(int* count) { *count = 1; return 0; }
DRIVER
"$compiler" -shared -fPIC -o "$dir/driver/libcuda.so.1" "$dir/driver/driver.cpp"
export LD_LIBRARY_PATH="$dir/driver"

# Losses of steps and of held-out text, and the gradients' norms, in their order.
numbers() { grep -oE '"(loss|grad_norm)": *[^,}]*' "$1" | sed 's,.*: *,,'; }
near() {  # <parts of a number> <log> <log>: as many numbers, none of which is farther from the other's
  paste <(numbers "$2") <(numbers "$3") | awk -v within="$1" '
    NF != 2 { bad = 1 }
    { far = $1 - $2; if (far < 0) far = -far; if (far > within * $1 || $1 <= 0) bad = 1 }
    END { exit bad || NR < 3 }' || fail "numbers farther than $1 from each other: $(paste <(numbers "$2") <(numbers "$3"))"
}
same() {  # <checkpoint> <checkpoint>: the same draft and optimiser
  local file
  for file in model.safetensors trainer.safetensors config.json; do
    cmp "$1/$file" "$2/$file" || fail "$2: another $file"
  done
}

declare -A layers=([eagle3]=0,2,4 [dflash]=0,2,4 [dspark]=-1,1,4)
of_type() {  # <draft> <dtype> <device> <argument>...
  local draft="$1" dtype="$2" device="$3"
  shift 3
  expect 0 "trained " --draft "$draft" --layers "${layers[$draft]}" --dtype "$dtype" --device "$device" "$@"
}

for draft in eagle3 dflash dspark; do
  on="$dir/$draft"
  for device in cpu cuda; do
    of_type "$draft" float "$device" --out "$on-$device" --log "$on-$device.jsonl" --steps 4
  done
  near 1e-4 "$on-cpu.jsonl" "$on-cuda.jsonl"
  # Half the steps and the other half are all of them, bit for bit.
  of_type "$draft" float cuda --out "$on-half" --steps 4
  rm -r "$on-half/step-00000004" "$on-half/best" && ln -sfn step-00000002 "$on-half/latest"
  cp -r "$on-half" "$on-here"
  expect 0 "trained 4 of 4" --device cuda --out "$on-half" --resume
  same "$on-cuda/step-00000004" "$on-half/step-00000004"
  # What was begun on a card goes on on the host.
  expect 0 "trained 4 of 4" --device cpu --out "$on-here" --log "$on-here.jsonl" --resume
  tail -n "$(wc -l <"$on-here.jsonl")" "$on-cpu.jsonl" >"$on-rest.jsonl"
  near 1e-4 "$on-rest.jsonl" "$on-here.jsonl"
done

# bfloat16 has 8 bits: one rounding apart at most on the way to a loss that is kept in float.
for device in cpu cuda; do
  of_type eagle3 bfloat16 "$device" --out "$dir/b-$device" --log "$dir/b-$device.jsonl" --steps 2
done
near 0.0078125 "$dir/b-cpu.jsonl" "$dir/b-cuda.jsonl"

expect 0 "the draft on CPU standing in for a GPU; the target beside it on the host: instruction set " \
  --device cuda --threads 1 --out "$dir/threads" --log "$dir/threads.jsonl" --steps 4 --layers 0,2,4
same "$dir/eagle3-cuda/step-00000004" "$dir/threads/step-00000004"
# More than the card has is refused before a target is loaded: there is none any more.
mv "$dir/model" "$dir/moved"
expect 1 "on the card: found a plan of " --device cuda --out "$dir/large" --steps 1 --layers 0,2,4 --accumulate 9999999
