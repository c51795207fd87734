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
[[ "$output" != *" tensors "* ]] || fail "a checkpoint that is refused was listed: $output"
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
# What is odd about a checkpoint but does not matter is noted; what its config.json says otherwise is refused.
mkdir "$dir/odd" && cp "$tiny"/*.json "$dir/odd" && ln -s "$PWD/$tiny"/*.safetensors "$dir/odd"
sed -i 's/"total_size": [0-9]*/"total_size": 7/' "$dir/odd/model.safetensors.index.json"
expect 0 "metadata.total_size: 7, where the tensors of its shards take 2954368 bytes" "$dir/odd" --quiet
sed -i 's/"hidden_size": 128,/"hidden_size": 128, "residual_multiplier": 2,/' "$dir/odd/config.json"
expect 0 "so not heeded, though it may change what the model computes: 'residual_multiplier'" "$dir/odd" --config kimi-k3-tiny
sed -i 's/"noaux_tc"/"greedy"/; s/"compressed-tensors"/"gptq"/' "$dir/odd/config.json"
expect 1 'topk_method: found "greedy", wanted "noaux_tc"' "$dir/odd" --config kimi-k3-tiny
expect 1 'quantization_config.quant_method: found "gptq"' "$dir/odd" --config kimi-k3-tiny
cp "$dir/odd/model-00001-of-00002.safetensors" "$dir/odd/model.safetensors"
expect 0 "model.safetensors is read, and not the files that model.safetensors.index.json beside it names" "$dir/odd" --quiet
