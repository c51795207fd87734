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
# A name that would clear the screen, and one of a megabyte, are shown so that a terminal and a reader can bear it.
empty_tensor() {  # its name, and a metadata's, in JSON
  safetensors "{\"__metadata__\":{\"$1\":\"$1\"},\"$1\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"
}
empty_tensor '\u001b[2J\u009bname' >"$dir/names.safetensors"
expect 0 '\x1b[2J\xc2\x9bname' "$dir/names.safetensors"
[[ "$output" != *$'\e'* && "$output" != *$'\xc2\x9b'* ]] || fail "a control character reaches the terminal"
empty_tensor "$(head -c 1000000 /dev/zero | tr '\0' x)" >"$dir/names.safetensors"
expect 0 "x[...]x" "$dir/names.safetensors"
[[ ${#output} -lt 5000 ]] || fail "${#output} bytes of output"
mkfifo "$dir/fifo.safetensors"
expect 1 "fifo.safetensors: found a FIFO, wanted a regular file" "$dir/fifo.safetensors"
expect 1 "nowhere: found No such file or directory" nowhere
expect 1 "train.txt: header length: found" "$tiny/train.txt"
