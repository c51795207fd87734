#!/usr/bin/env bash
# The checker of ptxas' reports, on planted reports and, with nvcc as $1, on those of a kernel that spills.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT

expect() {  # <exit status> <part of the output> <wanted architectures> <report>...
  local status=0 found wanted="$1" part="$2" architectures="$3"
  shift 3
  found="$(awk -v wanted="$architectures" -f ptxas_report.awk "$@")" || status=$?
  if [[ "$status" != "$wanted" || "$found" != *"$part"* ]]; then
    echo "found exit status $status and: $found"
    echo "wanted exit status $wanted and: $part"
    exit 1
  fi
}
kernel() {  # name, architecture, stack, spill stores, spill loads, registers
  echo "ptxas info    : Compiling entry function '$1' for '$2'"
  properties "$1" "$3" "$4" "$5"
  echo "ptxas info    : Used $6 registers, used 1 barriers, 8 bytes cumulative stack size, 360 bytes cmem[0]"
}
properties() {  # function, stack, spill stores, spill loads
  echo "ptxas info    : Function properties for $1"
  echo "    $2 bytes stack frame, $3 bytes spill stores, $4 bytes spill loads"
}

{ kernel a sm_80 0 0 0 40; kernel b sm_80 16 0 0 255; kernel a sm_100 8 0 0 9; kernel b sm_100 0 0 0 8; } >"$dir/good"
{ kernel a sm_80 0 0 0 8; kernel a sm_100 0 0 0 8; } >"$dir/a"
echo "ptxas info    : 0 bytes gmem" >"$dir/none"
: >"$dir/empty"
expect 0 "sm_80             2            255         16" "sm_80 sm_100" "$dir/good"
expect 0 "sm_100            2              9          8" "sm_80 sm_100" "$dir/good"
expect 0 "sm_100            3              9          8" "sm_80 sm_100" "$dir/good" "$dir/a" "$dir/none" "$dir/empty"
expect 1 "$dir/good: a: not there for sm_90a" "sm_80 sm_90a sm_100" "$dir/good"
expect 1 "no kernel for sm_80" "sm_80" "$dir/empty"
expect 1 "no kernel for sm_80" "sm_80" "$dir/none"
expect 1 "no architecture is wanted" "" "$dir/good"

# One kernel of one file for one architecture too few, though another file has it.
kernel a sm_80 0 0 0 8 >"$dir/half"
expect 1 "$dir/half: a: not there for sm_100" "sm_80 sm_100" "$dir/a" "$dir/half"

{ kernel a sm_80 0 4 0 8; } >"$dir/stores"
{ kernel a sm_80 0 0 4 8; } >"$dir/loads"
{ kernel a sm_80 0 0 0 8; properties called 8 12 12; } >"$dir/called"
expect 1 "$dir/stores: a for sm_80: spills: " sm_80 "$dir/stores"
expect 1 "$dir/loads: a for sm_80: spills: " sm_80 "$dir/loads"
expect 1 "$dir/called: called for sm_80: spills: " sm_80 "$dir/called"

# A report whose words have changed must not pass.
sed 's/spill stores/stores spilt/' "$dir/a" >"$dir/other_words"
sed 's/registers/register/' "$dir/a" >"$dir/no_registers"
{ cat "$dir/a"; kernel b sm_80 0 0 0 8 | sed -n 1p; } >"$dir/cut_off"
expect 1 "$dir/other_words: a for sm_80: no figures" "sm_80 sm_100" "$dir/other_words"
expect 1 "$dir/no_registers: a for sm_100: no figures" "sm_80 sm_100" "$dir/no_registers"
expect 1 "$dir/cut_off: b for sm_80: no figures" sm_80 "$dir/cut_off"

# The table of what kernels take, and the page that holds it. 64 warps of 32 lanes, 65536 registers: of 219 a warp takes
# 224 · 32, so that two warps fit in a quarter of them, two blocks of four warps in all.
entry() { printf '.visible .entry %s(\n)\n.maxntid %d, 1, 1\n{\n}\n' "$1" "$2"; }
wide=_ZN6k3spec9x86_64_v34cuda17attention_forwardIfEEvT_ other=_ZN6k3spec9x86_64_v34cuda17attention_forwardIdEEvT_
small=_ZN6k3spec9x86_64_v34cuda11gather_rowsIfEEvT_
{ entry $wide 128; entry $other 128; entry $small 1000; } >"$dir/k.ptx"
{ kernel $wide sm_80 0 0 0 219; kernel $other sm_80 0 0 0 40; kernel $small sm_80 0 0 0 32; } >"$dir/k.ptx.ptxas"
sed -i 's/219 registers, used 1 barriers/&, 16512 bytes smem/' "$dir/k.ptx.ptxas"
table="$(awk -f kernel_table.awk "$dir/k.ptx" "$dir/k.ptx.ptxas" | LC_ALL=C sort)"
wanted="| attention_forward | sm_80 | 2 | 128 | 219 | 16512 | 12 % |
| gather_rows | sm_80 | 1 | 1000 | 32 | 0 | 100 % |"
[[ "$table" == "$wanted" ]] || { echo "found $table, wanted $wanted" && exit 1; }
printf '#!/bin/sh\necho "release 9.9, V9.9.1"\n' >"$dir/nvcc" && chmod +x "$dir/nvcc"
page() { ./kernel_page.sh "$@" "$dir/nvcc" "$dir/k.ptx"; }
page --write "$dir/page.md" && page "$dir/page.md" >/dev/null || { echo "the page that was written is another" && exit 1; }
sed -i 's/| 219 |/| 218 |/' "$dir/page.md"
if page "$dir/page.md" >/dev/null; then echo "a page of other registers passes" && exit 1; fi
sed -i 's/nvcc 9.9.1;/nvcc 9.9.2;/' "$dir/page.md"
[[ "$(page "$dir/page.md")" == *"not compared"* ]] || { echo "a page of another nvcc is compared" && exit 1; }
grep -v maxntid "$dir/k.ptx" >"$dir/no.ptx" && cp "$dir/k.ptx.ptxas" "$dir/no.ptx.ptxas"
if awk -f kernel_table.awk "$dir/no.ptx" "$dir/no.ptx.ptxas" >/dev/null; then echo "kernels without threads pass" && exit 1; fi

if (($# == 0)); then exit; fi
report() { ./keep_report.sh "$@" -arch=sm_80 -Xptxas=-v -cubin spilling.cu -o "$dir/spilling.o"; }
report "$1"
expect 0 "sm_80             1" sm_80 "$dir/spilling.o.ptxas"
report "$1" -maxrregcount=32
expect 1 "for sm_80: spills: " sm_80 "$dir/spilling.o.ptxas"
if report "$1" --no-such-option 2>/dev/null; then echo "a failed compilation passes"; exit 1; fi
[[ ! -e "$dir/spilling.o.ptxas" ]] || { echo "a failed compilation leaves a report"; exit 1; }
