#!/usr/bin/env bash
# run.sh <plant_mistakes> <list> <programs> [name...]: switches on one mistake after the other (or those named), runs the
# tests that ought to find it, and prints a line for each. Fails unless at least 95 % are found.
# A test that runs ten times as long as without a mistake, and a minute more, finds it, too.
set -euo pipefail
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}"
least=95

# test_program <file> <cases> <seconds>: runs the cases, ends at the first that fails.
test_program() {
  timeout --kill-after=5 "$3" "$programs/planted_${1%%/*}" --no-colors --no-intro --abort-after=1 \
    --test-case="$2" </dev/null 2>&1
}

# try <name>: its line of the table.
try() {
  local header file cases found="NOT FOUND" output rc
  while IFS=$'\t' read -r header file cases; do
    rc=0
    output="$(K3SPEC_MISTAKE="$1" test_program "$file" "$cases" "$(limit "$file" "$cases")")" || rc=$?
    case $rc in
      0) continue ;;
      124 | 137) found="${file%%/*}: runs too long" ;;
      *) found="${file%%/*}: $(sed -n 's/^TEST CASE: *//p' <<<"$output" | tail -1)" ;;
    esac
    break
  done < <(awk -F'\t' -v OFS='\t' -v name="$1" '$1 == name { print $2, $3, $4 }' "$work/list")
  header="$(awk -F'\t' -v name="$1" '$1 == name { print $2; exit }' "$work/list")"
  printf '%-36s %-32s %s\n' "$1" "$header" "$found"
}

limit() {
  awk -F'\t' -v file="$1" -v cases="$2" '$1 == file && $2 == cases { print 60 + 10 * $3 }' "$work/seconds"
}

if [[ "${1:-}" == --one ]]; then
  try "$2" >"$work/found.$2"
  cat "$work/found.$2"
  exit
fi

plant="$1" list="$2" programs="$3"
shift 3
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export work programs
"$plant" list "$list" |
  awk -F'\t' -v names=" $* " 'names == "  " || index(names, " " $1 " ")' >"$work/list"
known="$(cut -f1 "$work/list")"
for name in "$@"; do
  [[ $'\n'"$known"$'\n' == *$'\n'"$name"$'\n'* ]] || { echo "no mistake is named $name" >&2; exit 1; }
done

# Without a mistake all tests pass, and there are such tests.
unset K3SPEC_MISTAKE
cut -f3,4 "$work/list" | sort -u | while IFS=$'\t' read -r file cases; do
  start=$SECONDS
  output="$(test_program "$file" "$cases" 600)" || {
    printf '%s\n%s | %s: fails without a mistake\n' "$output" "$file" "$cases" >&2
    exit 1
  }
  if grep -q 'test cases: *0 ' <<<"$output"; then
    echo "$file: no case is named '$cases'" >&2
    exit 1
  fi
  printf '%s\t%s\t%d\n' "$file" "$cases" $((SECONDS - start + 1)) >>"$work/seconds"
done

mapfile -t names < <(cut -f1 "$work/list" | uniq)
printf '%s\n' "${names[@]}" | xargs -P "${K3SPEC_MISTAKE_JOBS:-$(nproc)}" -n 1 "${BASH_SOURCE[0]}" --one
all=${#names[@]}
lost="$(cat "$work"/found.* | grep -c 'NOT FOUND$' || true)"
[[ "$(ls "$work"/found.* | wc -l)" == "$all" ]]
echo "$((all - lost)) of $all mistakes found"
((100 * (all - lost) >= least * all))
