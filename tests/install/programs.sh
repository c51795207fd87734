#!/usr/bin/env bash
# programs.sh <source> <build> <scratch> <random target>: does what README.md says under "Programs for a model of your
# own", word for word, with an installed k3spec, and what is refused there. The last argument is a program that makes a
# checkpoint: of a target that the bundled programs are not compiled for.
set -euo pipefail
source="$1" build="$2" scratch="$3" random_target="$4"
rm -rf "$scratch"
mkdir -p "$scratch/mine"
if command -v ccache >/dev/null; then CCACHE_DIR="$(ccache --get-config cache_dir)" && export CCACHE_DIR; fi
export HOME="$scratch/home"
CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" && export CMAKE_BUILD_PARALLEL_LEVEL
command -v make >/dev/null || export CMAKE_GENERATOR=Ninja

fail() {
  echo "$1"
  exit 1
}
block() {
  awk -v section="Programs for a model of your own" -v language="$1" -v number=1 -f "$source/tests/install/blocks.awk" \
    "$source/README.md"
}

cmake --install "$build" --prefix "$HOME/.local" >/dev/null
if grep -rF "$source" "$HOME/.local"; then fail "the installed files name the source folder"; fi
# Optimising takes far longer than running.
echo 'set(CMAKE_CXX_FLAGS_RELEASE -O0)' >"$scratch/quick.cmake"
export CMAKE_TOOLCHAIN_FILE="$scratch/quick.cmake"
cd "$scratch/mine"
block cmake >CMakeLists.txt
cp "$source/README.md" text.txt
"$random_target" --out model >/dev/null
# As somebody else's program would have written it: with a field that is not known here.
sed -i '1s/{/{"field_of_another_program": 7, /' model/config.json

# What is refused when configuring, in one sentence.
refused() {  # <part of the sentence> <cmake option>... ; in $scratch/other
  local wanted="$1" found
  shift
  if found="$(cmake -S "$scratch/other" -B "$scratch/refused" -D CMAKE_PREFIX_PATH="$HOME/.local" "$@" 2>&1)"; then
    fail "accepted: $(tail -1 "$scratch/other/CMakeLists.txt")"
  fi
  found="$(tr -s '[:space:]' ' ' <<<"$found")"
  [[ "$found" == *"$wanted"* ]] || fail "wanted '$wanted', but: $found"
}
mkdir "$scratch/other" && cp "$source/examples/own_model/mine.hpp" "$scratch/other"
other_line() {  # the last one of a CMakeLists.txt
  { grep -v k3spec_ CMakeLists.txt && echo "$1"; } >"$scratch/other/CMakeLists.txt"
}
other() { other_line "k3spec_add_programs($1)"; }  # its arguments
other 'mine HEADER mine.hpp TARGET Mine DRAFTS MineEagle3 your::Own'
refused "k3spec_add_programs(mine): found no type your::Own in $scratch/other/mine.hpp, wanted a config that is defined there"
other 'mine HEADER mine.hpp TARGET Mine DRAFTS Mine'
refused "k3spec_add_programs(mine): DRAFTS: found Mine, which is no draft's config, wanted one derived from k3spec::configs::Eagle3"
other 'mine HEADER mine.hpp TARGET Mine DRAFTS MineEagle3 DTYPES half'
refused "k3spec_add_programs(mine): DTYPES: found half, wanted float or bfloat16"
other 'mine HEADER mine.hpp TARGET Mine DRAFTS MineEagle3 CUDA'
refused "k3spec_add_programs(mine): CUDA: found "  # no toolkit, or the language not enabled
if command -v nvcc >/dev/null; then
  other_line 'enable_language(CUDA)
k3spec_add_programs(mine HEADER mine.hpp TARGET Mine DRAFTS MineEagle3 CUDA)'
  refused "CUDA: CMAKE_CUDA_ARCHITECTURES: found 75-real, wanted 80 or newer, or native" \
    -D CMAKE_CUDA_ARCHITECTURES="90;75-real"
fi
other 'mine HEADER other.hpp TARGET Mine DRAFTS MineEagle3'
refused "k3spec_add_programs(mine): HEADER: found no file $scratch/other/other.hpp, wanted one that defines Mine"
other 'mine HEADER mine.hpp TARGET Mine'
refused "k3spec_add_programs(mine): found no DRAFTS, wanted HEADER <header> TARGET <type> DRAFTS <type>..."
echo 'struct Mine {' >"$scratch/other/mine.hpp"
other 'mine HEADER mine.hpp TARGET Mine DRAFTS Mine'
refused "k3spec_add_programs(mine): HEADER $scratch/other/mine.hpp does not compile: "
other 'mine HEADER mine.hpp TARGET Mine DRAFTS MineEagle3'
refused "missing libraries, with their Debian packages: CLI11 (libcli11-dev)" -D CMAKE_DISABLE_FIND_PACKAGE_CLI11=ON

other_line 'k3spec_emit_config(mine.hpp MODEL nowhere NAME Mine)'
rm "$scratch/other/mine.hpp"
refused "k3spec_emit_config(mine.hpp): inspect: $scratch/other/nowhere/config.json: found No such file or directory, wanted" \
  -D CMAKE_DISABLE_FIND_PACKAGE_CLI11=OFF
other_line 'k3spec_emit_config(mine.hpp MODEL nowhere)'
refused "k3spec_emit_config(mine.hpp): found no NAME, wanted MODEL <folder> NAME <type>"

# Word for word. speculate itself fails where tokens differ from those of plain decoding.
bash -euo pipefail -c "$(block sh)" >"$scratch/log" 2>&1 || fail "$(cat "$scratch/log")"
for part in "model/config.json: agrees with Mine" "latest/config.json: agrees with MineDSpark" "draft: eagle3/latest" \
  "draft: dspark/latest" "field_of_another_program"; do
  grep -qF "$part" "$scratch/log" || fail "wanted '$part', but: $(cat "$scratch/log")"
done
[[ "$(grep -c '^\(eagle3\|dspark\) .* yes$' "$scratch/log")" == 2 ]] || fail "the same tokens: $(cat "$scratch/log")"

# The header that was written is the user's from then on.
echo '// my own' >>mine.hpp
cmake build >/dev/null
[[ "$(tail -1 mine.hpp)" == '// my own' ]] || fail "k3spec_emit_config wrote over mine.hpp"

expect() {  # <status> <part of the output> <program> <argument>...
  local status="$1" part="$2" found=0 output
  shift 2
  output="$("build/mine/$1" "${@:2}" 2>&1)" || found=$?
  [[ $found == "$status" && "$output" == *"$part"* && ($status == 0 || "$output" != *$'\n'*) ]] ||
    fail "$*: found status $found and: $output; wanted status $status and: $part"
}
# What is not compiled in is refused, with what is.
there="wanted one of those compiled in: MineEagle3 (eagle3 of backbone kimi_k3 and version 3), MineDSpark (dspark)"
train=(train_draft --target model --train text.txt --heldout text.txt --out other)  # which only one of these makes
expect 2 "--draft: found dflash, $there" "${train[@]}" --draft dflash
expect 2 "--draft: found eagle3 of backbone deepseek_v3, $there" "${train[@]}" --backbone deepseek_v3
expect 2 "--draft: found eagle3 of version 3.1, $there" "${train[@]}" --eagle3-version 3.1
expect 2 "--draft: found dspark and --config MineEagle3, $there" "${train[@]}" --draft dspark --config MineEagle3
expect 2 "--anchors: found it with --draft eagle3, wanted --draft dflash or dspark" "${train[@]}" --config MineEagle3 --anchors 2
expect 1 "--layers: found nothing, and num_hidden_layers 5, wanted enough for" "${train[@]}" --steps 1
expect 0 "dspark: 77913 trained parameters" "${train[@]}" --config MineDSpark --steps 1 --batch 1 --length 20 --eval-windows 1
tiny="$source/tests/data/drafts"
expect 1 "config.json: architectures: found a draft of kind dflash, $there" \
  speculate --target model --text text.txt --draft "$tiny/dflash_k3_tiny"
expect 1 "architectures: found a Kimi K3 draft, wanted one with DeepSeek-V3's block" \
  convert_draft --draft eagle3/latest --out engine
# A model of somebody's is not written over; the same seed gives the same model.
expect 1 "--out: found model/model.safetensors, which is there already, wanted a folder without a model" random_target --out model
expect 0 "Mine: " random_target --out again
cmp model/model.safetensors again/model.safetensors || fail "another model of the same seed"
expect 0 "Mine: " random_target --out third --seed 1
! cmp -s model/model.safetensors third/model.safetensors || fail "the same model of another seed"
