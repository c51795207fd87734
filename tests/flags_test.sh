#!/usr/bin/env bash
# What the programs say of command lines that cannot be meant, and of files and folders that are not there: one line on
# standard error, naming the flag, what was found and what is wanted, before anything is loaded or written. A row of the
# table is a command line, its exit status and the line. $1: train_draft, $2: speculate, $3: convert_draft, $4: inspect,
# $5: plot_training, $6: capture.
train_draft="$1" speculate="$2" convert_draft="$3" inspect="$4" plot_training="$5" capture="$6"
program="$train_draft"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

row() {  # exit status, the line but for the program's name (a * stands for anything), program, arguments
  local status="$1" line="$2" found
  program="${!3}" line="$3: $line"
  shift 3
  output="$("$program" "$@" 2>&1 >"$dir/out")"
  found=$?
  # shellcheck disable=SC2053
  [[ $found -eq $status && "$output" == $line && "$output" != *$'\n'* && ! -s "$dir/out" ]] ||
    fail "$(basename "$program") $*: found status $found and '$output' and '$(head -c 500 "$dir/out")'; wanted $status and '$line'"
}

# Files that are as they should be, but for the target, which has no tensors: nothing below comes as far as loading it.
mkdir "$dir/target" && cp "$tiny"/{config.json,train.txt,heldout.txt} "$dir/target"
train=(train_draft --target "$dir/target" --out "$dir/e")
decode=(speculate --target "$dir/target" --draft "$dir/draft")
convert=(convert_draft --draft "$dir/draft" --out "$dir/e")
plot=(plot_training "a=$dir/log" --out "$dir/e")
show=(inspect "$tiny")
keep=(capture --target "$dir/target" --out "$dir/e")
echo '{"step":1,"heldout":{"accept_length":2}}' >"$dir/log"

# Every program and every flag that its --help names.
several=" train_draft--heldout speculate--draft speculate--stop speculate--stop-token speculate--logit-bias "
not_numbers=('' ' 1' 1x 0x10 -- $'\e[1m' 1e400)
not_integers=(1e3 99999999999999999999)
not_lists=('' 1,,2 1,99999999999999999999)

check_flag() {  # flag, what --help calls its value, the command line
  local flag="$1" type="$2" value=1 values=() given="" found=""
  shift 2
  for given in "$@"; do [[ "$given" != "$flag" ]] || found=1; done
  row 2 "$flag: found no value, wanted one" "$@" "$flag"
  row 2 "$flag: found '', wanted a value" "$@" "$flag=" 1
  case "$type" in
    INT*) values=("${not_numbers[@]}" "${not_integers[@]}") ;;
    FLOAT*) values=("${not_numbers[@]}" nan) ;;
    N,N*) values=("${not_lists[@]}") ;;
    "{"*)
      values=(neither '')
      value="${type#\{}" value="${value%%[,\}]*}" ;;
    PATH*)
      row 2 "$flag: found no value before --help, wanted a value" "$@" "$flag" --help
      [[ -n "$found" ]] || row 2 "$flag: found '', wanted a path" "$@" "$flag" '' ;;
  esac
  local bad
  for bad in "${values[@]}"; do row 2 "$flag: found *, wanted *" "$@" "$flag" "$bad"; done
  [[ "$several" == *" $1$flag "* || "$type" == TEXT* ]] ||
    row 2 "$flag: found it [23] times, wanted it once" "$@" "$flag" "$value" "$flag" "$value"
}

for name in train decode convert plot show keep; do
  declare -n arguments="$name"
  program="${!arguments[0]}"
  expect 0 "${arguments[0]} of k3spec 0." --version
  [[ "$output" =~ ", built for "(x86-64|aarch64|no level)[^$'\n']*$ ]] || fail "--version: $output"
  set="${output#*, built for }"
  expect 0 "Exit status: 0 done; 1 refused for what was found in files or on the machine, or failed; 2 a command line" --help
  help="$output"
  [[ "$help" == *$'\n'"Built for the instruction set ${set%% (*}."* ]] || fail "--help does not say '${set%% (*}': $help"
  for flag in --version --help; do
    row 2 "$flag: found a value, wanted none: it has no value" "${arguments[@]}" $flag=3
  done
  row 2 "--stepz: found a flag that is not known, wanted one that --help names" "${arguments[@]}" --stepz=5
  row 2 "-x: found a flag that is not known, wanted one that --help names" "${arguments[@]}" -x
  row 2 '--\\x1b*2J: found a flag that is not known, *' "${arguments[@]}" --$'\e[2J'
  [[ $name == plot ]] || row 2 "'more': found an argument that belongs to no flag, *" "${arguments[@]}" more
  flags=0
  while read -r flag type; do
    check_flag "${flag%%,--*}" "$type" "${arguments[@]}"
    flags=$((flags + 1))
  done < <(grep -oE '^  --[a-z0-9,-]+ [A-Z{][^ ]*' <<<"$help")
  while read -r flag; do
    row 2 "$flag: found it 2 times, wanted it once" "${arguments[@]}" "$flag" "$flag"
    row 2 "$flag: found a value, wanted none: it has no value" "${arguments[@]}" "$flag=maybe"
    flags=$((flags + 1))
  done < <(grep -oE '^  --[a-z-]+  ' <<<"$help" | grep -v -- '--version')
  ((flags >= 2 || ${#arguments[@]} > 3)) || fail "$program --help names no flags: $help"
done

# What is missing, and numbers out of range.
row 2 "--target: found nothing, wanted The target's checkpoint, a directory, or --features" train_draft --out "$dir/e"
row 2 "--target: found nothing, wanted The target's checkpoint, a directory" capture --out "$dir/e"
row 2 "--out: found nothing, wanted *" train_draft --target "$dir/target"
row 2 "--packing: found through_target, wanted none or apart: *" "${keep[@]}" --packing through_target
row 2 "--sampling: found packed with packing none, wanted packing apart: *" "${keep[@]}" --sampling packed
row 2 "--layers: aux layer id: found 8, wanted 0 to 7*" "${keep[@]}" --layers 1,2,8
row 2 "--draft: found dspark and --config k3_tiny::DFlash, wanted *" \
  "${keep[@]}" --draft dspark --config k3_tiny::DFlash
row 2 "--out: found '', wanted a path" train_draft --target "$dir/target" --out ''
row 2 "--draft: found nothing, wanted *" speculate
row 2 "series: found nothing, wanted NAME=LOG *" plot_training --out "$dir/e"
row 2 "series: found 'a=', wanted NAME=LOG" plot_training a= --out "$dir/e"
row 2 "checkpoint: found nothing, wanted *" inspect
most_bytes="$(head -c 30000 /dev/zero | tr '\0' 7)"
row 2 "--steps: found 7777777*\[...\]7777777*, wanted 1 to 4294967296" "${train[@]}" --steps "$most_bytes"
[[ ${#output} -lt 200 ]] || fail "${#output} bytes of one number"
row 2 "--steps: found 99999999999999999999, wanted 1 to 4294967296" "${train[@]}" --steps 99999999999999999999
row 2 "--seed: found '-1', wanted a whole number, 0 to 2^64 - 1" "${train[@]}" --seed -1
row 2 "--seed: found 18446744073709551616, wanted 0 to 2^64 - 1" "${train[@]}" --seed 18446744073709551616
row 2 "--minutes: found nan, wanted a number > 0" "${train[@]}" --minutes nan
row 2 "--minutes: found inf, wanted a number > 0" "${train[@]}" --minutes inf
row 2 "--minutes: found -3, wanted a number > 0" "${train[@]}" --minutes -3
row 2 "--clip: found 1e400, wanted a number > 0 (infinity never clips), neither larger *" "${train[@]}" --clip 1e400
row 2 "--clip: found 0e400, wanted a number > 0 (infinity never clips)" "${train[@]}" --clip 0e400
row 2 "--eval-windows: found -1, wanted at least 1" "${train[@]}" --eval-windows -1
row 2 "--keep: found 0, wanted at least 1" "${train[@]}" --keep 0
row 2 "--save-every: found -1, wanted at least 0" "${train[@]}" --save-every -1
row 2 "--eval-every: found -1, wanted at least 0" "${train[@]}" --eval-every -1
row 2 "--length: found 1, wanted at least 2" "${train[@]}" --length 1
row 2 "--lr: found -0.1, wanted a number >= 0" "${train[@]}" --lr -0.1
row 2 "--beta1: found 1, wanted at least 0, below 1" "${train[@]}" --beta1 1
row 2 "--threads: found 0, wanted 1 to 4096" "${train[@]}" --threads 0
row 2 "--batch and --length: found 1073741824 windows of 2, wanted at most 2147483647 tokens a step" \
  "${train[@]}" --steps 1 --batch 1073741824 --length 2
row 2 "--accumulate: found 9223372036854775807 batches of 1536 tokens, wanted *" \
  "${train[@]}" --steps 1 --accumulate 9223372036854775807
row 2 "--warmup: found 1, wanted at least 2 with --minutes: *" "${train[@]}" --warmup 1

# What does not go together, or has nothing to change.
row 2 "--minutes: found it with --steps, wanted one of them" "${train[@]}" --minutes 1 --steps 1
row 2 "--init-from: found it with --resume, wanted one of them" "${train[@]}" --resume --init-from "$dir/d"
row 2 "--prefix-base: found it without --variable-prefix, *" "${train[@]}" --draft dflash --prefix-base 0.5
for more in --prefix-base "--lk-kl-scale" "--lk-kl-decay"; do
  row 2 "$more: found it with*" "${train[@]}" --init-from "$dir/d" $more 0.5
done
row 2 "--uneven-experts: found it with one process, *" "${train[@]}" --uneven-experts
row 2 "--ttt-steps: found it with --draft dspark, wanted --draft eagle3" "${train[@]}" --draft dspark --ttt-steps 2
row 2 "--muon-momentum: found it with --optimizer adamw, wanted --optimizer muon" "${train[@]}" --muon-momentum 0.9
row 2 "--ema: found 1, wanted more than 0, below 1" "${train[@]}" --ema 1
row 2 "--ema: found 0, wanted more than 0, below 1" "${train[@]}" --ema 0
row 2 "--muon-momentum: found 1, wanted at least 0, below 1" "${train[@]}" --optimizer muon --muon-momentum 1
row 2 "--lk-kl-scale: found it with --lk none, wanted --lk lambda" "${train[@]}" --lk-kl-scale 0.5
row 2 "--layers: aux layers: found 2, wanted 3" "${train[@]}" --layers 1,2
row 2 "--layers: aux layer id: found 9223372036854775807, wanted 0 to 7*" "${train[@]}" --layers 1,2,9223372036854775807
row 2 "--top-k: found it with --temperature 0, *" "${decode[@]}" --top-k 5
row 2 "--verification: found it with --temperature 0, *" "${decode[@]}" --verification block
row 2 "--temperature: found 1e-07, wanted 0, or 1e-06 to 1000000" "${decode[@]}" --temperature 1e-07
row 2 "--logit-bias: found nan, wanted *" "${decode[@]}" --logit-bias 1 nan
row 2 "--layer-ids: found it with --layout k3spec, wanted --layout engine" \
  "${convert[@]}" --layout k3spec --layer-ids after_layer_0

# Places for what is written, before anything is read.
touch "$dir/file" && mkdir "$dir/closed" && ln -s nowhere "$dir/dangling"
row 1 "--out: $dir/file: found a file, wanted a folder, or a place for one" train_draft --target "$dir/target" --out "$dir/file"
row 1 "--out: $dir/file/a/b: found $dir/file, a file, wanted *" train_draft --target "$dir/target" --out "$dir/file/a/b"
row 1 "--out: $dir/dangling: found *, a link that leads nowhere, *" train_draft --target "$dir/target" --out "$dir/dangling"
row 1 "--log: $dir/n/l.jsonl: found no folder $dir/n, wanted a file in a folder that is there" "${train[@]}" --log "$dir/n/l.jsonl"
row 1 "--log: $dir: found a directory, wanted a file, *" "${train[@]}" --log "$dir"
row 1 "--out: $dir/file: found a file, *" convert_draft --draft "$dir/draft" --out "$dir/file"
row 1 "--probe: $dir/n/p: found no folder $dir/n, *" "${convert[@]}" --probe "$dir/n/p"
row 1 "--out: $dir/n/p.svg: found no folder $dir/n, *" plot_training "a=$dir/log" --out "$dir/n/p.svg"
row 1 "--out: $dir: found a directory, *" plot_training "a=$dir/log" --out "$dir"

# Texts that are too short, and plans that are too large for the machine, before the target is loaded.
head -c 96 "$tiny/heldout.txt" >"$dir/short.txt" && : >"$dir/empty.txt"
row 1 "$dir/short.txt: found 96 bytes, wanted 2 windows of 49 bytes each, 98 bytes" \
  "${train[@]}" --batch 2 --length 49 --heldout "$dir/short.txt"
row 1 "$dir/empty.txt: found 0 bytes, wanted a window of 48 bytes" "${train[@]}" --length 48 --train "$dir/empty.txt"
row 1 "$dir/short.txt: found 96 bytes, wanted 97, the length of a prompt" \
  speculate --target "$dir/target" --draft tests/data/drafts/eagle3_k3_tiny --text "$dir/short.txt" --prompt-length 97
truncate -s 40000000 "$dir/long.txt"
long=("${train[@]}" --train "$dir/long.txt" --heldout "$dir/long.txt" --batch 1)
for kind in eagle3 dflash dspark; do
  row 1 "--batch, --length and --accumulate: found a plan of * GB of memory, wanted at most * [GM]B, which are available" \
    "${long[@]}" --length 40000000 --draft $kind
done
(ulimit -v 1000000 && row 1 "--batch, --length and --accumulate: found a plan of *, wanted at most *, which are available" \
  "${long[@]}" --length 100000) || exit 1
plan=(speculate --target "$dir/target" --text "$dir/target/heldout.txt" --prompt-length 16384 --chain 16)
for form in eagle3 dflash dspark; do plan+=(--draft "tests/data/drafts/${form}_k3_tiny"); done
(ulimit -v 100000 && row 1 "--prompt-length, --tokens and --chain: found a plan of *, wanted at most *, which are available" \
  "${plan[@]}" --tokens 16384) || exit 1
(ulimit -v 100000 && row 1 "$dir/target: found neither, wanted model.safetensors *" "${plan[@]}" --tokens 1) || exit 1
[[ ! -e "$dir/e" ]] || fail "a refused command line left $dir/e"
