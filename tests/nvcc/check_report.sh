#!/usr/bin/env bash
# check_report.sh <report> "<architecture> ..." <object>...: checks the objects' reports and puts them together, under the
# table, in one file.
set -euo pipefail
report="$1" wanted="$2" status=0
shift 2
rm -f "$report"
if (($# == 0)); then
  echo "no objects"
  exit 1
fi
awk -v wanted="$wanted" -f "$(dirname "${BASH_SOURCE[0]}")/ptxas_report.awk" "${@/%/.ptxas}" >"$report" || status=$?
cat "$report"
for object in "$@"; do printf '\n%s\n' "$object" && cat "$object.ptxas"; done >>"$report"
exit "$status"
