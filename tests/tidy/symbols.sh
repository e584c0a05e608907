#!/bin/sh
# symbols.sh LIBRARY LIST: the release library exports what LIST names, all of it troupe_*, no more.
set -eu
library=$1 list=$2
found=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort)
strangers=$(echo "$found" | grep -v '^troupe_' || true)
[ -z "$strangers" ] || { echo "exported, but not troupe_*: $strangers"; exit 1; }
versions=$(nm -D --defined-only "$library" | awk '$2 != "A" && $3 !~ /@@TROUPE_/ { print $3 }')
[ -z "$versions" ] || { echo "exported without a version: $versions"; exit 1; }
expected=$(grep -v '^#' "$list")
if [ "$found" != "$expected" ]; then
    work=$(mktemp -d "${TMPDIR:-/tmp}/troupe-symbols-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    echo "$expected" >"$work/expected"
    echo "$found" >"$work/found"
    diff "$work/expected" "$work/found" || true
    echo "The exported symbols differ from $list. If that is meant, run ./dev symbols and commit the list."
    exit 1
fi
echo "$(echo "$found" | wc -l) symbols, as listed"
