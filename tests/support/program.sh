# What tests of programs share. To be sourced, with `program` set; `dir` is theirs until they end.
set -uo pipefail
tiny=examples/data/k3-tiny
dir="$(mktemp -d)"
trap 'rm -rf "$dir"' EXIT

fail() {
  echo "$*"
  exit 1
}
expect() {  # status, part of the output, arguments of the program; its output is in `output`
  local status="$1" part="$2" found
  shift 2
  output="$("$program" "$@" 2>&1)"
  found=$?
  [[ $found -eq $status && "$output" == *"$part"* ]] ||
    fail "$(basename "$program") $*: found status $found and: $output; wanted status $status and: $part"
}
python_with() {  # packages, with commas: a Python that has them, if there is one
  local candidate
  for candidate in python3 /usr/bin/python3; do
    "$candidate" -c "import $1" 2>/dev/null && echo "$candidate" && return
  done
}
built_for() {  # the instruction set that a program says it was built for
  local version
  version="$("$1" --version)" && version="${version#*, built for }" && echo "${version%% (*}"
}
safetensors() {  # the header's text: a file without the data
  local length=${#1} i
  for ((i = 0; i < 8; ++i)); do printf "\\x$(printf %02x $((length >> 8 * i & 255)))"; done
  printf %s "$1"
}
poke_nan() {  # a draft's file: a float32 in its midst becomes NaN
  printf '\x00\x00\xc0\x7f' | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") / 16 * 8)) conv=notrunc status=none
}
