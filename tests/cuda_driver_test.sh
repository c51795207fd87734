#!/usr/bin/env bash
# What `--device cuda` answers without NVIDIA's driver and with drivers of our own making, by programs that are not compiled
# for cards. $1: a C++ compiler, then the programs. Each answer is one line on standard error and exit status 1, and a run leaves nothing behind.
set -uo pipefail
compiler="$1"
shift
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT

fail() {
  echo "$*"
  exit 1
}
driver() {  # name, source: a libcuda.so.1 in the folder of that name
  mkdir -p "$dir/$1"
  echo "$2" >"$dir/$1/driver.cpp"
  "$compiler" -shared -fPIC -o "$dir/$1/libcuda.so.1" "$dir/$1/driver.cpp" || fail "the driver $1 does not compile"
}
refuse() {  # name of the driver, what the line says was found and wanted (a pattern)
  local found status=0 line="${program##*/}: --device cuda: found $2"
  found="$(LD_LIBRARY_PATH="$dir/$1" "$program" --device cuda --target examples/data/k3-tiny "${rest[@]}" \
    2>&1 >"$dir/out")" || status=$?
  # shellcheck disable=SC2053
  [[ $status -eq 1 && "$found" == $line && "$found" != *$'\n'* && ! -s "$dir/out" && ! -e "$dir/run" ]] ||
    fail "$1: $program: found status $status and '$found' and '$(cat "$dir/out")', wanted 1 and '$line'"
}

version='extern "C" int cuDriverGetVersion(int* v) { *v = 13010; return 0; }'
init='extern "C" int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }'
count() { echo "extern \"C\" int cuDeviceGetCount(int* n) { *n = $1; return $2; }"; }
driver init_fails "extern \"C\" int cuInit(unsigned) { return 999; } $version $(count 1 0)"
driver init_finds_none "extern \"C\" int cuInit(unsigned) { return 100; } $version $(count 0 0)"
driver no_device "$init $version $(count 0 0)"
driver count_fails "$init $version $(count 1 3)"
driver one_device "$init $version $(count 1 0)"
driver eight_devices "$init $version $(count 8 0)"
driver no_init "$version $(count 1 0)"
driver no_count "$init $version"
driver no_version "$init $(count 1 0)"
mkdir "$dir/damaged"
echo "no library" >"$dir/damaged/libcuda.so.1"

device=", wanted a device that CUDA runs on"
not_compiled=", wanted --device cpu: of the programs train_draft alone computes on a card, where it is compiled for that"
not_compiled+=" (CUDA of k3spec_add_programs)"
for program in "$@"; do
  case "${program##*/}" in
    train_draft) rest=(--out "$dir/run") ;;
    *) rest=(--draft "$dir/nowhere") ;;
  esac
  refuse init_fails "an NVIDIA driver, but cuInit failed: code 999$device"
  refuse init_finds_none "an NVIDIA driver, but no device$device"
  refuse no_device "an NVIDIA driver, but no device$device"
  refuse count_fails "an NVIDIA driver, but cuDeviceGetCount failed: code 3$device"
  refuse no_init "an NVIDIA driver that has no cuInit$device"
  refuse no_count "an NVIDIA driver that has no cuDeviceGetCount$device"
  refuse no_version "an NVIDIA driver that has no cuDriverGetVersion$device"
  refuse damaged "an NVIDIA driver that cannot be loaded: *$device"
  refuse one_device "1 device, CUDA 13.1$not_compiled"
  refuse eight_devices "8 devices, CUDA 13.1$not_compiled"
  # Where a driver is installed, its absence cannot be shown.
  if [[ "$(ldconfig -p 2>/dev/null)" != *libcuda.so.1* ]]; then
    refuse nothing "no NVIDIA driver (libcuda.so.1 not found)$device"
  fi
done
