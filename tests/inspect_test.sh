#!/usr/bin/env bash
# What examples/inspect says and how it exits. $1: the program.
program="$1"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

expect 0 "total       884 tensors          1831696 elements          2954368 bytes in 2 files" "$tiny"
expect 0 "agrees with kimi-k3-tiny" "$tiny" --quiet --config kimi-k3-tiny
expect 0 $'\nmodel.norm.weight ' "$tiny" --prefix language_model.
expect 0 "--config" --help
expect 1 "hidden_size: found 128, wanted 512" "$tiny" --config kimi-k3-small
expect 1 "found 23 differences" "$tiny" --config kimi-k3
expect 1 "nowhere: found No such file or directory" nowhere
expect 1 "train.txt: header length: found" "$tiny/train.txt"
