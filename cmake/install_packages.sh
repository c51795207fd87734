#!/usr/bin/env bash
# Installs the packages that k3spec builds with on Debian 12 and Ubuntu 24.04, if any is missing.
set -euo pipefail

required=(g++ cmake ninja-build ccache libeigen3-dev libfmt-dev rapidjson-dev libcli11-dev doctest-dev
          libbenchmark-dev libopenblas-dev)
# Tests that need one of these are left out (and said to be) without it.
optional=(clang libomp-dev clang-format-14 doxygen)

missing() {
  local package
  for package in "$@"; do
    [[ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null)" == ii* ]] || echo "$package"
  done
}

if ! command -v apt-get >/dev/null; then
  echo "No apt-get here; please see to it that these are installed: ${required[*]} (optional: ${optional[*]})"
  exit 0
fi

mapfile -t need < <(missing "${required[@]}")
mapfile -t want < <(missing "${optional[@]}")
if ((${#need[@]} + ${#want[@]} == 0)); then exit 0; fi

as_root=()
if ((EUID != 0)); then as_root=(sudo); fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q "$@" </dev/null; }

apt update || echo "apt-get update failed; trying with the package lists at hand"
if ((${#need[@]})); then apt install --no-install-recommends "${need[@]}"; fi
for package in "${want[@]}"; do
  apt install --no-install-recommends "$package" || echo "optional package $package could not be installed"
done
