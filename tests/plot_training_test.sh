#!/usr/bin/env bash
# What examples/plot_training draws of a log, and what it refuses. $1: the program.
program="$1"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

refuse() {  # the line's end, arguments
  local part="$1" found wanted="${status:-1}"
  shift
  found="$("$program" "$@" 2>&1)"
  [[ $? -eq $wanted && "$found" == *"$part"* && "$found" != *$'\n'* && ! -e "$dir/no.svg" ]] ||
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

"$program" $'a\x1b\xff='"$dir/a.jsonl" --out "$dir/odd_name.svg" >/dev/null && grep -qF '>a\x1b\xff (3.00)<' "$dir/odd_name.svg" ||
  fail "a name that XML cannot have"

refuse "nowhere: found No such file or directory" "a=$dir/nowhere" --out "$dir/no.svg"
status=2 refuse "series: found '$dir/a.jsonl', wanted NAME=LOG" "$dir/a.jsonl" --out "$dir/no.svg"
echo '{"step":1,"loss":2}' >"$dir/empty.jsonl"
refuse "empty.jsonl: found no look at held-out text, wanted at least one" "a=$dir/empty.jsonl" --out "$dir/no.svg"
echo '{"step":1,"heldout":{"loss":2}}' >"$dir/odd.jsonl"
refuse "line 1: accept_length: found nothing, wanted a number from 1 to 1e+06" "a=$dir/odd.jsonl" --out "$dir/no.svg"
# Numbers that are no places in a picture.
for odd in '-1,"heldout":{"accept_length":2}' '1e300,"heldout":{"accept_length":2}' '1,"heldout":{"accept_length":1e308}' \
  '1,"heldout":{"accept_length":0.5}' '"1","heldout":{"accept_length":2}' '1,"heldout":{"accept_length":null}'; do
  echo "{\"step\":$odd}" >"$dir/odd.jsonl"
  refuse "wanted a number from" "a=$dir/odd.jsonl" --out "$dir/no.svg"
done
echo 'x' >"$dir/bad.jsonl"
refuse "bad.jsonl: line 1" "a=$dir/bad.jsonl" --out "$dir/no.svg"
mkfifo "$dir/fifo"
refuse "fifo: found a FIFO, wanted a regular file" "a=$dir/fifo" --out "$dir/no.svg"

# No list is made of a name in brackets, and nothing comes where a run removes it.
refuse "x,b=$dir/a.jsonl]: found No such file or directory" "[a=x,b=$dir/a.jsonl]" --out "$dir/no.svg"
mkdir "$dir/.k3spec"
refuse "--out: found $dir/.k3spec/a.svg, in a folder that is a run's own" "a=$dir/a.jsonl" --out "$dir/.k3spec/a.svg"

# The picture goes where a link leads; a device and a FIFO take it and stay.
ln -s target.svg "$dir/link.svg" && ln -s /dev/null "$dir/null"
"$program" "a<b=$dir/a.jsonl" "other=$dir/a.jsonl" --out "$dir/link.svg" >/dev/null || fail "no plot by a link"
[[ -L "$dir/link.svg" ]] && cmp "$dir/plot.svg" "$dir/target.svg" || fail "the link is not followed"
"$program" "a=$dir/a.jsonl" --out "$dir/null" >/dev/null || fail "no plot into a device"
[[ -L "$dir/null" && -c /dev/null ]] || fail "the device is replaced"
exec 3<>"$dir/fifo"  # somebody reads it
"$program" "a<b=$dir/a.jsonl" "other=$dir/a.jsonl" --out "$dir/fifo" >/dev/null || fail "no plot into a FIFO"
[[ -p "$dir/fifo" ]] && head -c "$(stat -c %s "$dir/plot.svg")" <&3 | cmp - "$dir/plot.svg" || fail "the FIFO got another plot"

# Neither a log that is read nor what is no such picture is written over; such a picture is.
ln "$dir/a.jsonl" "$dir/hard" && ln -s a.jsonl "$dir/linked" && cp "$dir/a.jsonl" "$dir/before" && echo "mine" >"$dir/notes.svg"
printf '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 420"/>' >"$dir/other.svg" && cp "$dir/other.svg" "$dir/other"
for name in a.jsonl hard linked ./../"$(basename "$dir")"/a.jsonl; do
  refuse "--out: found $dir/$name, which is also series" "a=$dir/a.jsonl" --out "$dir/$name"
  cmp "$dir/a.jsonl" "$dir/before" || fail "$name: the log is gone"
done
refuse "--out: found $dir/notes.svg, a file that is not a picture of plot_training's" "a=$dir/a.jsonl" --out "$dir/notes.svg"
refuse "--out: found $dir/other.svg, a file that is not" "a=$dir/a.jsonl" --out "$dir/other.svg"
[[ "$(cat "$dir/notes.svg")" == mine ]] && cmp "$dir/other.svg" "$dir/other" || fail "a file of somebody's is gone"
true >"$dir/blank.svg"
for name in plot blank; do
  "$program" "a<b=$dir/a.jsonl" "other=$dir/a.jsonl" --out "$dir/$name.svg" >/dev/null || fail "no plot over $name.svg"
  cmp "$dir/$name.svg" "$dir/target.svg" || fail "another plot in $name.svg"
done
# A disk that is full leaves the picture that was there, and nothing else.
(
  ulimit -f 1
  refuse "found File too large, wanted room for" "a=$dir/a.jsonl" --out "$dir/plot.svg"
) || exit 1
cmp "$dir/plot.svg" "$dir/target.svg" && [[ -z "$(find "$dir" -name '*.tmp*')" ]] || fail "a failed plot left something"
