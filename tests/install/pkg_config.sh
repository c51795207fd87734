#!/usr/bin/env bash
# pkg_config.sh <source> <build> <scratch> <compiler>: a program is built with what pkg-config says of an installed
# k3spec, whose version is the header's.
set -euo pipefail
source="$1" build="$2" scratch="$3" compiler="$4"
rm -rf "$scratch"
mkdir -p "$scratch"
cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
export PKG_CONFIG_PATH="$scratch/prefix/share/pkgconfig"
cat >"$scratch/main.cpp" <<'END'
#include <cstdio>

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/core/version.hpp>
#include <k3spec/io/json.hpp>

int main() { std::puts(fmt::format("{}", K3SPEC_VERSION).c_str()); }
END
options="$(pkg-config --cflags --libs k3spec)"
if [[ "$options" == *"$source/include"* || "$options" != *-ffp-contract=off* ]]; then
  echo "the options are $options"
  exit 1
fi
# shellcheck disable=SC2086  # several words
"$compiler" -o "$scratch/main" "$scratch/main.cpp" $options
wanted="$(pkg-config --modversion k3spec)"
[[ "$("$scratch/main")" == "$wanted" && "$wanted" == [0-9]*.[0-9]*.[0-9]* ]] || { echo "$wanted is not the version"; exit 1; }
