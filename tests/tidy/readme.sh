#!/bin/sh
# readme.sh SOURCE: the README shows examples/01_counter.c as it is, and the map in docs/source-tour.md
# names every source file of the four layers and no other. The version is the same everywhere.
set -eu
cd "$1"
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-readme-XXXXXX")
trap 'rm -rf "$work"' EXIT
status=0

awk '/^```$/ { inside = 0 } inside { print } /^```c$/ { inside = 1 }' README.md >"$work/shown"
# The file's head comment says what the README says around the example.
awk 'body || !/^\/\// { if (body || $0 != "") { body = 1; print } }' examples/01_counter.c >"$work/real"
[ -s "$work/real" ] || { echo "examples/01_counter.c is empty"; status=1; }
diff "$work/real" "$work/shown" || { echo "The README's example is not examples/01_counter.c."; status=1; }

for folder in runtime/* actors/* train models tune/* serve server; do
    for file in "$folder"/*.c; do
        [ -e "$file" ] || continue
        basename "$file" .c
    done | sort >"$work/files"
    # A row of the map: | `folder/` | words with `names` of files |
    # shellcheck disable=SC2016
    grep "^| \`$folder/\`" docs/source-tour.md | cut -d'|' -f4 | grep -o '`[a-z_0-9]*`' | tr -d '`' | sort >"$work/named"
    diff "$work/files" "$work/named" || { echo "The map of $folder/ in docs/source-tour.md is not what is there."; status=1; }
done
version=$(sed -n 's/^project(troupe VERSION \([0-9]*\.[0-9]*\)\..*/\1/p' CMakeLists.txt)
for said in README.md:"version $version:" cmake/troupe.map:"TROUPE_$version {" \
    docs/building.md:"find_package(troupe $version REQUIRED)" tests/install/CMakeLists.txt:"find_package(troupe $version REQUIRED)"; do
    grep -qF "${said#*:}" "${said%%:*}" || { echo "${said%%:*} does not say \"${said#*:}\"."; status=1; }
done
[ $status -eq 0 ] && echo "the README and the map show what is there"
exit $status
