#!/usr/bin/env bash
# What examples/plot_training draws of a log, and what it refuses. $1: the program.
program="$1"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

refuse() {  # the line's end, arguments
  local part="$1" found
  shift
  found="$("$program" "$@" 2>&1)"
  [[ $? -eq 1 && "$found" == *"$part"* && "$found" != *$'\n'* && ! -e "$dir/no.svg" ]] ||
    fail "plot_training $*: found $found; wanted $part"
}

cat >"$dir/a.jsonl" <<'END'
{"step":0,"heldout":{"loss":4,"accept_length":1}}
{"step":25,"loss":2,"accept_length":9}
{"step":50,"heldout":{"loss":2,"accept_length":2.5}}
{"step":100,"heldout":{"loss":1,"accept_length":3}}
END
"$program" "a<b=$dir/a.jsonl" "other=$dir/a.jsonl" --out "$dir/plot.svg" >"$dir/out" || fail "no plot: $(cat "$dir/out")"
svg="$(cat "$dir/plot.svg")"
# Step 0, 50 and 100 of lengths 1, 2.5 and 3, in a frame from (60, 30) to (700, 370).
[[ "$svg" == *'points="60.0,370.0 380.0,115.0 700.0,30.0 "'* ]] || fail "another line: $svg"
[[ "$(grep -c '<polyline' "$dir/plot.svg")" == 2 && "$svg" == *"a&lt;b (3.00)"* && "$svg" == *"other (3.00)"* ]] ||
  fail "another legend: $svg"

refuse "nowhere: found nothing that can be read" "a=$dir/nowhere" --out "$dir/no.svg"
refuse "series: found $dir/a.jsonl, wanted NAME=LOG" "$dir/a.jsonl" --out "$dir/no.svg"
echo '{"step":1,"loss":2}' >"$dir/empty.jsonl"
refuse "empty.jsonl: found no look at held-out text, wanted at least one" "a=$dir/empty.jsonl" --out "$dir/no.svg"
echo '{"step":1,"heldout":{"loss":2}}' >"$dir/odd.jsonl"
refuse "wanted a step and its held-out accept_length" "a=$dir/odd.jsonl" --out "$dir/no.svg"
echo 'x' >"$dir/bad.jsonl"
refuse "bad.jsonl: line 1" "a=$dir/bad.jsonl" --out "$dir/no.svg"
