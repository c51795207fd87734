#!/usr/bin/env bash
# The counter of run.sh on planted logs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

expect() {  # <name> <last line wanted> <exit status wanted> [-v ...], log on standard input
  local name="$1" wanted="$2" status_wanted="$3" found status=0
  shift 3
  found="$(awk "$@" -f count.awk)" || status=$?
  found="${found##*$'\n'}"
  if [[ "$found" != "$wanted" || "$status" != "$status_wanted" ]]; then
    echo "$name: found '$found' (exit status $status), wanted '$wanted' (exit status $status_wanted)"
    exit 1
  fi
}

room() { printf '%s: Test command: "/b/tests/test_%s"\n' "$1" "$2"; }
script() { printf '%s: Test command: /usr/bin/cmake "-P" "/s/%s.cmake"\n' "$1" "$2"; }
cases() { printf '%s: [doctest] test cases:  %s | %s passed | %s failed | %s skipped\n' "$1" "$(($2 + $3))" "$2" "$3" "$4"; }
ended() { printf '%3s Test  #%s: %s ........%s    0.10 sec\n' "$1" "$2" name "$3"; }

{ room 1 core; cases 1 5 0 0; ended 1/2 1 '   Passed'; script 2 install; ended 2/2 2 '   Passed'; } |
  expect "all pass" "6 passed, 0 failed" 0
{ room 1 core; cases 1 3 2 1; ended 1/1 1 '***Failed'; } | expect "two cases fail" "3 passed, 2 failed" 1
{ room 1 core; ended 1/1 1 '***Exception: SegFault'; } | expect "a crash" "0 passed, 1 failed" 1
{ room 1 core; cases 1 5 0 0; ended 1/1 1 '***Failed'; } | expect "a failure after the summary" "5 passed, 1 failed" 1
{ room 1 core; ended 1/1 1 '   Passed'; } | expect "success without a summary" "0 passed, 1 failed" 1
{ room 1 core; cases 1 5 0 0; ended 1/3 1 '   Passed'; room 2 io; } | expect "cut off" "5 passed, 2 failed" 1
{ script 1 install; ended 1/1 1 '***Not Run'; } | expect "not run" "0 passed, 1 failed" 1
{ script 1 clang; ended 1/2 1 '***Skipped'; room 2 core; cases 2 1 0 0; ended 2/2 2 '   Passed'; } |
  expect "a skipped test is neither" "1 passed, 0 failed" 0
{ script 1 clang; echo '1: 1: [doctest] test cases: 9 | 9 passed | 0 failed | 0 skipped'; ended 1/1 1 '   Passed'; } |
  expect "cases of a build inside a test" "1 passed, 0 failed" 0
{ room 1 core; cases 1 5 0 0; ended 1/1 1 '   Passed'; } | expect "build failed" "5 passed, 1 failed" 1 -v unbuilt=1
expect "nothing ran" "0 passed, 0 failed" 1 </dev/null

# The slowest first, ten of them; of an object built twice the last time.
lists="$(mktemp)"
trap 'rm -f "$lists"' EXIT
printf '# ninja log v5\n0\t9000\t1\ta.o\tx\n0\t500\t1\ta.o\tx\n100\t2100\t1\tb.o\tx\n0\t9000\t1\tprogram\tx\n' >"$lists"
timed() { printf '%3s Test  #%s: %s ........   Passed  %s sec\n' "$1" "$2" "$3" "$4"; }
found="$(for i in {1..11}; do script "$i" "s$i"; timed "$i/11" "$i" "s$i" "$i.50"; done |
  awk -v built="$lists" -f count.awk | head -n -1)"
wanted="$(printf 'slowest to compile:\n     2.0 s  b.o\n     0.5 s  a.o\nslowest to run:\n'
  for i in {11..2}; do printf '%8s s  s%s\n' "$i.5" "$i"; done)"
found="$(grep -v ' Test ' <<<"$found")"
if [[ "$found" != "$wanted" ]]; then
  echo "slowest: found"
  echo "$found"
  exit 1
fi
