#!/usr/bin/env bash
# check.sh with planted compilers and bounds: what it takes for a measurement, and what it refuses.
set -euo pipefail
check="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/check.sh"
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT

compiler() {  # name, status, what it says of a header of k3spec: Eigen's is 100M
  printf '#!/usr/bin/env bash\nif grep -q Eigen; then echo " TOTAL : 1.0 0.1 1.1 100M"; exit 0; fi\necho "%s" >&2\nexit %s\n' \
    "$3" "$2" >"$dir/$1"
  chmod +x "$dir/$1"
}
expect() {  # exit status, part of the output, bounds, compiler
  local status=0 found
  found="$("$check" "$dir/$3" "$dir/$4" -flag 2>&1)" || status=$?
  [[ $status -eq $1 && "$found" == *"$2"* ]] && return
  echo "check.sh $3 $4: found exit status $status and: $found"
  echo "wanted exit status $1 and: $2"
  exit 1
}

printf '# UMBRELLA MOST\n\nlayers 1.5\nall 2\n' >"$dir/bounds"
printf '# UMBRELLA MOST\n\n' >"$dir/none"
: >"$dir/empty"
compiler good 0 " TOTAL : 1.0 0.1 1.1 150M"
compiler rounded 0 " TOTAL : 1.0 0.1 1.1 151M"
compiler large 0 " TOTAL : 1.0 0.1 1.1 152M"
compiler silent 0 "" && compiler seconds 0 " TOTAL : 1.0 0.1 1.1" && compiler small 0 " TOTAL : 1.0 0.1 1.1 900k"
compiler failing 1 " TOTAL : 1.0 0.1 1.1 5M"
printf '#!/bin/sh\ncat >/dev/null\n' >"$dir/mute" && chmod +x "$dir/mute"

expect 0 "all      150 MB, 1.50 of <Eigen/Core>, at most 2.00: ok" bounds good
expect 0 "layers   151 MB, 1.51 of <Eigen/Core>, at most 1.50: ok" bounds rounded
expect 1 "layers   152 MB, 1.52 of <Eigen/Core>, at most 1.50: over" bounds large
expect 1 "none has no bounds" none good
expect 1 "empty has no bounds" empty good
expect 1 "" absent good
expect 1 "compile_cost: k3spec/layers.hpp: found '' as what is taken, wanted megabytes" bounds silent
expect 1 "compile_cost: k3spec/layers.hpp: found '1.1' as what is taken, wanted megabytes" bounds seconds
expect 1 "compile_cost: k3spec/layers.hpp: found '900k' as what is taken, wanted megabytes" bounds small
expect 1 "compile_cost: Eigen/Core: found '' as what is taken, wanted megabytes" bounds mute
expect 1 "compile_cost: k3spec/layers.hpp: does not compile" bounds failing
