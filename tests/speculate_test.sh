#!/usr/bin/env bash
# What examples/speculate does with a draft of two steps, and what it refuses. $1: the program, $2: train_draft.
set -uo pipefail
program="$1"
train_draft="$2"
tiny=examples/data/k3-tiny
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT

fail() {
  echo "$*"
  exit 1
}
expect() {  # status, part of the output, arguments
  local status="$1" part="$2"
  shift 2
  output="$("$program" "$@" 2>&1)"
  local found=$?
  [[ $found -eq $status && "$output" == *"$part"* ]] ||
    fail "speculate $*: found status $found and: $output; wanted status $status and: $part"
}
refuse() {  # part of the only line, arguments
  expect 1 "$@"
  [[ "$output" != *$'\n'* ]] || fail "speculate ${*:2}: more than one line: $output"
}

"$train_draft" --target "$tiny" --out "$dir/run" --steps 2 --batch 2 --length 24 --ttt-steps 2 --eval-windows 2 \
  --progress none >"$dir/trained" 2>&1 || fail "train_draft failed: $(cat "$dir/trained")"
draft=(--target "$tiny" --draft "$dir/run/latest")
small=("${draft[@]}" --prompts 2 --prompt-length 20)

expect 0 "--draft" --help
expect 0 "the same tokens            yes, all of them" "${small[@]}" --tokens 12 --chain 3
expect 0 "the same tokens            yes, all of them" "${small[@]}" --tokens 2 --chain 16
expect 0 "tokens per target forward  none: each prompt's own forward gave its only token" "${small[@]}" --tokens 1
[[ "$output" != *nan* ]] || fail "one token: $output"

refuse "--device cuda: found " "${small[@]}" --device cuda
refuse "--tokens: found 0, wanted 1 to" "${draft[@]}" --tokens 0
refuse "--tokens: found 9223372036854775807, wanted 1 to" "${draft[@]}" --tokens 9223372036854775807
refuse "--chain: found 9223372036854775807, wanted 1 to 16" "${draft[@]}" --chain 9223372036854775807
refuse "--prompts: found 9223372036854775807, wanted 1 to" "${draft[@]}" --prompts 9223372036854775807
refuse "--prompt-length: found -1, wanted 1 to" "${draft[@]}" --prompt-length -1
refuse "nowhere/config.json: found No such file or directory" --target "$tiny" --draft "$dir/nowhere"
cp -rL "$dir/run/latest" "$dir/other"
sed 's/"hidden_size": 128/"hidden_size": 64/' "$dir/run/latest/config.json" >"$dir/other/config.json"
expect 1 "other/config.json: found" --target "$tiny" --draft "$dir/other"
[[ "$output" == *"hidden_size: found 64, wanted 128"* ]] || fail "another config: $output"
