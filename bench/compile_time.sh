#!/usr/bin/env bash
# compile_time.sh [ROUNDS]: seconds of processor time to compile each umbrella header, and one EAGLE-3 training step at
# -O2, in turns; the least of each of ROUNDS (5), and how many times <Eigen/Core> that is. Beside nothing else.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
rounds="${1:-5}"
compiler="${CXX:-g++}"
flags=(-std=c++20 -march=x86-64-v3 -ffp-contract=off -fno-math-errno -fopenmp -DNDEBUG -I"$root/include"
  -isystem /usr/include/eigen3)
scratch="$(mktemp -d)"
trap 'rm -r "$scratch"' EXIT
echo '#include <Eigen/Core>' >"$scratch/eigen.cpp"
umbrellas=(layers drafts io target decode train all)
for name in "${umbrellas[@]}"; do echo "#include <k3spec/$name.hpp>" >"$scratch/$name.cpp"; done
cp "$root/bench/compile/training_step.cpp" "$scratch/step.cpp"
TIMEFORMAT='%U %S'
for _ in $(seq "$rounds"); do
  for name in eigen "${umbrellas[@]}" step; do
    how=(-fsyntax-only)
    [[ $name != step ]] || how=(-O2 -c -o "$scratch/step.o")
    echo "$name $({ time "$compiler" "${flags[@]}" "${how[@]}" "$scratch/$name.cpp"; } 2>&1)"
  done
done | awk '{
  seconds = $2 + $3
  if (!($1 in least)) order[++count] = $1
  if (!($1 in least) || seconds < least[$1]) least[$1] = seconds
}
END { for (i = 1; i <= count; ++i) printf "%-7s %6.2f s %5.2f\n", order[i], least[order[i]], least[order[i]] / least["eigen"] }'
