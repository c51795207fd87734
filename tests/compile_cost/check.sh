#!/usr/bin/env bash
# check.sh BOUNDS COMPILER FLAG...: what it takes to compile each umbrella header alone, in units of <Eigen/Core>, held
# against the bounds in the file BOUNDS, lines "UMBRELLA MOST". Measured is the memory that g++ takes while it reads: it
# follows the time, and unlike it is the same in every run, whatever else the machine does. bench/compile_time.sh
# measures the time.
set -euo pipefail
bounds="$1"
shift

measure() {
  local header="$1"
  shift
  local report total
  report="$(printf '#include <%s>\n' "$header" | "$@" -fsyntax-only -ftime-report -x c++ - 2>&1)" ||
    { echo "compile_cost: $header: does not compile: $(head -n 3 <<<"$report")" >&2 && exit 1; }
  total="$(awk '/^ *TOTAL/ { print $NF }' <<<"$report")"
  case "$total" in
    *M) echo "${total%M}" ;;
    *) echo "compile_cost: $header: found '$total' as what is taken, wanted megabytes of g++'s -ftime-report" >&2 && exit 1 ;;
  esac
}

eigen="$(measure Eigen/Core "$@")"
failed=0 checked=0
while read -r umbrella most; do
  [[ -z "$umbrella" || "$umbrella" == "#"* ]] && continue
  own="$(measure "k3spec/$umbrella.hpp" "$@")"
  # g++ rounds both to whole megabytes: over is what is over whatever was rounded off.
  if awk -v own="$own" -v eigen="$eigen" -v most="$most" 'BEGIN { exit !(own - 0.5 <= most * (eigen + 0.5)) }'; then
    verdict=ok
  else
    verdict="over" failed=1
  fi
  awk -v own="$own" -v eigen="$eigen" -v most="$most" -v name="$umbrella" -v verdict="$verdict" \
    'BEGIN { printf "%-7s %4d MB, %.2f of <Eigen/Core>, at most %.2f: %s\n", name, own, own / eigen, most, verdict }'
  checked=$((checked + 1))
done <"$bounds"
[[ $checked -gt 0 ]] || { echo "compile_cost: $bounds has no bounds" && exit 1; }
exit $failed
