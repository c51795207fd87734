#!/usr/bin/env bash
# extract_test.sh <scratch>: extract.awk on small headers and pages: what it takes in, and that it refuses all else.
set -euo pipefail
scratch="$1"
extract="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/extract.awk"
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch"

fail() {
  echo "$1"
  exit 1
}

printf '%s\n' '/// Text.' '/// ```cpp' '/// #include <map>' '/// int a;' '/// ```' 'struct A {' '  /// ```cpp' '  /// int b;' \
  '  /// ```' '};' '/// ```text' '/// a = b;' '/// ```' '/// \param x  what' '///           it is' '/// - item' \
  '///   goes on' >taken.hpp
printf '%s\n' '```cpp' 'int main() {}' '```' '```sh' 'ls' '```' '```python' 'import torch' '```' \
  '```cpp' '// examples/01.cpp' 'int main() { return program; }' '```' >taken.md
printf '%s\n' '```cpp' 'int elsewhere;' '```' >other.md
found="$(awk -f "$extract" -v elsewhere=other.md taken.hpp taken.md other.md)" || fail "refused what is right"
[[ "$(grep -c '^namespace example_' <<<"$found")" == 2 ]] || fail "wanted two examples, found: $found"
for line in '#include <map>' 'int a;' 'int b;' 'int main() {}' '#line 8 "taken.hpp"'; do
  grep -qxF "$line" <<<"$found" || fail "no line '$line' in: $found"
done
for word in elsewhere 'a = b' ls torch program; do
  if grep -qwF "$word" <<<"$found"; then fail "'$word' in: $found"; fi
done

refused() {  # <part of the sentence> <file> <line>...
  local wanted="$1" file="$2" found
  shift 2
  printf '%s\n' "$@" >"$file"
  if found="$(awk -f "$extract" -v output=/dev/null "$file" 2>&1)"; then fail "taken: $*"; fi
  [[ "$found" == "$file:"*"$wanted"* ]] || fail "wanted '$wanted', but: $found"
}
refused 'an indented line' a.hpp '/// Text:' '///' '///     int x;'
refused 'an indented line' a.hpp '/// Text' '///   a = b'
refused 'an indented line' a.md 'Text:' '' '    int x;'
refused 'code stands between' a.hpp '/// \code' '/// int x;' '/// \endcode'
refused 'code stands between' a.hpp '/// @code{.cpp}' '/// int x;' '/// @endcode'
refused 'a code block in `c++`' a.hpp '/// ```c++' '/// int x;' '/// ```'
refused 'a code block in ``' a.hpp '/// ```' '/// int x;' '/// ```'
refused 'a code block in `sh`' a.hpp '/// ```sh' '/// ls' '/// ```'
refused 'a code block in `python`' a.hpp '/// ```python' '/// import torch' '/// ```'
refused 'a code block does not end' a.hpp '/// ```cpp' '/// int x;' 'int y;'
refused 'begins with ///' a.hpp '/** Text */'
refused 'a second whole program' a.md '```cpp' 'int main() {}' '```' '```cpp' 'int main() {}' '```'
