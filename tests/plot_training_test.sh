#!/usr/bin/env bash
# What examples/plot_training reports of logs, and what it refuses. $1: the program. What a browser makes of the page is
# in report_browser_test.sh.
program="$1"
source "$(dirname "${BASH_SOURCE[0]}")/support/program.sh"

refuse() {  # the line's end, arguments
  local part="$1" found wanted="${status:-1}"
  shift
  found="$("$program" "$@" 2>&1)"
  [[ $? -eq $wanted && "$found" == *"$part"* && "$found" != *$'\n'* && ! -e "$dir/no.html" ]] ||
    fail "plot_training $*: found $found; wanted $part"
}

cat >"$dir/a.jsonl" <<'END'
{"step":0,"heldout":{"loss":4,"accept_length":1}}
{"step":25,"loss":2,"accept_length":9}
{"step":50,"heldout":{"loss":2,"accept_length":2.5}}
{"step":100,"heldout":{"loss":1,"accept_length":3}}
END
"$program" "a<b=$dir/a.jsonl" "other=$dir/a.jsonl" --out "$dir/plot.html" >"$dir/out" || fail "no plot: $(cat "$dir/out")"
has() { grep -qF -- "$2" "$dir/$1" || fail "$1 has no $2: $(cat "$dir/$1")"; }
# Step 0, 50 and 100 of lengths 1, 2.5 and 3 and of losses 4, 2 and 1, in a frame from (60, 32) to (460, 242).
for style in "s0 d0" "s1 d1"; do
  has plot.html "<polyline class=\"curve $style\" points=\"60.0,242.0 260.0,84.5 460.0,32.0\"/>"
  has plot.html "<polyline class=\"curve $style\" points=\"60.0,32.0 260.0,172.0 460.0,242.0\"/>"
  has plot.html "<polyline class=\"curve $style thin\" points=\"160.0,172.0\"/>"
done
[[ "$(grep -c '<polyline' "$dir/plot.html")" == 6 ]] || fail "more curves: $(cat "$dir/plot.html")"
has plot.html '<circle class="dot s0" cx="260.0" cy="84.5" r="3"><title>a&lt;b: 2.5 at 50</title></circle>'
has plot.html ' a&lt;b: from 1 at 0 to 3 at 100. other: from 1 at 0 to 3 at 100."'
has plot.html '</svg>a&lt;b</li>'
has plot.html '<tr><th scope="row">Accept length, best</th><td>3.000</td><td>3.000</td></tr>'
for part in 'Acceptance per depth, last look: no log has acceptance per depth' 'Learning rate: no log has learning rates' \
  'Calibration on held-out text, last look: no log has calibration' 'Throughput: no log has times of steps'; do
  has plot.html "<li>$part</li>"
done

"$program" $'a\x1b\xff<b>&"\'x='"$dir/a.jsonl" --out "$dir/odd_name.html" >/dev/null || fail "no page of an odd name"
has odd_name.html '</svg>a\x1b\xff&lt;b&gt;&amp;&quot;&#39;x</li>'
! grep -q '<b>\|&"' "$dir/odd_name.html" || fail "a name is taken for HTML"

# Everything that a log can have. Of depths 1 and 2 a half and a quarter are accepted; nothing was drafted at the third.
cat >"$dir/whole.jsonl" <<'END'
{"step":0,"heldout":{"loss":4,"accept_length":1,"accuracy":0.25,"acceptance":[0,0,null]}}
{"step":1,"loss":3,"lr":0.001,"grad_norm":5,"skipped":0,"seconds":1,"tokens":100}
{"step":2,"loss":null,"lr":0.002,"grad_norm":null,"skipped":1,"seconds":0.5,"tokens":100}
{"step":3,"loss":2,"lr":0.001,"grad_norm":1,"skipped":1,"seconds":0.5,"tokens":100}
{"step":3,"heldout":{"loss":2.5,"accept_length":1.75,"accuracy":0.5,"acceptance":[0.5,0.25,null],"calibration":{"ece":0.25,"bins":[{"count":3,"confidence":0.25,"accuracy":0.5},{"count":0,"confidence":null,"accuracy":null},{"count":2,"confidence":0.75,"accuracy":1}]}},"heldout_sets":{"co<de":{"loss":3.5,"accept_length":1.25,"accuracy":0.375}}}
END
cat >"$dir/decoding.json" <<'END'
{"program":"speculate","plain":{"name":"none","accept_length":1,"ms_to_first_token":{"median":3},"ms_per_token":{"median":2}},
"drafts":[{"name":"EAG<LE","chain":2,"drafted":200,"accepted":50,"accept_length":1.5,"ms_to_first_token":{"median":4},
"ms_per_token":{"median":1},"speed_up":{"median":2},"all_runs":{"depths":[{"acceptance":0.25},{"acceptance":null}]}}]}
END
"$program" "w=$dir/whole.jsonl" --decoding "$dir/decoding.json" --out "$dir/whole.html" >/dev/null || fail "no page of all"
curves() { sed -n "/<figcaption>$1</,/<.figure>/s/.*<polyline.* points=\"\([^\"]*\)\".*/\1/p" "$dir/whole.html"; }
drawn() { [[ "$(curves "$1")" == "$2" ]] || fail "$1: found $(curves "$1"), wanted $2"; }
drawn Loss $'193.3,137.0 460.0,242.0\n60.0,32.0 460.0,189.5' # from 2 to 4: of steps, and of looks
drawn 'Accept length on held-out text' '60.0,242.0 460.0,45.1' # from 1 to 1.8
drawn 'Acceptance per depth, last look' '126.7,137.0 260.0,189.5'
drawn 'Acceptance per depth: w' $'60.0,242.0 460.0,137.0\n60.0,242.0 460.0,189.5'
drawn 'Calibration on held-out text, last look' '160.0,137.0 360.0,32.0'
drawn 'Learning rate' '193.3,137.0 326.7,32.0 460.0,137.0'
drawn 'Gradient norm' '193.3,32.0 460.0,242.0' # 5 and 1
drawn Throughput '193.3,137.0 326.7,32.0 460.0,32.0' # 100 and 200 a second
drawn 'Acceptance per depth, decoding' '160.0,189.5'
for row in 'Steps</th><td>3' 'Held-out loss, best</th><td>2.5000' 'at step</th><td>3' 'Held-out accuracy, last</th><td>0.500' \
  'Tokens a second, median</th><td>200' 'Time in steps</th><td>0:02' 'Skipped steps</th><td>1' \
  'w, co&lt;de</th><td>3.5000</td><td>1.250</td><td>0.375' \
  'none</th><td>-</td><td>-</td><td>1.00</td><td>3.00</td><td>2.000</td><td>-' \
  'EAG&lt;LE</th><td>2</td><td>25.0 %</td><td>1.50</td><td>4.00</td><td>1.000</td><td>2.00' \
  'w</th><td>3</td><td>2.5000</td><td>1.750</td><td>0.500</td><td>0.500 0.250 -</td><td>0.2500'; do
  has whole.html "<tr><th scope=\"row\">$row</td></tr>"
done
has whole.html '</svg>w (ECE 0.250)</li>'
! grep -q 'Left out' "$dir/whole.html" || fail "something is left out"
# Of many steps the means of 3 each, which of 0, 1, 2, 0, ... are all 1; the last, step 121, is alone and 1, too.
for step in {1..121}; do echo "{\"step\":$step,\"loss\":$((step % 3))}"; done >"$dir/many.jsonl"
echo '{"step":121,"heldout":{"loss":3,"accept_length":1}}' >>"$dir/many.jsonl"
"$program" "w=$dir/whole.jsonl" "m=$dir/many.jsonl" --out "$dir/whole.html" >/dev/null || fail "no page of many steps"
means="$(curves Loss | sed -n 2p)"
[[ "$(wc -w <<<"$means")" == 41 && "$means" == "66.6,242.0 76.5,242.0 "*" 460.0,242.0" ]] || fail "other means: $means"
if command -v python3 >/dev/null; then
  for name in plot odd_name whole; do
    python3 "$(dirname "${BASH_SOURCE[0]}")/report_check.py" "$dir/$name.html" || fail "$name is not well formed"
  done
fi

refuse "nowhere: found No such file or directory" "a=$dir/nowhere" --out "$dir/no.html"
status=2 refuse "series: found '$dir/a.jsonl', wanted NAME=LOG" "$dir/a.jsonl" --out "$dir/no.html"
echo '{"step":1,"loss":2}' >"$dir/empty.jsonl"
refuse "empty.jsonl: found no look at held-out text, wanted at least one" "a=$dir/empty.jsonl" --out "$dir/no.html"
echo '{"step":1,"heldout":{"loss":2}}' >"$dir/odd.jsonl"
refuse "line 1: accept_length: found nothing, wanted a number from 1 to 1e+06" "a=$dir/odd.jsonl" --out "$dir/no.html"
# Lines that no run wrote.
bad_line() {  # what is found and wanted, the line
  { head -1 "$dir/whole.jsonl" && echo "$2"; } >"$dir/odd.jsonl"
  refuse "odd.jsonl: line 2$1" "a=$dir/odd.jsonl" --out "$dir/no.html"
}
bad_line ": found 3, wanted an object" 3
bad_line ": step: found nothing, wanted a number from 0 to 1e+15" '{"loss":3}'
bad_line ": heldout: found 3, wanted an object" '{"step":1,"heldout":3}'
bad_line ": heldout_sets: found [], wanted an object" '{"step":1,"heldout_sets":[]}'
bad_line ": heldout_sets: x: accept_length: found nothing, wanted a number" \
  '{"step":1,"heldout":{"accept_length":1},"heldout_sets":{"x":3}}'
bad_line ': loss: found "3", wanted a number from -1e+15 to 1e+15' '{"step":1,"loss":"3"}'
bad_line ": acceptance: found 1.5, wanted a number from 0 to 1" \
  '{"step":1,"heldout":{"accept_length":1,"acceptance":[0.5,1.5]}}'
bad_line ": acceptance: found 3, wanted a list" '{"step":1,"heldout":{"accept_length":1,"acceptance":3}}'
bad_line ": ece: found -1, wanted a number from 0 to 1" '{"step":1,"heldout":{"accept_length":1,"calibration":{"ece":-1}}}'
bad_line ": confidence: found nothing, wanted a number from 0 to 1" \
  '{"step":1,"heldout":{"accept_length":1,"calibration":{"bins":[{"count":1}]}}}'
for name in lr grad_norm seconds tokens skipped; do
  bad_line ": $name: found -1, wanted a number from 0 to 1e+" "{\"step\":1,\"$name\":-1}"
done
{ tail -1 "$dir/whole.jsonl" && head -1 "$dir/whole.jsonl"; } >"$dir/odd.jsonl"
refuse "line 2: step: found 0, wanted a number from 3 to 1e+15" "a=$dir/odd.jsonl" --out "$dir/no.html"
# What speculate did not write.
bad_report() {  # what is found and wanted, the text
  echo "$2" >"$dir/odd.json"
  refuse "odd.json: $1" "a=$dir/a.jsonl" --decoding "$dir/odd.json" --out "$dir/no.html"
}
bad_report "found no report of speculate's, wanted what it writes with --json" '{"program":"bench"}'
bad_report "found no report of speculate's, wanted what it writes with --json" '[]'
bad_report "drafts: found 3, wanted a list" '{"program":"speculate","drafts":3}'
bad_report "drafts: 0: name: found nothing, wanted a text" '{"program":"speculate","drafts":[{}]}'
bad_report "drafts: 0: ms_per_token: median: found nothing, wanted a number" \
  '{"program":"speculate","drafts":[{"name":"a","ms_per_token":{}}]}'
bad_report "drafts: 0: acceptance: found 2, wanted a number from 0 to 1" \
  '{"program":"speculate","drafts":[{"name":"a","all_runs":{"depths":[{"acceptance":2}]}}]}'
refuse "nowhere: found No such file or directory" "a=$dir/a.jsonl" --decoding "$dir/nowhere" --out "$dir/no.html"
refuse "--out: found $dir/decoding.json, which is also --decoding" \
  "a=$dir/a.jsonl" --decoding "$dir/decoding.json" --out "$dir/decoding.json"

# Numbers that are no places in a picture.
for odd in '-1,"heldout":{"accept_length":2}' '1e300,"heldout":{"accept_length":2}' '1,"heldout":{"accept_length":1e308}' \
  '1,"heldout":{"accept_length":0.5}' '"1","heldout":{"accept_length":2}' '1,"heldout":{"accept_length":null}'; do
  echo "{\"step\":$odd}" >"$dir/odd.jsonl"
  refuse "wanted a number from" "a=$dir/odd.jsonl" --out "$dir/no.html"
done
echo 'x' >"$dir/bad.jsonl"
refuse "bad.jsonl: line 1" "a=$dir/bad.jsonl" --out "$dir/no.html"
mkfifo "$dir/fifo"
refuse "fifo: found a FIFO, wanted a regular file" "a=$dir/fifo" --out "$dir/no.html"

# No list is made of a name in brackets, and nothing comes where a run removes it.
refuse "x,b=$dir/a.jsonl]: found No such file or directory" "[a=x,b=$dir/a.jsonl]" --out "$dir/no.html"
mkdir "$dir/.k3spec"
refuse "--out: found $dir/.k3spec/a.html, in a folder that is a run's own" "a=$dir/a.jsonl" --out "$dir/.k3spec/a.html"

# The page goes where a link leads; a device and a FIFO take it and stay.
ln -s target.html "$dir/link.html" && ln -s /dev/null "$dir/null"
"$program" "a<b=$dir/a.jsonl" "other=$dir/a.jsonl" --out "$dir/link.html" >/dev/null || fail "no plot by a link"
[[ -L "$dir/link.html" ]] && cmp "$dir/plot.html" "$dir/target.html" || fail "the link is not followed"
"$program" "a=$dir/a.jsonl" --out "$dir/null" >/dev/null || fail "no plot into a device"
[[ -L "$dir/null" && -c /dev/null ]] || fail "the device is replaced"
exec 3<>"$dir/fifo"  # somebody reads it
"$program" "a<b=$dir/a.jsonl" "other=$dir/a.jsonl" --out "$dir/fifo" >/dev/null || fail "no plot into a FIFO"
[[ -p "$dir/fifo" ]] && head -c "$(stat -c %s "$dir/plot.html")" <&3 | cmp - "$dir/plot.html" || fail "the FIFO got another plot"

# Neither a log that is read nor what is no such report is written over; such a report is.
ln "$dir/a.jsonl" "$dir/hard" && ln -s a.jsonl "$dir/linked" && cp "$dir/a.jsonl" "$dir/before" && echo "mine" >"$dir/notes.html"
printf '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>mine</title>\n' >"$dir/other.html" && cp "$dir/other.html" "$dir/other"
for name in a.jsonl hard linked ./../"$(basename "$dir")"/a.jsonl; do
  refuse "--out: found $dir/$name, which is also series" "a=$dir/a.jsonl" --out "$dir/$name"
  cmp "$dir/a.jsonl" "$dir/before" || fail "$name: the log is gone"
done
refuse "--out: found $dir/notes.html, a file that is not a report of plot_training's" "a=$dir/a.jsonl" --out "$dir/notes.html"
refuse "--out: found $dir/other.html, a file that is not" "a=$dir/a.jsonl" --out "$dir/other.html"
[[ "$(cat "$dir/notes.html")" == mine ]] && cmp "$dir/other.html" "$dir/other" || fail "a file of somebody's is gone"
true >"$dir/blank.html"
for name in plot blank; do
  "$program" "a<b=$dir/a.jsonl" "other=$dir/a.jsonl" --out "$dir/$name.html" >/dev/null || fail "no plot over $name.html"
  cmp "$dir/$name.html" "$dir/target.html" || fail "another plot in $name.html"
done
# A disk that is full leaves the page that was there, and nothing else.
(
  ulimit -f 1
  refuse "found File too large, wanted room for" "a=$dir/a.jsonl" --out "$dir/plot.html"
) || exit 1
cmp "$dir/plot.html" "$dir/target.html" && [[ -z "$(find "$dir" -name '*.tmp*')" ]] || fail "a failed plot left something"
