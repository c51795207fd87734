#!/usr/bin/env bash
# What examples/inspect says and how it exits. $1: the program.
set -uo pipefail
inspect="$1"
tiny=examples/data/k3-tiny

expect() {  # status, part of the output, arguments
  local status="$1" part="$2" output
  shift 2
  output="$("$inspect" "$@" 2>&1)"
  local found=$?
  if [[ $found -ne $status || "$output" != *"$part"* ]]; then
    echo "inspect $*: found status $found and: $output"
    echo "wanted status $status and: $part"
    exit 1
  fi
}

expect 0 "total       884 tensors          1831696 elements          2954368 bytes in 2 files" "$tiny"
expect 0 "agrees with kimi-k3-tiny" "$tiny" --quiet --config kimi-k3-tiny
expect 0 $'\nmodel.norm.weight ' "$tiny" --prefix language_model.
expect 0 "--config" --help
expect 1 "hidden_size: found 128, wanted 512" "$tiny" --config kimi-k3-small
expect 1 "found 23 differences" "$tiny" --config kimi-k3
expect 1 "nowhere: found No such file or directory" nowhere
expect 1 "train.txt: header length: found" "$tiny/train.txt"
