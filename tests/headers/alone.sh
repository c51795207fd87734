#!/usr/bin/env bash
# alone.sh <scratch> <source> "<anchor> ..." <compiler> <flag>...: compiles every header below <source>/include/k3spec as
# the whole of a unit: it must bring all that it uses. A header that includes an anchor, itself or through others, is
# compiled behind that anchor, which is compiled once (GCC's precompiled headers) and brings nothing that the header does
# not bring itself. Of several anchors the first counts. Nothing is done where nothing changed since all passed.
set -euo pipefail
scratch="$1" source="$2" anchors="$3"
shift 3
compile=("$@" "-I$source/include")
mkdir -p "$scratch"
cd "$scratch"

# What the result hangs on: the command, and all headers.
state="$({ printf '%s\n' "$anchors" "${compile[@]}" && "$1" --version && cat "${BASH_SOURCE[0]}" &&
  find "$source/include" "$source/tests/cuda_host/include" -type f -print0 2>/dev/null | sort -z | xargs -0 cat; } | sha256sum)"
[[ ! -e passed || "$(cat passed)" != "$state" ]] || exit 0
rm -rf passed units && mkdir units

# <header> <its anchor, or ->, a line for each.
find "$source/include/k3spec" -name '*.hpp' | sort | awk -v root="$source/include/" -v anchors="$anchors" '
  { header[++count] = substr($0, length(root) + 1); known[header[count]] }
  END {
    anchor_count = split(anchors, anchor, " ")
    for (i = 1; i <= count; ++i) read(header[i])
    for (i = 1; i <= count; ++i) {
      split("", seen)
      visit(header[i])
      for (a = 1; a <= anchor_count; ++a) if (anchor[a] != header[i] && anchor[a] in seen) break
      print header[i], a <= anchor_count ? anchor[a] : "-"
    }
    for (a = 1; a <= anchor_count; ++a) if (!(anchor[a] in known)) { print "no header: " anchor[a] >"/dev/stderr"; exit 1 }
  }
  function read(name, line) {
    included[name] = ""
    while ((getline line <(root name)) > 0) {
      if (line !~ /^[ \t]*#[ \t]*include[ \t]*</) continue
      gsub(/^[^<]*<|>.*$/, "", line)
      included[name] = included[name] " " line
    }
    close(root name)
  }
  function visit(name, names, n, i) {
    if (name in seen) return
    seen[name] = 1
    n = split(included[name], names, " ")
    for (i = 1; i <= n; ++i) visit(names[i])
  }' >list

# one <header> <anchor>: what the compiler says goes to a file of the header's.
one() {
  local unit="units/${1//\//_}.cpp" extra=()
  printf '#include <%s>\n#include <%s>  // and a second time\n' "$1" "$1" >"$unit"
  # Headers that need CUDA are plain C++ too: with the headers that stand in for CUDA's, whether or not it is installed.
  if [[ "$1" =~ ^k3spec/(cuda\.hpp|backend/cuda/.*|comm/nccl\.hpp)$ ]]; then
    extra+=("-I$source" "-I$source/tests/cuda_host/include")
  elif [[ "$2" != - ]]; then
    extra+=(-include "${2//\//_}.h")
  fi
  "${compile[@]}" "${extra[@]}" -c "$unit" -o "$unit.o" >"$unit.said" 2>&1 || { echo "$1" >"$unit.failed" && return 1; }
  rm -f "$unit.o"
}
anchor() {
  printf '#include <%s>\n' "$1" >"${1//\//_}.h"
  "${compile[@]}" -x c++-header "${1//\//_}.h" -o "${1//\//_}.h.gch" || rm -f "${1//\//_}.h.gch"  # then without
}
export -f one anchor
export source
declare -p compile >compile.sh
run() { xargs -P "$(nproc)" -L 1 bash -c "source compile.sh && $1 \"\$@\"" _; }
tr ' ' '\n' <<<"$anchors" | sed '/^$/d' | run anchor
run one <list || true
rm -f ./*.gch

cat units/*.said
if compgen -G 'units/*.failed' >/dev/null; then
  echo "not alone: $(cat units/*.failed | xargs)"
  exit 1
fi
[[ "$(ls units/*.said | wc -l)" == "$(wc -l <list)" && -s list ]] || { echo "not all headers were compiled" && exit 1; }
echo "$(wc -l <list) headers, each alone"
echo "$state" >passed
