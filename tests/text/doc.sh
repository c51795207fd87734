#!/usr/bin/env bash
# doc.sh <source> <scratch> <doxygen>: what README.md says of the documentation, done where no build folder is. doxygen
# itself fails on any warning. What it wrote has README.md as its first page, the roofline with its picture, a topic for
# every room with all the room's headers, a sidebar, and a brief for every header, class, concept and function outside
# of classes.
set -euo pipefail
source="$1" scratch="$2" doxygen="$3"
rm -rf "$scratch"
mkdir -p "$scratch/bin"
cp -r "$source/Doxyfile" "$source/README.md" "$source/cmake" "$source/include" "$scratch"
mkdir "$scratch/bench"
cp "$source"/bench/{roofline.md,roofline.svg,card_step.md,card_kernels.md} "$scratch/bench"
ln -s "$(command -v "$doxygen")" "$scratch/bin/doxygen"
cd "$scratch"

fail() {
  echo "$1"
  exit 1
}

grep -qF '`doxygen` writes build/doc/index.html' README.md || fail "README.md does not say what writes the documentation"
PATH="$scratch/bin:$PATH" doxygen
html=build/doc
[[ -e "$html/index.html" ]] || fail "no $html/index.html"
grep -q 'header-only C++20 library' "$html/index.html" || fail "the first page is not README.md"
grep -q 'roofline.svg' "$html/md_bench_roofline.html" || fail "the page on the roofline has no picture"
[[ -e "$html/md_bench_card_step.html" ]] || fail "no page on what a step costs a card"
[[ -e "$html/md_bench_card_kernels.html" ]] || fail "no page on what kernels take of a card"
[[ -e "$html/roofline.svg" ]] || fail "no $html/roofline.svg"
grep -q '"Topics"' "$html/navtreedata.js" || fail "the sidebar has no topics"

if grep -lE '&lt;/(tt|table|code|em|b|a|p|pre)&gt;' "$html"/*.html | grep -v _source.html; then
  fail "these pages show tags as text: some Markdown was not understood, such as a link over two lines"
fi

# The rows of a list, each a line: the name, a tab, its brief.
rows() {
  sed -nE '/<tr id="row_/ { s/&#[0-9]+;//g; s/<span class="icon">.<\/span>//g; s/<td class="desc">/\t/; s/<[^>]*>//g; p; }' \
    "$html/$1.html"
}
for list in files annotated concepts modules; do
  [[ -n "$(rows "$list")" ]] || fail "$list.html: no rows"
  lacking="$(rows "$list" | awk -F '\t' '$2 == "" || $2 ~ /[Dd]efines:/ { print $1 }')"
  [[ -z "$lacking" ]] || fail "$list.html: no brief for: $lacking"
done

for folder in include/k3spec/*/; do
  room="$(basename "$folder")"
  rows modules | grep -q "^$room"$'\t' || fail "no topic for the room $room"
  find "$folder" -name '*.hpp' | while IFS= read -r header; do
    topic="$room"
    if [[ "$header" == */backend/cuda/* ]]; then topic=backend__cuda; fi
    grep -q ">$(basename "$header")</a>" "$html/group__$topic.html" || fail "$header is not in the topic $topic"
  done
done

(cat Doxyfile; echo "GENERATE_HTML = NO"; echo "GENERATE_XML = YES") | doxygen -
# Functions outside of classes need a brief; in a class a name may say it all, but what has a comment has a brief.
lacking="$(awk '
  FNR == 1 { in_group = FILENAME ~ /\/group__/ }
  /<memberdef / { wanted = /kind="(function|enum)"/ && !/prot="private"/; name = "" }
  wanted && name == "" && /<name>/ { gsub(/ *<\/?name>/, ""); name = $0 }
  wanted && /<briefdescription>$/ { getline; brief = !/<\/briefdescription>/ }
  wanted && /<detaileddescription>$/ { getline; detail = !/<\/detaileddescription>/ }
  wanted && /<location / && !brief && (in_group || detail) {
    match($0, /file="[^"]*" line="[0-9]*"/)
    print substr($0, RSTART, RLENGTH), name
  }
' build/xml/group__*.xml build/xml/class*.xml build/xml/struct*.xml | sort -u)"
[[ -z "$lacking" ]] || fail "no brief for: $lacking"
