#!/usr/bin/env bash
# Units of a program that are compiled with less optimisation than the others calculate nothing: of a template that two
# units instantiate, the program has any one's. Arguments: the object files of programs with several units.
set -euo pipefail

# Does an object define what products, packets or kernels of the CPU are made of?
calculates() { nm --demangle --defined-only "$1" | grep -E 'k3spec::.*(detail::tile|Packet<|::cpu::)' >/dev/null; }

mains=0 others=0
for object in "$@"; do
  if [[ "$object" == */main.cpp.* ]]; then
    mains=$((mains + 1))
    if calculates "$object"; then
      echo "$object: found kernels in a unit that is little optimised, wanted them in the others alone"
      exit 1
    fi
  elif calculates "$object"; then
    others=$((others + 1))
  fi
done
# Both programs' main, and that kernels are known by these names.
((mains == 2 && others >= 2)) || { echo "found $mains units main.cpp and $others with kernels, wanted 2 and more"; exit 1; }
