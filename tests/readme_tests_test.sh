#!/usr/bin/env bash
# What README.md and the pages beside the headers name is there: headers, files of tests/ and examples/, and tests, by
# their names of `ctest` behind "test" or "tests" or in the table of drafts. Names are read from the files that add tests,
# so that one which this machine cannot build counts, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Names, also patterns of them: one a line. A room's executable is a test, so is a case that must not compile.
names() {
  grep -rhoE 'add_test\(NAME [^ )]+' --include=CMakeLists.txt tests bench | cut -d ' ' -f 2 | grep -v '^[$]' | sed 's/[$]{[^}]*}/*/g'
  grep -rhoE 'k3spec_add_build_test\([^ )]+' --include=CMakeLists.txt tests bench | cut -d '(' -f 2 | grep -v '^[$<]'
  for folder in tests/*/; do
    compgen -G "$folder*.cpp" >/dev/null && basename "$folder"
  done
  for file in tests/compile_fail/cases/*.cpp; do basename "$file" .cpp | sed 's/^/compile_fail./'; done
  for file in examples/0*.cpp; do basename "$file" .cpp | sed 's/^/example./'; done
}
mapfile -t known < <(names | grep -v '[*]' | sort -u)

is_there() {  # a name, or a pattern of names
  local name
  for name in "${known[@]}"; do
    # shellcheck disable=SC2053
    if [[ "$name" == $1 || "$1" == $name ]]; then return 0; fi
  done
  return 1
}
# What a page names, one a line. Tests of one mention may go on over a line's end.
mentions() {
  tr '\n' ' ' <"$1" | grep -oE '\btests? `[^`]+`((,| and|, and) `[^`]+`)*' | grep -oE '`[^`]+`' | tr -d '`' || true
}
cells() {  # of the table of drafts: behind a `|`, "refused:" or a comma
  sed '/^## /,$d' include/k3spec/run/README.md | grep -E '^\|' | grep -oE '(\||refused:|,) `[a-z0-9_.]+`' | grep -oE '`[^`]+`' | tr -d '`'
}

count=0 wrong=0
check() {  # page, name
  count=$((count + 1))
  is_there "$2" || { echo "$1: names the test $2, which is not there" && wrong=1; }
}
for page in README.md $(find include -name README.md); do
  while IFS= read -r name; do [[ "$name" == */* ]] || check "$page" "$name"; done < <(mentions "$page")
  # Not what is built: that stands in a build folder.
  while IFS= read -r file; do
    count=$((count + 1))
    [[ -e "$file" ]] || { echo "$page: names $file, which is not there" && wrong=1; }
  done < <(grep -oP '(?<![\w/])(tests|examples)/[\w./-]*\w' "$page" | sort -u)
  while IFS= read -r header; do
    [[ -e "include/k3spec/$header" ]] || { echo "$page: names $header, which is not there" && wrong=1; }
  done < <(grep -oP '(?<![\w/])(?!tests/|examples/|k3spec/|include/)[a-z_]+/[\w/]+\.hpp' "$page" | sort -u)
done
while IFS= read -r name; do check "the table of drafts" "$name"; done < <(cells)
((count > 60)) || { echo "found $count names alone" && wrong=1; }
# What this would miss if it took everything.
for name in trainer nobody compile_fail.nothing example.00; do
  if is_there "$name"; then echo "the test $name is not there, but was found" && wrong=1; fi
done
exit "$wrong"
