#!/usr/bin/env bash
# run_on_card.sh <program>: runs it, or exits with 77 where there is no card.
set -euo pipefail
if ! cards="$(nvidia-smi --list-gpus 2>/dev/null)" || [[ "$cards" != GPU* ]]; then
  echo "no card: nvidia-smi lists none"
  exit 77
fi
exec "$1"
