#!/bin/sh
# again.sh SOURCE: what has been compiled once is not compiled again because CMake ran again, as each
# command of ./dev lets it: every target's flags, definitions and folders are the same then. And
# ./dev demo and ./dev test build all that ./dev install installs.
set -eu
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-again-XXXXXX")
trap 'rm -rf "$work"' EXIT

configure() {
    cmake -G Ninja -S "$1" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DTROUPE_TESTS=OFF >"$work/log" 2>&1 ||
        { cat "$work/log"; exit 1; }
    grep -E '^  (FLAGS|DEFINES|INCLUDES|LINK_FLAGS|LINK_LIBRARIES) = ' "$work/build/build.ninja" >"$work/$2"
}
configure "$1" first
configure "$1" second
[ -s "$work/first" ] || { echo "nothing is compiled"; exit 1; }
if ! diff "$work/first" "$work/second" | head -n 20 | grep . >"$work/difference"; then
    [ "$(grep -c '^ *build release .*\$installed' "$1/dev")" -eq 3 ] ||
        { echo "./dev demo or ./dev test does not build what ./dev install installs"; exit 1; }
    echo "the same is compiled in the same way"
    exit 0
fi
cat "$work/difference"
echo "CMake asks for other commands when it runs again"
exit 1
