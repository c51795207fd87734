#!/usr/bin/env bash
# kernel_page.sh <page> <nvcc> <PTX>...: the page's rows of the architectures that these files were assembled for are what
# ptxas says of them (FILE.ptxas beside each), if the page was written with this nvcc. With --write before the page it is
# written anew.
set -euo pipefail
write=0
if [[ "$1" == --write ]]; then write=1 && shift; fi
page="$1" nvcc="$2"
shift 2
version="$("$nvcc" --version | grep -oE 'V[0-9]+\.[0-9]+\.[0-9]+' | tr -d V)"
files=()
for ptx in "$@"; do files+=("$ptx" "$ptx.ptxas"); done
rows="$(awk -f "$(dirname "${BASH_SOURCE[0]}")/kernel_table.awk" "${files[@]}" | LC_ALL=C sort)" || { echo "$rows" && exit 1; }
[[ -n "$rows" ]] || { echo "no kernels" && exit 1; }

if ((write)); then
  cat >"$page" <<TEXT
# What the kernels take of a card

Of a training step of the published drafts in bfloat16 (tests/nvcc/published.cu: forward, losses, backward, clipping and
AdamW of EAGLE-3 for Kimi K3 and DeepSeek-V3, EAGLE-3.1, DFlash and DSpark), compiled and assembled with nvcc $version;
the test \`nvcc.build\` fails when that version says something else for sm_90a. Nothing here was measured. No kernel
spills. Of the kernels of one name, which differ in types, widths and formulas, the largest figures: threads of a block,
registers of a thread, bytes of shared memory of a block. Occupancy is the part of a multiprocessor's 64 warps that can
be resident, by registers, shared memory and threads.

| kernel | architecture | of that name | threads | registers | shared memory | occupancy |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
$rows
TEXT
  exit
fi

if ! grep -qF "nvcc $version;" "$page"; then
  echo "$page: not compared: written with another nvcc than $version"
  exit
fi
for architecture in $(awk '{ print $4 }' <<<"$rows" | sort -u); do
  diff <(awk -v a="$architecture" '$4 == a' "$page") <(awk -v a="$architecture" '$4 == a' <<<"$rows") ||
    { echo "$page: other rows of $architecture than ptxas says: write it anew (target card_kernels)" && exit 1; }
done
