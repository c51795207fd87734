#!/usr/bin/env bash
# keep_report.sh <compile command>: runs it, and keeps what it says on standard error beside the object, as OBJECT.ptxas.
set -uo pipefail
object=""
for ((i = 1; i < $#; ++i)); do
  if [[ "${!i}" == -o ]]; then j=$((i + 1)) object="${!j}"; fi
done
rm -f "$object.ptxas"
status=0
"$@" 2>"$object.ptxas.part" || status=$?
if ((status != 0)); then
  cat "$object.ptxas.part" >&2
  exit "$status"
fi
# Remarks of ptxas are the report; all else is still said.
grep -v -e '^ptxas info' -e 'bytes stack frame,' "$object.ptxas.part" >&2
mv "$object.ptxas.part" "$object.ptxas"
