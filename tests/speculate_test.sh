#!/usr/bin/env bash
# What examples/speculate does with drafts of two steps, of every kind, and what it refuses. $1: the program, $2:
# train_draft.
program="$1"
train_draft="$2"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

refuse() {  # part of the only line, arguments
  expect 1 "$@"
  [[ "$output" != *$'\n'* ]] || fail "speculate ${*:2}: more than one line: $output"
}
misuse() {  # the same of a command line that cannot be meant
  expect 2 "$@"
  [[ "$output" != *$'\n'* ]] || fail "speculate ${*:2}: more than one line: $output"
}

for kind in eagle3 dflash dspark; do
  steps=()
  [[ $kind == eagle3 ]] && steps=(--ttt-steps 3)
  "$train_draft" --target "$tiny" --draft "$kind" --out "$dir/$kind" --steps 2 --batch 2 --length 24 --eval-windows 2 \
    "${steps[@]}" --progress none >"$dir/trained" 2>&1 || fail "train_draft failed: $(cat "$dir/trained")"
done
mv "$dir/eagle3" "$dir/run"
draft=(--target "$tiny" --draft "$dir/run/latest")
few=(--prompts 2 --prompt-length 20 --repeat 1)
small=("${draft[@]}" "${few[@]}")
row() {  # the cells of a draft's row, one space between them
  grep "^$1 " <<<"$output" | tr -s ' '
}

expect 0 "--draft" --help
[[ "$output" =~ --tokens\ INT.{1,2}256 ]] || fail "tokens by default: $output"
expect 0 "2 prompts, 24 tokens" "${small[@]}" --draft "$dir/dflash/latest" --draft "$dir/dspark/latest" --tokens 12
[[ "$output" == "instruction set $(built_for "$program"), $(nproc) thread"* ]] || fail "what it runs on: $output"
[[ "$(row plain)" == "plain - - 1.000 "* ]] || fail "plain decoding: $output"
for kind in "eagle3 3" "dflash 7" "dspark 5"; do
  [[ "$(row "${kind% *}")" == "$kind "*" yes" ]] || fail "$kind: $output"
done
for chain in 1 2 16; do
  expect 0 "eagle3 " "${small[@]}" --draft "$dir/dspark/latest" --draft "$dir/dflash/latest" --tokens 9 --chain $chain
  for kind in eagle3 dflash dspark; do
    [[ "$(row $kind)" == "$kind $chain "*" yes" ]] || fail "$kind: $output"
  done
done
expect 0 "dspark " "${few[@]}" --target "$tiny" --draft "$dir/dspark/latest" --tokens 9 --min-confidence 1
[[ "$(row dspark)" == "dspark 5 - 1.000 "*" too few runs yes" ]] || fail "nothing is sure enough to be drafted: $output"
expect 0 "eagle3 " "${small[@]}" --tokens 1
[[ "$(row eagle3)" == "eagle3 3 - - "*" - - yes" && "$output" != *nan* ]] || fail "one token: $output"
expect 0 "eagle3 " "${draft[@]}" --prompts 1 --prompt-length 20 --repeat 3 --tokens 3
[[ "$(row eagle3)" =~ (within spread|[0-9.]+)\ yes$ && "$output" != *"too few"* ]] || fail "three runs: $output"

# What --json writes says what the table does, and agrees with itself: an accept length is 1 and the tokens kept in a
# round, to which the acceptances by depth multiply up; the parts of the time are no more than the whole.
kinds=(--draft "$dir/dflash/latest" --draft "$dir/dspark/latest")
expect 0 "eagle3, adaptive " "${small[@]}" "${kinds[@]}" --tokens 40 --adaptive --json "$dir/report.json"
[[ "$(grep -c ' yes$' <<<"$output")" == 6 ]] || fail "adaptive lengths changed tokens: $output"
[[ "$(grep -cE '^[a-z0-9, ]+: ms of a round: draft [0-9.]+, verify [0-9.]+, keep [0-9.]+; accepted' <<<"$output")" == 6 ]] ||
  fail "no line for each draft's rounds: $output"
agrees() {  # a report on standard input; prints name, accept length and whether its numbers agree, of each draft
  awk -F ': |,$' '
    { gsub(/[ "]/, "", $1) }
    $1 == "accept_length" { accept_length = $2 }
    $1 == "depths" { n = 0 }
    $1 == "acceptance" { acceptance[n] = $2 }
    $1 == "accepted" { accepted[n] = $2 }
    $1 == "reached" { reached[n++] = $2 }
    $1 == "rounds" { rounds = $2 }
    $1 == "seconds" { parts = 0; of_seconds = 1 }
    of_seconds && $1 ~ /^(draft|keep|prefill|verify)$/ { parts += $2 }
    $1 == "whole" { whole = $2; of_seconds = 0 }
    $1 == "name" { name = $2; gsub(/"/, "", name) }
    $1 == "same_tokens" {
      sum = product = stays = 1
      before = rounds
      for (i = 0; i < n && before > 0; ++i) {
        sum += accepted[i] / rounds
        stays *= reached[i] / before * acceptance[i]
        product += stays
        before = accepted[i]
      }
      ok = n > 0 && (sum - product) ^ 2 < 1e-18 && (sum - accept_length) ^ 2 < 1e-18 && 0 < parts && parts <= whole
      printf "%s %.3f %s\n", name, accept_length, ok ? "agrees" : sum " " product " " accept_length " " parts " " whole
    }'
}
agreed="$(agrees <"$dir/report.json")"
[[ "$(grep -c ' agrees$' <<<"$agreed")" == 6 ]] || fail "the report does not agree with itself: $agreed"
for kind in eagle3 dflash dspark; do
  [[ "$(row $kind)" == *" $(sed -n "s/^$kind \([0-9.]*\) .*/\1/p" <<<"$agreed") "* ]] || fail "not the table's: $agreed"
done
"$program" "${small[@]}" --tokens 9 --json - >"$dir/stdout" 2>"$dir/stderr" || fail "--json -: $(cat "$dir/stderr")"
[[ "$(head -c 1 "$dir/stdout")" == "{" && "$(tail -n 1 "$dir/stdout")" == "}" ]] || fail "not JSON alone: $(cat "$dir/stdout")"
[[ "$(agrees <"$dir/stdout")" == "eagle3 "*" agrees" ]] || fail "--json -: $(agrees <"$dir/stdout")"
# Weights as they are stored, or all as floats: the same text, and both reports say what they take.
texts() { grep -E "^(plain|eagle3) [0-9]+: " <<<"$output"; }
expect 0 "target's weights native, 3." "${small[@]}" --tokens 12 --show --json "$dir/native.json"
native="$(texts)"
expect 0 "target's weights float, 9." "${small[@]}" --tokens 12 --show --weights float --json "$dir/float.json"
[[ -n "$native" && "$(texts)" == "$native" ]] || fail "--weights float: $(texts), not $native"
number() { sed -n "/\"$2\": {/,/}/s/ *\"$3\": \([0-9]*\),*/\1/p" "$dir/$1.json" | head -n 1; }
for part in "target_bytes all" "target_bytes experts" "target_of_one_row least_bytes" "target_of_a_chain most_bytes"; do
  # shellcheck disable=SC2086
  (( 2 * $(number native $part) < $(number float $part) )) || fail "$part: $(number native $part) and $(number float $part)"
done
[[ "$(number native draft least_bytes)" == "$(number float draft least_bytes)" ]] || fail "the draft's bytes"
misuse "--show: found it with --json -, wanted one of them" "${small[@]}" --show --json -
refuse "--json: $dir/none/report.json: found no folder $dir/none, wanted" "${small[@]}" --json "$dir/none/report.json"

# The steps of the training are the chain; a file that does not name them says nothing of it.
cp -rL "$dir/run/latest" "$dir/silent" && grep -v ttt_steps "$dir/run/latest/config.json" >"$dir/silent/config.json"
expect 0 "silent/config.json does not say for how many steps" "${few[@]}" --target "$tiny" --draft "$dir/silent" --tokens 9
[[ "$(row eagle3)" == "eagle3 5 "* ]] || fail "no steps: $output"

# A text ends with a string, or any of several tokens: of the target's files, too.
expect 0 "ends by length: " "${small[@]}" --tokens 12 --show
expect 0 "eagle3 1: accept length" "${small[@]}" --tokens 60 --stop "e " --stop "no such text" --show
[[ "$(grep -c ' ends by stop_string: .*e $' <<<"$output")" == 4 && "$(row eagle3)" == *" yes" ]] || fail "stop: $output"
mkdir "$dir/stops" && ln -s "$PWD/$tiny"/* "$dir/stops" && echo '{"eos_token_id":[257,101]}' >"$dir/stops/generation_config.json"
expect 0 "eagle3 1: accept length" "${few[@]}" --target "$dir/stops" --draft "$dir/run/latest" --tokens 60 --show
[[ "$(grep -c ' ends by stop_token: .*e$' <<<"$output")" == 4 ]] || fail "two stop tokens: $output"
expect 0 "eagle3 1: accept length" "${small[@]}" --tokens 60 --stop-token 32 --show
[[ "$(grep -c ' ends by stop_token: .* $' <<<"$output")" == 4 ]] || fail "a stop token: $output"
echo '{"eos_token_id":[257,260]}' >"$dir/stops/generation_config.json"
refuse "stops/generation_config.json: eos_token_id: found [257,260], wanted a token or a list" --target "$dir/stops" \
  --draft "$dir/run/latest"
misuse "--stop-token: found 260, wanted 0 to 259" "${draft[@]}" --stop-token 260

# Changed logits change the text, with a draft and without alike. The likeliest token alone is greedy decoding.
expect 0 "eagle3 " "${small[@]}" --tokens 24 --show
greedy="$(grep '^plain [01]: ' <<<"$output")"
for change in "--logit-bias 101 -1000" "--repetition-penalty 1.5" "--presence-penalty 2" "--frequency-penalty 1"; do
  expect 0 "eagle3 " "${small[@]}" --tokens 24 --show $change
  [[ "$(row eagle3 | tail -n 1)" == *" yes" ]] || fail "$change: $output"
  [[ "$(grep '^plain [01]: ' <<<"$output")" != "$greedy" ]] || fail "$change changes nothing: $output"
done
for one in "--top-k 1" "--top-p 0.000001" "--min-p 1"; do
  expect 0 "eagle3 " "${small[@]}" --tokens 24 --show --temperature 1 $one --draft-top-k 4
  [[ "$(grep '^plain [01]: ' <<<"$output")" == "$greedy" ]] || fail "$one: $output"
done

# Drawn tokens are another decoding's, but those of one seed are the same.
drawn() { expect 0 "dspark 0: " "${few[@]}" --target "$tiny" --draft "$dir/dspark/latest" --show --temperature 1 "$@"; }
drawn --seed 1
first="$(grep '^dspark 0: ' <<<"$output")"
[[ "$(row dspark | tail -n 1)" == *" -" ]] || fail "drawn tokens are not compared: $output"
drawn --seed 1
[[ "$(grep '^dspark 0: ' <<<"$output")" == "$first" ]] || fail "the same seed, other tokens: $output"
drawn --seed 2
[[ "$(grep '^dspark 0: ' <<<"$output")" != "$first" ]] || fail "another seed, the same tokens: $output"

# Prompts are pieces of any data, or the beginnings of its documents.
expect 0 "plain 0: " "${small[@]}" --tokens 9 --show
of_text="$(texts)"
iconv -f latin1 -t utf-16le "$tiny/heldout.txt" >"$dir/heldout.uint16"
expect 0 "plain 0: " "${small[@]}" --tokens 9 --show --text "$dir/heldout.uint16"
[[ "$(texts)" == "$of_text" ]] || fail "the same tokens, other texts: $(texts), not $of_text"
document() { od -An -v -tu1 -w1 "$1" | awk '{ printf "%s%d", (NR > 1 ? "," : "{\"input_ids\":["), $1 } END { print "]}" }'; }
for place in 0 400 800; do
  tail -c +$((place + 1)) "$tiny/heldout.txt" | head -c $((place == 400 ? 19 : 300)) >"$dir/piece"
  document "$dir/piece"
done >"$dir/documents.jsonl"
expect 0 "plain 0: " "${small[@]}" --tokens 9 --show --text "$dir/documents.jsonl"
of_documents="$(texts)"
{ head -c 20 "$tiny/heldout.txt"; tail -c +801 "$tiny/heldout.txt" | head -c 20; } >"$dir/two.txt"
expect 0 "plain 0: " "${draft[@]}" --prompts 1 --prompt-length 20 --repeat 1 --tokens 9 --show --text "$dir/two.txt"
[[ "$(grep '^plain 0' <<<"$of_documents")" == "$(grep '^plain 0' <<<"$(texts)")" ]] || fail "not a document's beginning: $of_documents"
refuse "documents.jsonl: found 2 documents of 20 tokens or more, wanted 3, one for each prompt" "${draft[@]}" --prompts 3 \
  --prompt-length 20 --text "$dir/documents.jsonl"

refuse "--device cuda: found " "${small[@]}" --device cuda
misuse "--tokens: found 0, wanted 1 to 16384" "${draft[@]}" --tokens 0
misuse "--tokens: found 9223372036854775807, wanted 1 to" "${draft[@]}" --tokens 9223372036854775807
misuse "--chain: found 9223372036854775807, wanted 1 to 256" "${draft[@]}" --chain 9223372036854775807
misuse "--prompts: found 9223372036854775807, wanted 1 to" "${draft[@]}" --prompts 9223372036854775807
misuse "--prompt-length: found -1, wanted 1 to" "${draft[@]}" --prompt-length -1
refuse "--chain: found 17 with a draft of kind eagle3, wanted 1 to 16" "${small[@]}" --chain 17
misuse "--repeat: found 0, wanted 1 to 1000" "${draft[@]}" --repeat 0
misuse "--top-k: found -1, wanted at least 0 (0: all)" "${draft[@]}" --top-k -1
misuse "--draft-top-p: found 0, wanted more than 0, at most 1" "${draft[@]}" --draft-top-p 0
misuse "--min-p: found 2, wanted 0 to 1" "${draft[@]}" --min-p 2
misuse "--repetition-penalty: found 0, wanted a number > 0" "${draft[@]}" --repetition-penalty 0
misuse "--logit-bias: found 260, wanted 0 to 259" "${draft[@]}" --logit-bias 260 1
misuse "--stop: found '', wanted at least one byte" "${draft[@]}" --stop ""
misuse "--temperature: found -1, wanted 0, or 1e-06 to 1000000" "${draft[@]}" --temperature -1
misuse "--seed: found it with --temperature 0, wanted it with tokens that are drawn" "${draft[@]}" --seed 1
refuse "--min-confidence: found 0.5, wanted a DSpark draft for it" "${draft[@]}" --min-confidence 0.5
misuse "--min-confidence: found 2, wanted 0 to 1" "${draft[@]}" --min-confidence 2
refuse "$tiny/config.json: architectures: found none of a draft, wanted a draft's" --target "$tiny" --draft "$tiny"
refuse "nowhere/config.json: found No such file or directory" --target "$tiny" --draft "$dir/nowhere"
cp -rL "$dir/run/latest" "$dir/other"
sed 's/"hidden_size": 128/"hidden_size": 64/' "$dir/run/latest/config.json" >"$dir/other/config.json"
expect 1 "other/config.json: found" --target "$tiny" --draft "$dir/other"
[[ "$output" == *"hidden_size: found 64, wanted 128"* ]] || fail "another config: $output"
# What does not fit is said before the target is loaded: this one has no tensors.
mkdir "$dir/empty" && cp "$tiny/config.json" "$dir/empty"
expect 1 "other/config.json: found" --target "$dir/empty" --draft "$dir/other"
head -c 95 "$tiny/heldout.txt" >"$dir/short.txt"
empty=(--target "$dir/empty" --draft "$dir/run/latest")
refuse "short.txt: found 95 bytes, wanted 96, the length of a prompt" "${empty[@]}" --text "$dir/short.txt"
refuse "--chain: found 17 with a draft of kind eagle3, wanted 1 to 16" "${empty[@]}" --chain 17
refuse "--min-confidence: found 0.5, wanted a DSpark draft for it" "${empty[@]}" --min-confidence 0.5
expect 1 "$dir/empty: found" "${empty[@]}"
