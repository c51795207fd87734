#!/usr/bin/env bash
# format.sh <clang-format>: fails, naming the places, unless all sources are formatted. `clang-format -i FILE` mends one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
find include tests examples bench \( -name '*.hpp' -o -name '*.cpp' \) -print0 | xargs -0 "$1" --dry-run --Werror
