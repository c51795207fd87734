#!/usr/bin/env bash
# run_on_card.sh <program> <command that builds it>...: builds it and runs it, or exits with 77 where there is no card.
set -euo pipefail
if ! cards="$(nvidia-smi --list-gpus 2>/dev/null)" || [[ "$cards" != GPU* ]]; then
  echo "no card: nvidia-smi lists none"
  exit 77
fi
program="$1"
shift
"$@"
exec "$program"
