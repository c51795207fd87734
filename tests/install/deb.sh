#!/usr/bin/env bash
# deb.sh <source> <build> <scratch> <cmake option>...: makes the Debian package, unpacks it and builds a program with
# what is in it. Exit status 77 where dpkg-deb is not there.
set -euo pipefail
source="$1" build="$2" scratch="$3"
shift 3
command -v dpkg-deb >/dev/null || exit 77
rm -rf "$scratch"
mkdir -p "$scratch/mine"

fail() {
  echo "$1"
  exit 1
}

(cd "$scratch" && cpack --config "$build/CPackConfig.cmake" -B "$scratch/packages") >"$scratch/log" 2>&1 ||
  fail "$(cat "$scratch/log")"
packages=("$scratch"/packages/*.deb)
[[ "${#packages[@]}" == 1 && -e "${packages[0]}" ]] || fail "not one package: ${packages[*]}"
version="$(sed -n 's/^#define K3SPEC_VERSION "\(.*\)"$/\1/p' "$source/include/k3spec/core/version.hpp")"
[[ "$(basename "${packages[0]}")" == "libk3spec-dev_${version}_all.deb" ]] || fail "its name is ${packages[0]}"
field() { dpkg-deb --field "${packages[0]}" "$1"; }
[[ "$(field Architecture)" == all ]] || fail "architecture $(field Architecture)"
# Of the packages that README.md names, those that bring headers; make, cmake and the compiler are recommended.
for library in $(sed -n 's/^.*on Debian these are the packages `\([^`]*\)`.*$/\1/p' "$source/README.md"); do
  [[ "$library" != *-dev || ", $(field Depends)," == *", $library"[\ ,]* ]] || fail "it does not depend on $library"
done
[[ "$(field Depends)" == *-dev* ]] || fail "it depends on $(field Depends)"

dpkg-deb --extract "${packages[0]}" "$scratch/root"
if grep -rF "$source" "$scratch/root"; then fail "the package names the source folder"; fi
(cd "$source/include" && find k3spec -name '*.hpp' | sort) >"$scratch/wanted"
(cd "$scratch/root/usr/include" && find k3spec -type f | sort) | diff "$scratch/wanted" - || fail "other headers"
for file in LICENSE CHANGELOG.md; do cmp "$source/$file" "$scratch/root/usr/share/doc/k3spec/$file"; done

cat >"$scratch/mine/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(mine LANGUAGES CXX)
find_package(k3spec REQUIRED)
add_executable(mine main.cpp)
target_link_libraries(mine PRIVATE k3spec::k3spec)
END
echo '#include <k3spec/core/error.hpp>
int main() { return k3spec::Error("a", "b", "c").what() == nullptr; }' >"$scratch/mine/main.cpp"
cmake -S "$scratch/mine" -B "$scratch/mine/build" -D "CMAKE_PREFIX_PATH=$scratch/root/usr" "$@" >"$scratch/log"
cmake --build "$scratch/mine/build" >>"$scratch/log" || fail "$(cat "$scratch/log")"
"$scratch/mine/build/mine"
