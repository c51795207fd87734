#!/usr/bin/env bash
# What examples/inspect says and how it exits. $1: the program, then a compiler and its options, to read headers with.
program="$1"
shift
read_header=("$@")
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

# A config's type for a folder: the header compiles as long as fields and tensors agree.
mine="$dir/mine.hpp"
emit() {  # exit status, part of the output, folder, name
  expect "$1" "$2" "$3" --emit-config "$mine" --name "$4"
}
compile() { "${read_header[@]}" -x c++ "$mine" 2>&1; }
emit 0 "$mine: my::Mine, a config for $tiny" "$tiny" my::Mine
[[ "$output" == *"note: target_mla_norm_eps: taken from KimiK3Target"* ]] || fail "no note of a preset's field: $output"
output="$(compile)" || fail "an emitted header does not compile: $output"
sed -i 's/moe_intermediate_size, 64/moe_intermediate_size, 65/' "$mine"
output="$(compile)" && fail "a header whose fields and tensors disagree compiles"
[[ "$output" == *"Mine: config.json describes another number of parameters than the checkpoint's tensors hold"* ]] ||
  fail "no word of parameters: $output"
emit 0 "dspark_k3_tiny" tests/data/drafts/dspark_k3_tiny Draft
grep -q 'struct Draft : ::k3spec::configs::DSpark<' "$mine" || fail "a draft's header: $(cat "$mine")"
# Names and files that are not meant, and folders that say no config: what stands there stays.
cp "$mine" "$dir/before.hpp"
emit 2 "--name: found 'class', wanted no keyword of C++" "$tiny" class
emit 2 "--name: found '_x', wanted a name that C++ does not reserve" "$tiny" _x
expect 2 "--name: found it without --emit-config" "$tiny" --name Mine
expect 2 "--emit-config: found it without --name" "$tiny" --emit-config "$mine"
emit 1 "nowhere/config.json: found No such file" nowhere Mine
rm "$dir"/odd/model.safetensors
emit 1 'topk_method: found "greedy"' "$dir/odd" Mine
[[ "$output" == *'found "gptq"'* && "$output" == *"config.json: found 2 fields that no config type here can have so"* ]] ||
  fail "not all that no config can have: $output"
cp "$tiny/config.json" "$dir/odd/config.json"
sed -i 's/"hidden_size": 128,/"residual_multiplier": 2,/' "$dir/odd/config.json"
emit 1 "hidden_size: found nothing, wanted a whole number" "$dir/odd" Mine
sed -i 's/"residual_multiplier": 2,/"hidden_size": 128, &/' "$dir/odd/config.json"
emit 0 "what the model computes: 'residual_multiplier'" "$dir/odd" Mine
grep -q "^// .*'residual_multiplier'$" "$mine" || fail "the header does not name the field: $(cat "$mine")"
sed -i 's/"intermediate_size": 256/"intermediate_size": 255/' "$dir/odd/config.json"
emit 0 "disagree, so that the header is not going to compile: 3 differ, first 'model.layers.0.mlp.gate_proj" "$dir/odd" Mine
cp "$dir/before.hpp" "$mine"
head -c 500 "$tiny/config.json" >"$dir/odd/config.json"
emit 1 "config.json: found a parse error" "$dir/odd" Mine
cmp -s "$mine" "$dir/before.hpp" || fail "a refusal changed a header"
echo "int x;" >"$mine"
emit 1 "--emit-config: found $mine, a file that is not a config of inspect's" "$tiny" Mine
[[ "$(cat "$mine")" == "int x;" ]] || fail "a file of someone's was written over"
mkdir "$dir/copy" && cp "$tiny"/* "$dir/copy"
mine="$dir/copy/config.json"
emit 1 "--emit-config: found $mine, which is also $mine of checkpoint, wanted another one" "$dir/copy" Mine
cmp -s "$mine" "$tiny/config.json" || fail "a config.json was written over"
