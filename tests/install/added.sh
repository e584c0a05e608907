#!/bin/sh
# added.sh SOURCE BUILD_TYPE|none [build]: a project that adds Troupe's folder to its own is configured and
# its sources find Troupe's headers; with `build` the library is built too, and its programs run.
set -eu
source=$1 type=$2
[ "$type" != none ] || type=
work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-added-XXXXXX")
trap 'rm -rf "$work"' EXIT
complain() { echo "$1"; cat "$work/log"; exit 1; }

cp "$source/tests/install/parent/CMakeLists.txt" "$source/tests/install/consumer.c" "$work"
cmake -G Ninja -S "$work" -B "$work/build" -DTROUPE_SOURCE="$source" \
    ${type:+-DCMAKE_BUILD_TYPE="$type"} >"$work/log" 2>&1 || complain "not configured"
! grep -i "gpu\|cuda" "$work/log" || complain "the build tells of GPUs, which no target uses"
cd "$work/build"
grep -q "^CMAKE_BUILD_TYPE:[A-Z]*=$type\$" CMakeCache.txt || complain "the cache has another build type"
cmake --install . --prefix "$work/prefix" >>"$work/log" 2>&1 || complain "not installed"
[ -z "$(find "$work/prefix" -type f 2>/dev/null)" ] || complain "Troupe is installed with its parent"
for name in troupe_troupe troupe_static troupe; do
    ninja CMakeFiles/consumer_$name.dir/consumer.c.o >>"$work/log" 2>&1 ||
        complain "consumer_$name does not compile"
done
if [ "${3:-}" = build ]; then
    ninja >>"$work/log" 2>&1 || complain "not built"
    for name in troupe_troupe troupe_static troupe; do
        ./consumer_$name >>"$work/log" 2>&1 || complain "consumer_$name failed"
    done
    [ ! -e troupe/tools/troupe ] || complain "the program troupe is built with its parent"
fi
