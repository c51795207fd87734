#!/usr/bin/env bash
# assemble.sh <ptxas> <architecture> <PTX>...: has ptxas assemble each file, and keeps what it says as FILE.ptxas.
set -euo pipefail
ptxas="$1" architecture="$2" keep="$(dirname "${BASH_SOURCE[0]}")/keep_report.sh"
shift 2
one() {
  "$keep" "$ptxas" -v "-arch=$architecture" "$1" -o "$1.cubin"
  mv "$1.cubin.ptxas" "$1.ptxas"
}
export -f one
export ptxas architecture keep
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" bash -euo pipefail -c 'one "$1"' _
